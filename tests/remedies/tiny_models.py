"""Tiny models of several families with random weights, and prompts of many lengths."""

from typing import Any

FAMILIES = ("llama", "qwen2", "mistral", "gemma3", "gemma2")
"""mistral and both gemmas have sliding windows; gemma2 needs eager attention."""
BUCKETS = (16, 48)
PROMPTS = [[(i * 7 + j * 3 + 1) % 256 for j in range(1 + (i * 5) % 40)] for i in range(17)]
"""Lengths 1 to 38, for both buckets; two fill a bucket."""
PROMPTS[3], PROMPTS[4] = [5] * 16, list(range(48))


def make_model(family: str = "llama", dtype: str = "float32", **changes: Any) -> Any:
    import torch
    import transformers

    sizes = {
        "vocab_size": 257,
        "hidden_size": 64,
        "intermediate_size": 176,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,
        "eos_token_id": None,
        "bos_token_id": None,
        "pad_token_id": 0,
    }
    layers = ["sliding_attention", "full_attention"]
    own: dict[str, tuple[str, dict[str, Any]]] = {
        "llama": ("Llama", {}),
        "qwen2": ("Qwen2", {}),
        "mistral": ("Mistral", {"sliding_window": 8}),
        "gemma3": ("Gemma3Text", {"sliding_window": 8, "head_dim": 16, "layer_types": layers}),
        "gemma2": (
            "Gemma2",
            {"sliding_window": 8, "head_dim": 16, "attn_implementation": "eager"},
        ),
    }
    name, more = own[family]
    config = getattr(transformers, f"{name}Config")(**(sizes | more | changes))
    torch.manual_seed(1)
    model = getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)
    for name, values in model.named_parameters():
        if name.endswith("norm.weight"):  # All ones would hide what a product rounds.
            torch.nn.init.uniform_(values, 0.5, 1.5)
    return model.to(getattr(torch, dtype)).eval()


def is_same_bits(one: Any, other: Any) -> bool:
    """Answer whether two tensors have one dtype, one shape and the same bits: -0 is not 0."""
    import torch

    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    pair = [values.contiguous().reshape(-1).view(torch.uint8) for values in (one, other)]
    return torch.equal(*pair)
