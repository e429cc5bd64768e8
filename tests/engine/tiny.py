"""A model small enough for the slowest kernels: random weights, bytes as tokens."""

import codecs
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.engine import Engine, Limits
from samebits.model.config import Activation, ModelConfig, RopeConfig
from samebits.model.decoder import Decoder
from samebits.model.tensor import RowSource
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.select import select_arithmetic
from samebits.record.digest import tagged_digest

EOS = 256
CONFIG = ModelConfig(
    family="llama",
    num_layers=2,
    width=32,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    ffn_width=64,
    vocab_size=260,
    context_len=512,
    norm_eps=1e-5,
    activation=Activation.SILU,
    rope=RopeConfig(theta=10000.0),
    attention_scale=0.25,
)


@dataclass(frozen=True)
class MatrixInMemory:
    """A weight held as float32."""

    values: NDArray[np.float32]

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape[0], self.values.shape[1]

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        return self.values[start:stop]

    def read_picked(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.values[rows]


def make_tensors(config: ModelConfig = CONFIG, seed: int = 0) -> Mapping[str, RowSource]:
    """Draw weights of a spread that keeps logits lively and free of ties."""
    rng = np.random.default_rng(seed)
    kv = config.num_kv_heads * config.head_dim
    heads = config.num_heads * config.head_dim
    shapes = {"embed": (config.vocab_size, config.width), "norm": (1, config.width)}
    for i in range(config.num_layers):
        shapes |= {
            f"layers.{i}.attn_norm": (1, config.width),
            f"layers.{i}.ffn_norm": (1, config.width),
            f"layers.{i}.q": (heads, config.width),
            f"layers.{i}.k": (kv, config.width),
            f"layers.{i}.v": (kv, config.width),
            f"layers.{i}.o": (config.width, heads),
            f"layers.{i}.gate": (config.ffn_width, config.width),
            f"layers.{i}.up": (config.ffn_width, config.width),
            f"layers.{i}.down": (config.width, config.ffn_width),
        }
    return {
        name: MatrixInMemory(rng.standard_normal(shape).astype(np.float32) * np.float32(0.5))
        for name, shape in shapes.items()
    }


class ByteDecoder:
    """UTF-8 as it comes; ids from 256 on are no text."""

    def __init__(self) -> None:
        self.utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        return self.utf8.decode(bytes([token_id])) if token_id < 256 else ""

    def flush(self) -> str:
        return self.utf8.decode(b"", final=True)


@dataclass(frozen=True)
class ByteTokenizer:
    """One token a byte."""

    eos_ids: frozenset[int] = frozenset({EOS})
    digest: str = field(default_factory=lambda: tagged_digest("test", b"bytes"))

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        return list(text.encode())

    def stream_decoder(self) -> ByteDecoder:
        return ByteDecoder()


def make_decoder(arithmetic: Arithmetic | None = None, seed: int = 0) -> Decoder:
    """Load the tiny model; sb1 over the kernels that are best here unless told otherwise."""
    chosen = arithmetic or select_arithmetic("sb1", threads=1)
    return Decoder(CONFIG, make_tensors(seed=seed), chosen)


SHARED = make_decoder()
"""Loaded once: a decoder has no state."""


def make_engine(decoder: Decoder = SHARED, **limits: Any) -> Engine:
    """Build an engine with small pages."""
    sizes = {"page_tokens": 16, "kv_tokens": 4096, **limits}
    return Engine(
        decoder,
        ByteTokenizer(),
        limits=Limits(**sizes),
        file_digest=lambda: tagged_digest("test", b"file"),
    )


def make_prompts(count: int, seed: int = 1, longest: int = 70) -> list[list[int]]:
    """Draw prompts of 1 to `longest` tokens."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, rng.integers(1, longest + 1)).tolist() for _ in range(count)]
