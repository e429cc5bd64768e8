"""Ordinary floating-point arithmetic: the inverse control, and the baseline that is audited.

Sums run in whatever order BLAS and NumPy like, attention goes page by page with a running rescale
as flash attention does, so that batch, chunks, pages and threads reach the bits. plain-f64 is the
yardstick of quality. bfloat16 numbers are kept in float32 arrays and rounded where PyTorch would
store them. Promises nothing about bits.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ConfigError
from samebits.numerics.arithmetic import Array, Walk, WeightRows
from samebits.numerics.order_free import Stacked, block_rows
from samebits.numerics.threads import BlasThreads
from samebits.numerics.values import AttentionShape, HeadNorms, RopeTable, Rows

PRECISIONS: dict[str, type[np.floating[Any]]] = {
    "plain-f64": np.float64,
    "plain-f32": np.float32,
    "plain-bf16": np.float32,
}


class PlainWeight(NamedTuple):
    """A linear in the arithmetic's precision."""

    matrix: Array
    """(N, K)."""
    bias: Array | None
    """(N,) or None."""


class PlainCache(NamedTuple):
    """Keys and values of one layer, each (pages, G, P, D)."""

    keys: Array
    values: Array


class Running(NamedTuple):
    """A softmax under way: what the pages so far add up to."""

    largest: Array
    """(G, rows), largest score so far."""
    total: Array
    """(G, rows), sum of weights relative to it."""
    mixed: Array
    """(G, rows, D), values weighted likewise."""


def round_bfloat16(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Round to the nearest bfloat16, ties to even; still a float32 array. Finite numbers only."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    bits &= np.uint32(0xFFFF0000)
    return bits.view(np.float32)


class Plain:
    """Compute in float64, float32 or bfloat16.

    Raises:
        ConfigError: The name is not plain-f64, plain-f32 or plain-bf16.
    """

    def __init__(self, name: str, *, threads: int = 1) -> None:
        if name not in PRECISIONS:
            raise ConfigError(expected=f"one of {', '.join(PRECISIONS)}", found=name)
        self.name = name
        self.dtype = PRECISIONS[name]
        self.blas = BlasThreads(threads)

    @property
    def threads(self) -> int:
        """Threads of BLAS really in force."""
        return self.blas.apply()

    def store(self, x: Array) -> Array:
        """Round as a store to memory would: to bfloat16 under plain-bf16, else not at all."""
        return round_bfloat16(x) if self.name == "plain-bf16" else x

    def load_linear(
        self, sources: Sequence[WeightRows], biases: Sequence[NDArray[np.float32]] = ()
    ) -> PlainWeight:
        """Keep the stacked sources in this precision."""
        stack = Stacked(sources)
        matrix = np.empty(stack.shape, self.dtype)
        step = block_rows(stack.shape[1])
        for start in range(0, len(matrix), step):
            stop = min(start + step, len(matrix))
            matrix[start:stop] = self.store(stack.read_rows(start, stop))
        return PlainWeight(matrix, self.load_vector(np.concatenate(biases)) if biases else None)

    def load_vector(self, values: NDArray[np.float32]) -> Array:
        """Keep a vector in this precision."""
        return self.store(values).astype(self.dtype)

    def weight_arrays(self, weight: PlainWeight) -> tuple[Array, ...]:
        """Give the arrays that define a loaded linear, for a digest."""
        return (weight.matrix,) if weight.bias is None else (weight.matrix, weight.bias)

    def make_cache(
        self, *, num_layers: int, num_pages: int, page_tokens: int, shape: AttentionShape
    ) -> list[PlainCache]:
        """Build an empty cache in this precision, one a layer."""
        size = (num_pages, shape.num_kv_heads, page_tokens, shape.head_dim)
        return [
            PlainCache(np.zeros(size, self.dtype), np.zeros(size, self.dtype))
            for _ in range(num_layers)
        ]

    def embed(self, rows: NDArray[np.float32], scale: float) -> Array:
        """Scale embedding rows."""
        return self.store(self.store(rows).astype(self.dtype) * self.dtype(scale))

    def linear(self, x: Array, weight: PlainWeight, residual: Array | None = None) -> Array:
        """(R, K) to (R, N)."""
        self.blas.apply()
        y = x @ weight.matrix.T
        if weight.bias is not None:
            y += weight.bias
        y = self.store(y)
        return y if residual is None else self.store(y + residual)

    def rms_norm(self, x: Array, weight: Array, eps: float) -> Array:
        """(..., K) to (..., K)."""
        mean = np.square(x).mean(axis=-1, keepdims=True)
        normed = self.store(x / np.sqrt(mean + self.dtype(eps)))
        return self.store(normed * weight)

    def rope_append(
        self,
        qkv: Array,
        shape: AttentionShape,
        norms: HeadNorms | None,
        table: RopeTable,
        rows: Rows,
        cache: PlainCache,
    ) -> Array:
        """Rotate q and k, cache k and v, return q (R, H, D)."""
        heads = qkv.reshape(len(qkv), -1, shape.head_dim)
        q, k, v = np.split(heads, [shape.num_heads, shape.num_heads + shape.num_kv_heads], axis=1)
        if norms is not None:
            q = self.rms_norm(q, norms.query, norms.eps)
            k = self.rms_norm(k, norms.key, norms.eps)
        page, offset = np.divmod(rows.slots, cache.keys.shape[2])
        cache.keys[page, :, offset] = self.rotate(k, table, rows)
        cache.values[page, :, offset] = v
        return self.rotate(q, table, rows)

    def rotate(self, x: Array, table: RopeTable, rows: Rows) -> Array:
        """Rotate halves of each head (R, heads, D)."""
        c = self.store(table.cos[rows.positions])[:, None]
        s = self.store(table.sin[rows.positions])[:, None]
        a, b = np.split(x, 2, axis=-1)
        first = self.store(a * c) - self.store(b * s)
        second = self.store(b * c) + self.store(a * s)
        return self.store(np.concatenate([first, second], axis=-1))

    def attention(self, q: Array, shape: AttentionShape, rows: Rows, cache: PlainCache) -> Array:
        """(R, H, D) to (R, H * D), one sequence after another."""
        self.blas.apply()
        out = np.empty_like(q)
        for s, (start, stop) in enumerate(zip(rows.starts[:-1], rows.starts[1:], strict=True)):
            if start < stop:
                positions = rows.positions[start:stop]
                out[start:stop] = self.attend(q[start:stop], positions, shape, rows.pages[s], cache)
        return out.reshape(len(q), -1)

    def attend(
        self,
        q: Array,
        positions: NDArray[np.int32],
        shape: AttentionShape,
        pages: NDArray[np.int32],
        cache: PlainCache,
    ) -> Array:
        """Attend one sequence's rows (n, H, D), page by page."""
        n, _, width = q.shape
        page_tokens = cache.keys.shape[2]
        grouped = q.transpose(1, 0, 2).reshape(shape.num_kv_heads, -1, width)
        grouped = grouped * self.dtype(shape.scale)
        at = np.tile(positions, shape.num_heads // shape.num_kv_heads)[:, None]
        running = start_running(grouped)
        for index in range(int(positions[-1]) // page_tokens + 1):
            behind = at - (np.arange(page_tokens) + index * page_tokens)
            seen = behind >= 0
            if shape.window_tokens:
                seen &= behind < shape.window_tokens
            if seen.any():
                page = pages[index]
                scores = grouped @ cache.keys[page].transpose(0, 2, 1)
                scores[:, ~seen] = -np.inf
                running = self.add_page(running, scores, cache.values[page])
        out = self.store(running.mixed / running.total[..., None])
        return out.reshape(shape.num_heads, n, width).transpose(1, 0, 2)

    def add_page(self, running: Running, scores: Array, values: Array) -> Running:
        """Fold one page's scores (G, rows, P) and values (G, P, D) into a running softmax."""
        largest = np.maximum(running.largest, scores.max(axis=-1))
        finite = np.where(np.isneginf(largest), self.dtype(0), largest)
        fade = np.exp(running.largest - finite)
        weights = np.exp(scores - finite[..., None])
        return Running(
            largest,
            running.total * fade + weights.sum(axis=-1),
            running.mixed * fade[..., None] + self.store(weights) @ values,
        )

    def gate(self, gu: Array, activation: str) -> Array:
        """(R, 2F) to (R, F)."""
        g, u = np.split(gu, 2, axis=-1)
        if activation == "silu":
            with np.errstate(over="ignore"):
                acted = g / (1 + np.exp(-g))
        else:
            inner = self.dtype(np.sqrt(2 / np.pi)) * (g + self.dtype(0.044715) * g * g * g)
            acted = self.dtype(0.5) * g * (1 + np.tanh(inner))
        return self.store(self.store(acted) * u)

    def add(self, x: Array, y: Array) -> Array:
        """Add elementwise."""
        return self.store(x + y)

    def run(self, walk: Walk, x: Array, rows: Rows, cache: Sequence[PlainCache]) -> Array:
        """Run a decoder's walk, one operation after the other."""
        return walk(self, x, rows, cache)  # type: ignore[no-any-return]

    def logits(self, x: Array, head: PlainWeight) -> NDArray[np.float32]:
        """(R, K) to float32 (R, V)."""
        return self.linear(x, head).astype(np.float32, copy=False)


def start_running(grouped: Array) -> Running:
    """Make the softmax over no page at all for queries (G, rows, D)."""
    rows = grouped.shape[:2]
    return Running(
        np.full(rows, -np.inf, grouped.dtype),
        np.zeros(rows, grouped.dtype),
        np.zeros(grouped.shape, grouped.dtype),
    )
