"""The arrays every kernel set shares: packed weights, key-value cache, index arrays of a step.

One layout for all kernel sets (docs/numerics.md, "Layouts"), so that a loaded model can change
kernels without being loaded again, and the digest of the weights does not depend on the processor.
Letters: R rows (tokens in this step), K reduced width, N outputs, D head width, H heads,
G key-value heads, P tokens a page, S sequences.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

PANEL = 16
"""Outputs (or key tokens) that lie side by side in a packed operand."""
LIMIT = {16: 16383, 8: 127}
"""Largest magnitude of a quantised weight, by bits; docs/numerics.md, "Weights", says why 16383."""
MAX_INPUTS = 2**23
"""Largest K of a linear: |accumulator| < 2**30 * K stays below 2**53."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """A linear's integer weights, packed by panels of 16 outputs and pairs of inputs."""

    packed: NDArray[np.int16] | NDArray[np.int8]
    """(ceil(N/16), ceil(K/2), 16, 2); zero where N or K is padded."""
    scale: NDArray[np.float32]
    """(16 * ceil(N/16),): the value of one unit of each output's weights."""
    bias: NDArray[np.float32] | None
    """(N,) or None."""
    num_outputs: int
    num_inputs: int
    bits: int
    """16 or 8."""


class Rows(NamedTuple):
    """Which sequence, position and cache slot each row of a step belongs to.

    The rows of a sequence are consecutive, with ascending positions.
    """

    positions: NDArray[np.int32]
    """(R,): position of the row's token in its sequence, from 0."""
    slots: NDArray[np.int64]
    """(R,): where the row's key and value go: page * P + offset."""
    starts: NDArray[np.int32]
    """(S + 1,): rows [starts[s], starts[s+1]) belong to sequence s."""
    pages: NDArray[np.int32]
    """(S, most pages): page ids of each sequence, in order of position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerCache:
    """The integer keys and values of one layer, by pages of P tokens; P is a multiple of 16."""

    keys: NDArray[np.int16]
    """(pages, G, P/16, D/2, 16, 2): panels of 16 tokens, pairs of head dimensions."""
    values: NDArray[np.int16]
    """(pages, G, P/2, D, 2): pairs of tokens."""
    key_exponents: NDArray[np.int16]
    """(pages, G, P)."""
    value_exponents: NDArray[np.int16]
    """(pages, G, P)."""

    @property
    def page_tokens(self) -> int:
        """P, tokens a page."""
        return int(self.key_exponents.shape[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeTable:
    """Cosines and sines by position, float32 (float64 under plain-f64); see rope.py."""

    cos: NDArray[Any]
    """(positions, D/2)."""
    sin: NDArray[Any]
    """(positions, D/2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadNorms:
    """RMSNorm weights applied to each head of q and k before RoPE."""

    query: NDArray[np.float32]
    """(D,)."""
    key: NDArray[np.float32]
    """(D,)."""
    eps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionShape:
    """What attention needs to know of a layer."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    scale: float
    """Factor on q·k."""
    window_tokens: int = 0
    """A row at position p sees positions in (p - window_tokens, p]; 0 means all up to p."""


def pack_weight(q: NDArray[np.int16] | NDArray[np.int8]) -> NDArray[np.int16] | NDArray[np.int8]:
    """Lay (N, K) integers out as (ceil(N/16), ceil(K/2), 16, 2), padding with zeros."""
    n, k = q.shape
    padded = np.zeros((-(-n // PANEL) * PANEL, -(-k // 2) * 2), q.dtype)
    padded[:n, :k] = q
    panels = padded.reshape(-1, PANEL, padded.shape[1] // 2, 2)
    return np.ascontiguousarray(panels.transpose(0, 2, 1, 3))


def unpack_weight(weight: Weight, first: int, last: int) -> NDArray[np.int16] | NDArray[np.int8]:
    """Give panels [first, last) of a packed weight back as (16 * panels, K) integers."""
    block = weight.packed[first:last].transpose(0, 2, 1, 3)
    return block.reshape((last - first) * PANEL, -1)[:, : weight.num_inputs]


def make_cache(*, num_pages: int, page_tokens: int, num_kv_heads: int, head_dim: int) -> LayerCache:
    """Build an empty cache for one layer; pages hold zeros until they are written."""
    shape = (num_pages, num_kv_heads, page_tokens)
    return LayerCache(
        keys=np.zeros((*shape[:2], page_tokens // PANEL, head_dim // 2, PANEL, 2), np.int16),
        values=np.zeros((*shape[:2], page_tokens // 2, head_dim, 2), np.int16),
        key_exponents=np.zeros(shape, np.int16),
        value_exponents=np.zeros(shape, np.int16),
    )
