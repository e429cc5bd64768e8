"""The contract sb1 as an Arithmetic, over any kernel set.

Kernel sets differ in speed and never in bits, so `kernels` may be swapped on a loaded model.
Knows nothing of models; the decision is docs/numerics.md.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ConfigError
from samebits.numerics.arena import Arena
from samebits.numerics.arithmetic import Walk, WeightRows
from samebits.numerics.choice import Candidate
from samebits.numerics.threads import BlasThreads
from samebits.numerics.values import (
    LIMIT,
    PANEL,
    AttentionShape,
    HeadNorms,
    LayerCache,
    RopeTable,
    Rows,
    Weight,
    make_cache,
    pack_weight,
)

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

BLOCK_BYTES = 4 * 2**20
"""About how many bytes of float32 weights are held while loading."""


class Kernels(Protocol):
    """The operations of the contract; reference.py says what each must return."""

    def quantise_rows(self, x: F32) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """(..., K) to 16-bit integers and an exponent a row."""
        ...

    def quantise_weight(
        self, w: F32, bits: int
    ) -> tuple[NDArray[np.int16] | NDArray[np.int8], F32]:
        """(N, K) to integers and a scale a row."""
        ...

    def linear(self, x: F32, weight: Weight, residual: F32 | None = None) -> F32:
        """(R, K) to (R, N)."""
        ...

    def rms_norm(self, x: F32, weight: F32, eps: float) -> F32:
        """(..., K) to (..., K)."""
        ...

    def rope_append(
        self,
        qkv: F32,
        shape: AttentionShape,
        norms: HeadNorms | None,
        table: RopeTable,
        rows: Rows,
        cache: LayerCache,
    ) -> F32:
        """(R, (H + 2G) * D) to (R, H, D)."""
        ...

    def attention(self, q: F32, shape: AttentionShape, rows: Rows, cache: LayerCache) -> F32:
        """(R, H, D) to (R, H * D)."""
        ...

    def gate(self, gu: F32, activation: str) -> F32:
        """(R, 2F) to (R, F)."""
        ...

    def argmax(self, logits: F32) -> I64:
        """(R, V) to (R,)."""
        ...

    def softmax_weights(self, logits: F32, factor: np.float32) -> I64:
        """(V,) to (V,)."""
        ...

    def log_probabilities(self, logits: F32) -> F32:
        """(R, V) to (R, V)."""
        ...


class Stacked:
    """Sources read as one, their rows stacked in order."""

    def __init__(self, sources: Sequence[WeightRows]) -> None:
        self.sources = sources
        self.shape = (sum(s.shape[0] for s in sources), sources[0].shape[1])

    def read_rows(self, start: int, stop: int) -> F32:
        """Decode rows [start, stop) of the stack."""
        parts, first = [], 0
        for source in self.sources:
            n = source.shape[0]
            low, high = max(start - first, 0), min(stop - first, n)
            if low < high:
                parts.append(source.read_rows(low, high))
            first += n
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


def block_rows(num_inputs: int) -> int:
    """Choose how many rows to hold while loading: a multiple of 16."""
    return max(PANEL, BLOCK_BYTES // (4 * num_inputs) // PANEL * PANEL)


class OrderFree:
    """Compute by the contract sb1.

    Attributes:
        kernels: The kernel set in use; may be replaced at any time.
        bits: 16 or 8, of the weights loaded from now on.
        candidates: What select.py considered; empty if the kernels were simply given.
    """

    name = "sb1"
    dtype: type[np.floating[Any]] = np.float32

    def __init__(self, kernels: Kernels, *, bits: int = 16, threads: int = 1) -> None:
        if bits not in LIMIT:
            raise ConfigError(expected="16 or 8 bits a weight", found=str(bits))
        self.kernels = kernels
        self.bits = bits
        self.candidates: tuple[Candidate, ...] = ()
        self.arena = Arena()
        self.blas = BlasThreads(threads)

    @property
    def threads(self) -> int:
        """Threads really in force: the kernel set's own, or those of BLAS."""
        own: int | None = getattr(self.kernels, "threads", None)
        return self.blas.apply() if own is None else own

    def load_linear(self, sources: Sequence[WeightRows], biases: Sequence[F32] = ()) -> Weight:
        """Quantise and pack the stacked sources, about 4 MB of rows at a time."""
        stack = Stacked(sources)
        n, k = stack.shape
        panels = -(-n // PANEL)
        shape = (panels, -(-k // 2), PANEL, 2)
        packed = self.arena.zeros(shape, np.int16 if self.bits == 16 else np.int8)
        scale = np.zeros(panels * PANEL, np.float32)
        step = block_rows(k)
        for start in range(0, n, step):
            stop = min(start + step, n)
            q, scale[start:stop] = self.kernels.quantise_weight(
                stack.read_rows(start, stop), self.bits
            )
            packed[start // PANEL : -(-stop // PANEL)] = pack_weight(q)
        bias = np.concatenate(biases).astype(np.float32) if biases else None
        return Weight(
            packed=packed, scale=scale, bias=bias, num_outputs=n, num_inputs=k, bits=self.bits
        )

    def load_vector(self, values: F32) -> F32:
        """Keep a norm weight as it is."""
        return np.array(values, np.float32)

    def weight_arrays(self, weight: Weight) -> tuple[NDArray[Any], ...]:
        """Give the arrays that define a loaded linear, for a digest."""
        arrays = (weight.packed, weight.scale)
        return arrays if weight.bias is None else (*arrays, weight.bias)

    def make_cache(
        self, *, num_layers: int, num_pages: int, page_tokens: int, shape: AttentionShape
    ) -> list[LayerCache]:
        """Build an empty cache, one a layer."""
        return [
            make_cache(
                num_pages=num_pages,
                page_tokens=page_tokens,
                num_kv_heads=shape.num_kv_heads,
                head_dim=shape.head_dim,
            )
            for _ in range(num_layers)
        ]

    def embed(self, rows: F32, scale: float) -> F32:
        """Scale embedding rows; one rounded multiplication."""
        return rows * np.float32(scale)

    def linear(self, x: F32, weight: Weight, residual: F32 | None = None) -> F32:
        """(R, K) to (R, N)."""
        if not hasattr(self.kernels, "threads"):
            self.blas.apply()
        return self.kernels.linear(x, weight, residual)

    def rms_norm(self, x: F32, weight: F32, eps: float) -> F32:
        """(R, K) to (R, K)."""
        return self.kernels.rms_norm(x, weight, eps)

    def rope_append(
        self,
        qkv: F32,
        shape: AttentionShape,
        norms: HeadNorms | None,
        table: RopeTable,
        rows: Rows,
        cache: LayerCache,
    ) -> F32:
        """Rotate q and k, cache k and v, return q (R, H, D)."""
        return self.kernels.rope_append(qkv, shape, norms, table, rows, cache)

    def attention(self, q: F32, shape: AttentionShape, rows: Rows, cache: LayerCache) -> F32:
        """(R, H, D) to (R, H * D)."""
        return self.kernels.attention(q, shape, rows, cache)

    def gate(self, gu: F32, activation: str) -> F32:
        """(R, 2F) to (R, F)."""
        return self.kernels.gate(gu, activation)

    def add(self, x: F32, y: F32) -> F32:
        """Add elementwise."""
        return x + y

    def run(self, walk: Walk, x: F32, rows: Rows, cache: Sequence[LayerCache]) -> F32:
        """Run a decoder's walk: recorded, if the kernel set can, else operation by operation."""
        recorded = getattr(self.kernels, "run", None)
        y: F32 = walk(self, x, rows, cache) if recorded is None else recorded(walk, x, rows, cache)
        return y

    def logits(self, x: F32, head: Weight) -> F32:
        """(R, K) to (R, V)."""
        return self.linear(x, head)
