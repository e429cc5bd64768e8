"""What a decoder asks of its numbers, whichever kind they are.

Two answers exist: order_free.py (the contract sb1) and plain.py (ordinary float64, float32 and
bfloat16, the inverse control and the audited baseline). A decoder written against this protocol is
the same code under both.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samebits.numerics.values import AttentionShape, HeadNorms, RopeTable, Rows

Array = NDArray[Any]
"""Activations in the arithmetic's own precision: float32, or float64 under plain-f64."""


class WeightRows(Protocol):
    """A two-dimensional weight that can be read in blocks of float32 rows."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N, K)."""
        ...

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Decode rows [start, stop)."""
        ...


Walk = Callable[[Any, Any, Rows, Sequence[Any]], Any]
"""(operations, x, rows, cache) to the last activations; operations are those of Operations."""


class Operations(Protocol):
    """What a decoder's layers are made of. Handles (weights, caches) are opaque to the caller."""

    def linear(self, x: Array, weight: Any, residual: Array | None = None) -> Array:
        """(R, K) to (R, N)."""
        ...

    def rms_norm(self, x: Array, weight: Array, eps: float) -> Array:
        """(R, K) to (R, K)."""
        ...

    def rope_append(
        self,
        qkv: Array,
        shape: AttentionShape,
        norms: HeadNorms | None,
        table: RopeTable,
        rows: Rows,
        cache: Any,
    ) -> Array:
        """Rotate q and k of (R, (H + 2G) * D), cache k and v, return q (R, H, D)."""
        ...

    def attention(self, q: Array, shape: AttentionShape, rows: Rows, cache: Any) -> Array:
        """(R, H, D) to (R, H * D)."""
        ...

    def gate(self, gu: Array, activation: str) -> Array:
        """(R, 2F) to (R, F)."""
        ...

    def add(self, x: Array, y: Array) -> Array:
        """Add elementwise."""
        ...


class Arithmetic(Operations, Protocol):
    """One kind of numbers: takes weights in, keeps the cache, computes."""

    name: str
    """sb1, plain-f64, plain-f32 or plain-bf16: what --arithmetic calls it."""
    dtype: type[np.floating[Any]]
    """What activations and RoPE tables are kept in: float32 or float64."""

    @property
    def threads(self) -> int:
        """Threads really in force."""
        ...

    def load_linear(
        self, sources: Sequence[WeightRows], biases: Sequence[NDArray[np.float32]] = ()
    ) -> Any:
        """Take in one linear whose outputs are those of the sources, stacked in order."""
        ...

    def load_vector(self, values: NDArray[np.float32]) -> Array:
        """Take in a norm weight."""
        ...

    def weight_arrays(self, weight: Any) -> Sequence[NDArray[Any]]:
        """Give the arrays that define a loaded linear, in a fixed order, for a digest."""
        ...

    def make_cache(
        self, *, num_layers: int, num_pages: int, page_tokens: int, shape: AttentionShape
    ) -> Sequence[Any]:
        """Build an empty key-value cache, one handle a layer."""
        ...

    def embed(self, rows: NDArray[np.float32], scale: float) -> Array:
        """Turn decoded embedding rows (R, D) into activations, times a scale."""
        ...

    def run(self, walk: Walk, x: Array, rows: Rows, cache: Sequence[Any]) -> Array:
        """Run a walk through a decoder's layers on x (R, D), with operations of its choice."""
        ...

    def logits(self, x: Array, head: Any) -> NDArray[np.float32]:
        """(R, K) to float32 (R, V): a linear whose result is read by the sampler."""
        ...
