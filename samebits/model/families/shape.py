"""The settings that Llama, Mistral, Qwen and Gemma call by the same names."""

from collections.abc import Mapping
from typing import NamedTuple

from samebits.model.families.keys import (
    check_head_dim,
    check_heads,
    take_head_dim,
    vocab_size_of,
)
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource

MAX_LAYERS = 10_000
"""More is damage: a list of names is made for each before the file is looked at."""


class Shape(NamedTuple):
    """Sizes of a decoder, named as in ModelConfig."""

    num_layers: int
    width: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_width: int
    vocab_size: int
    context_len: int
    norm_eps: float


def shape_from_gguf(settings: Settings, tensors: Mapping[str, RowSource]) -> Shape:
    """Take the sizes from GGUF metadata.

    Raises:
        ConfigError: One is absent, wrong or contradicts another.
    """
    width = settings.take_int("embedding_length")
    num_heads = settings.take_int("attention.head_count")
    num_kv_heads = settings.take_int("attention.head_count_kv", num_heads)
    check_heads(num_heads, num_kv_heads, settings)
    head_dim = settings.take_int("attention.key_length", max(1, width // num_heads))
    settings.require("attention.value_length", head_dim)
    return Shape(
        num_layers=settings.take_int("block_count", most=MAX_LAYERS),
        width=width,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=check_head_dim(head_dim, settings),
        ffn_width=settings.take_int("feed_forward_length"),
        vocab_size=vocab_size_of(settings, tensors),
        context_len=settings.take_int("context_length"),
        norm_eps=settings.take_float("attention.layer_norm_rms_epsilon"),
    )


def shape_from_folder(settings: Settings, head_dim: int | None = None) -> Shape:
    """Take the sizes from a config.json; head_dim is the family's own default, if it has one.

    Raises:
        ConfigError: One is absent, wrong or contradicts another.
    """
    width = settings.take_int("hidden_size")
    num_heads = settings.take_int("num_attention_heads")
    num_kv_heads = settings.take_int("num_key_value_heads", num_heads)
    check_heads(num_heads, num_kv_heads, settings)
    if head_dim is None:
        head_dim = take_head_dim(settings, width, num_heads)
    else:
        head_dim = check_head_dim(settings.take_int("head_dim", head_dim), settings)
    return Shape(
        num_layers=settings.take_int("num_hidden_layers", most=MAX_LAYERS),
        width=width,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        ffn_width=settings.take_int("intermediate_size"),
        vocab_size=settings.take_int("vocab_size"),
        context_len=settings.take_int("max_position_embeddings"),
        norm_eps=settings.take_float("rms_norm_eps", 1e-6),
    )
