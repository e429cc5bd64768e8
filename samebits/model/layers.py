"""The weights of one transformer layer, taken in by an Arithmetic, and the canonical tensor names.

Names: `embed`, `norm`, `head` (absent when tied), and for layer i, `layers.{i}.` followed by
`attn_norm`, `q`, `k`, `v`, `o`, `q_bias`, `k_bias`, `v_bias` (with attention_bias), `q_norm`,
`k_norm` (with qk_norm), `ffn_norm`, `gate`, `up`, `down`, `attn_post_norm`, `ffn_post_norm` (with
post_norms). A vector is one row; a norm weight is the whole factor, Gemma's one included.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ModelFileError
from samebits.model.config import ModelConfig, RopeConfig
from samebits.model.tensor import RowSource
from samebits.numerics.arithmetic import Arithmetic, Array
from samebits.numerics.values import AttentionShape, HeadNorms, RopeTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer, ready to run."""

    shape: AttentionShape
    table: RopeTable
    attn_norm: Array
    qkv: Any
    """q, k and v stacked in one linear, with their biases."""
    head_norms: HeadNorms | None
    o: Any
    attn_post_norm: Array | None
    ffn_norm: Array
    gate_up: Any
    """gate and up stacked in one linear."""
    down: Any
    ffn_post_norm: Array | None

    def named_arrays(self, arithmetic: Arithmetic) -> Iterator[tuple[str, NDArray[Any]]]:
        """Walk the layer's weights in a fixed order."""
        for name in ("qkv", "o", "gate_up", "down"):
            for array in arithmetic.weight_arrays(getattr(self, name)):
                yield name, array
        for name in ("attn_norm", "ffn_norm", "attn_post_norm", "ffn_post_norm"):
            if (vector := getattr(self, name)) is not None:
                yield name, vector
        if self.head_norms is not None:
            yield "q_norm", self.head_norms.query
            yield "k_norm", self.head_norms.key


def find_tensor(tensors: Mapping[str, RowSource], name: str, shape: tuple[int, int]) -> RowSource:
    """Look a tensor up and check its shape.

    Raises:
        ModelFileError: It is missing or of another shape.
    """
    if name not in tensors:
        raise ModelFileError(expected=f"a tensor for {name}", found="none in the model's files")
    if tensors[name].shape != shape:
        raise ModelFileError(expected=f"{name} of shape {shape}", found=str(tensors[name].shape))
    return tensors[name]


def read_vector(tensors: Mapping[str, RowSource], name: str, size: int) -> NDArray[np.float32]:
    """Read a (size,) vector, kept as one row."""
    return find_tensor(tensors, name, (1, size)).read_rows(0, 1).reshape(size)


def make_shape(config: ModelConfig, index: int) -> AttentionShape:
    """Describe the attention of one layer."""
    windowed = bool(config.window_layers) and config.window_layers[index]
    return AttentionShape(
        num_heads=config.num_heads,
        num_kv_heads=config.num_kv_heads,
        head_dim=config.head_dim,
        scale=config.attention_scale,
        window_tokens=config.window_tokens if windowed else 0,
    )


def load_layer(
    config: ModelConfig,
    index: int,
    tensors: Mapping[str, RowSource],
    tables: Mapping[RopeConfig, RopeTable],
    arithmetic: Arithmetic,
) -> Layer:
    """Read, check and take in all weights of layer `index`.

    Raises:
        ModelFileError: A tensor is missing, of another shape, or not finite.
    """
    reader = LayerReader(config, index, tensors, arithmetic)
    shape = make_shape(config, index)
    rope = (config.rope_local or config.rope) if shape.window_tokens else config.rope
    width, q_width = config.width, config.num_heads * config.head_dim
    return Layer(
        shape=shape,
        table=tables[rope],
        attn_norm=reader.vector("attn_norm"),
        qkv=reader.qkv(),
        head_norms=reader.head_norms(),
        o=reader.linear({"o": width}, q_width),
        attn_post_norm=reader.vector("attn_post_norm") if config.post_norms else None,
        ffn_norm=reader.vector("ffn_norm"),
        gate_up=reader.linear({"gate": config.ffn_width, "up": config.ffn_width}, width),
        down=reader.linear({"down": width}, config.ffn_width),
        ffn_post_norm=reader.vector("ffn_post_norm") if config.post_norms else None,
    )


class LayerReader:
    """Read the tensors of one layer by their short names."""

    def __init__(
        self,
        config: ModelConfig,
        index: int,
        tensors: Mapping[str, RowSource],
        arithmetic: Arithmetic,
    ) -> None:
        self.config = config
        self.prefix = f"layers.{index}."
        self.tensors = tensors
        self.arithmetic = arithmetic

    def vector(self, name: str) -> Array:
        """Take in a norm weight of the residual width."""
        values = read_vector(self.tensors, self.prefix + name, self.config.width)
        return self.arithmetic.load_vector(values)

    def linear(
        self, outputs: Mapping[str, int], num_inputs: int, biases: tuple[str, ...] = ()
    ) -> Any:
        """Take in tensors stacked in one linear; outputs: rows of each tensor by name."""
        sources = [
            find_tensor(self.tensors, self.prefix + name, (n, num_inputs))
            for name, n in outputs.items()
        ]
        vectors = [
            read_vector(self.tensors, self.prefix + bias, n)
            for bias, n in zip(biases, outputs.values(), strict=bool(biases))
        ]
        return self.arithmetic.load_linear(sources, vectors)

    def qkv(self) -> Any:
        """Take in q, k and v as one linear."""
        c = self.config
        kv = c.num_kv_heads * c.head_dim
        biases = ("q_bias", "k_bias", "v_bias") if c.attention_bias else ()
        return self.linear({"q": c.num_heads * c.head_dim, "k": kv, "v": kv}, c.width, biases)

    def head_norms(self) -> HeadNorms | None:
        """Take in the norms of q and k heads, if the family has them."""
        if not self.config.qk_norm:
            return None
        query, key = (
            self.arithmetic.load_vector(
                read_vector(self.tensors, self.prefix + name, self.config.head_dim)
            )
            for name in ("q_norm", "k_norm")
        )
        return HeadNorms(query=query, key=key, eps=self.config.norm_eps)
