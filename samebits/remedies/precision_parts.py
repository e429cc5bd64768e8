"""Where the parts of a transformers model are: found by what they are and how they are named."""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from samebits.errors import ConfigError

PARTS = ("all", "attention", "logits", "norms", "residual")
NEEDED = {
    "attention": ("attention",),
    "logits": ("logits",),
    "norms": ("norms",),
    "residual": ("embedding", "block norms"),
}
"""What must be found for a part."""
Found = tuple[nn.Module, ...]


def find_parts(model: Any, asked: Sequence[str]) -> Mapping[str, Found]:
    """Find the modules of every kind.

    Raises:
        ConfigError: What a part needs is not there; the message lists what is.
    """
    found = list_kinds(model)
    for part in asked:
        missing = [kind for kind in NEEDED.get(part, ()) if not found[kind]]
        if missing:
            there = ", ".join(f"{len(found[kind])} of {kind}" for kind in sorted(found))
            kinds = sorted({type(module).__name__ for module in model.modules()})
            raise ConfigError(
                expected=f"{' and '.join(missing)} in {type(model).__name__}, for part {part}",
                found=f"{there}; modules {', '.join(kinds)}",
            )
    return found


def list_kinds(model: Any) -> dict[str, Found]:
    """List the modules of each kind, which may be none."""
    named = list(model.named_modules())
    attention = {name: module for name, module in named if is_attention(module)}
    norms = {name: module for name, module in named if is_norm(module)}
    inside = tuple(f"{name}." for name in attention)
    between = [module for name, module in norms.items() if not name.startswith(inside or "\0")]
    head = model.get_output_embeddings()
    embedding = model.get_input_embeddings()
    return {
        "attention": tuple(attention.values()),
        "rotary": tuple(x for _, x in named if type(x).__name__.endswith("RotaryEmbedding")),
        "norms": tuple(norms.values()),
        "block norms": tuple(between),
        "logits": () if head is None else (head,),
        "embedding": () if embedding is None else (embedding,),
    }


def is_attention(module: nn.Module) -> bool:
    """Answer whether a module is a layer's attention, as transformers names and makes it."""
    return type(module).__name__.endswith("Attention") and hasattr(module, "layer_idx")


def is_norm(module: nn.Module) -> bool:
    """Answer whether a module is a norm: by its class, or torch's own."""
    is_named = type(module).__name__.endswith(("RMSNorm", "LayerNorm"))
    return is_named and not any(True for _ in module.children())
