"""Shapes that no companion moves: which models can be held in one, and the mask that always stands.

transformers drops an attention mask where no row of a batch has padding, and then another kernel
runs: companions would choose the kernel. Here the mask is always made, through transformers' own
registry of attention functions. Runs where torch is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from samebits.errors import ConfigError
from samebits.remedies.reader import list_arguments

MASKED = "samebits_masked_sdpa"
ATTENTIONS = {"sdpa": MASKED, "eager": "eager"}
"""What a model has, and what it runs with in a fixed shape; eager attention always has a mask."""
SHARED_ROPES = ("dynamic", "longrope")
"""Rotary embeddings that the longest row of a batch scales for all rows."""
ALONE = 'shape="alone" takes such a model.'


def make_mask(*args: Any, **kwargs: Any) -> Any:
    """Make the mask that sdpa would get, even where it could be left out."""
    return sdpa_mask(*args, **(kwargs | {"allow_is_causal_skip": False}))


AttentionInterface.register(MASKED, sdpa_attention_forward)
AttentionMaskInterface.register(MASKED, make_mask)


@contextmanager
def masked(model: Any) -> Iterator[None]:
    """Let a model always make its masks, meanwhile.

    Raises:
        ConfigError: Its attention cannot be set.
    """
    before = model.config._attn_implementation
    model.set_attn_implementation(ATTENTIONS[before])
    try:
        if model.config._attn_implementation != ATTENTIONS[before]:
            raise ConfigError(
                expected="a model whose attention function can be chosen",
                found=f"{type(model).__name__} keeps {before}",
                remedy=ALONE,
            )
        yield
    finally:
        model.set_attn_implementation(before)


def check_model(model: Any) -> None:
    """Refuse a model that no shape makes stable.

    Raises:
        ConfigError: It is on several devices, wrapped, or no decoder with a KV cache.
    """
    devices = sorted({str(values.device) for values in model.parameters()})
    if len(devices) != 1 or devices == ["meta"]:
        raise ConfigError(
            expected="a model whose weights are on one device",
            found=", ".join(devices) or "no weights",
            remedy="Load it without device_map, or with one device.",
        )
    if hasattr(model, "_orig_mod"):
        raise ConfigError(expected="a model that is not compiled", found=type(model).__name__)
    if getattr(model.config, "is_encoder_decoder", False):
        raise ConfigError(expected="a decoder", found=f"{type(model).__name__}, an encoder-decoder")
    if not takes(model, "cache", "past_key_values"):
        raise ConfigError(
            expected="a model whose forward takes a KV cache",
            found=f"{type(model).__name__}: {', '.join(sorted(list_arguments(model)))}",
        )


def check_fixed(model: Any) -> None:
    """Refuse a model whose rows look at each other, or at the padding, in one batch.

    Raises:
        ConfigError: The message names what would leak, and what takes such a model.
    """
    for name, found in list_leaks(model):
        raise ConfigError(expected=name, found=found, remedy=ALONE)


def list_leaks(model: Any) -> Iterator[tuple[str, str]]:
    """List what companions would reach a row through: what is expected, what was found."""
    config = model.config.get_text_config()
    attentions = sorted({str(x._attn_implementation) for x in list_configs(model)})
    if len(attentions) != 1 or attentions[0] not in ATTENTIONS:
        yield f"attention by one of {', '.join(ATTENTIONS)}", ", ".join(attentions)
    if not takes(model, "attention_mask"):
        yield "a model whose forward takes attention_mask", type(model).__name__
    experts = [name for name in vars(config) if is_count_of_experts(name, config)]
    if experts:
        yield (
            "a model without experts: how many rows meet at one depends on companions",
            f"{experts[0]} {getattr(config, experts[0])}",
        )
    if ropes := sorted(set(list_ropes(config)) & set(SHARED_ROPES)):
        yield "rotary embeddings that no longer companion scales", ", ".join(ropes)


def is_count_of_experts(name: str, config: Any) -> bool:
    """Answer whether a setting counts experts, and there are some."""
    value = getattr(config, name)
    return "expert" in name and name.startswith(("num_", "n_")) and bool(value)


def list_ropes(config: Any) -> list[str]:
    """List the types of rotary embedding that a configuration names, for all its layers."""
    told = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    layers = [value for value in told.values() if isinstance(value, dict)]
    found = [part.get("rope_type", part.get("type")) for part in (told, *layers)]
    return [str(name) for name in found if name]


def list_configs(model: Any) -> list[Any]:
    """List the configurations by which a model's parts choose their attention, each once."""
    found = {id(model.config): model.config}
    for part in model.modules():
        config = getattr(part, "config", None)
        if hasattr(config, "_attn_implementation"):
            found[id(config)] = config
    return list(found.values())


def takes(model: Any, *names: str) -> bool:
    """Answer whether a forward takes one of these; who names no argument hands all of them on."""
    arguments = list_arguments(model)
    return "input_ids" not in arguments or not arguments.isdisjoint(names)
