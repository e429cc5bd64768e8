"""Inputs that broke real engines, for all tests of numerics: hard rows, thresholds, paged steps."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samebits.numerics import reference
from samebits.numerics.values import (
    AttentionShape,
    LayerCache,
    Rows,
    Weight,
    make_cache,
    pack_weight,
)

THRESHOLDS = (
    *(1, 2, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 44, 45),
    *(63, 64, 65, 127, 128, 129, 255, 256, 257, 300),
)
"""Rows and tokens at which kernels, tiles and schedulers change their ways."""
PAGE_TOKENS = (16, 32, 64)

F32 = NDArray[np.float32]


def hard_rows(rows: int, width: int, seed: int = 0) -> F32:
    """Make (rows, width) float32 whose rows take turns at being awkward.

    Ordinary rows; outliers 25,600 times the median; extremes of equal magnitude; maxima that are
    powers of two; ties of the quantiser; rows near the smallest scale, subnormal, and zero.
    """
    rng = np.random.default_rng([seed, rows, width])
    x = rng.standard_normal((rows, width))
    for r in range(rows):
        kind = r % 8
        if kind == 1:
            x[r, rng.integers(width)] = 25600.0
        elif kind == 2:
            x[r] = np.where(rng.random(width) < 0.5, -1.0, 1.0) * 65504.0
        elif kind == 3:
            x[r] = np.clip(x[r], -1, 1)
            x[r, rng.integers(width)] = -4.0
        elif kind == 4:
            x[r] = (rng.integers(-32767, 32767, width) + 0.5) * 2.0**-15
        elif kind == 5:
            x[r] *= 2.0**-62
        elif kind == 6:
            x[r] *= 2.0**-135
        elif kind == 7 and r % 16 == 7:
            x[r] = 0.0
    return x.astype(np.float32)


class Matrix:
    """A weight in memory."""

    def __init__(self, values: F32) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def read_rows(self, start: int, stop: int) -> F32:
        return self.values[start:stop]


def normal(*shape: int, seed: int = 0) -> F32:
    """Draw standard normal numbers that depend on seed and shape only."""
    x: F32 = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(np.float32)
    return x


def make_weight(
    num_outputs: int, num_inputs: int, *, bits: int = 16, bias: bool = False, seed: int = 0
) -> Weight:
    """Quantise and pack a hard weight matrix by the reference; norms differ from row to row."""
    rng = np.random.default_rng([seed, num_outputs, num_inputs])
    w = rng.standard_normal((num_outputs, num_inputs)) * rng.choice(
        [1e-30, 0.02, 0.02, 1.0, 3e4], (num_outputs, 1)
    )
    w[:: max(2, num_outputs // 3)] = 0.0
    q, s = reference.quantise_weight(w.astype(np.float32), bits)
    packed = pack_weight(q)
    scale = np.zeros(16 * len(packed), np.float32)
    scale[:num_outputs] = s
    values = rng.standard_normal(num_outputs).astype(np.float32) if bias else None
    return Weight(
        packed=packed,
        scale=scale,
        bias=values,
        num_outputs=num_outputs,
        num_inputs=num_inputs,
        bits=bits,
    )


def make_rows(past: Sequence[int], new: Sequence[int], page_tokens: int, *, seed: int = 0) -> Rows:
    """Lay out a step: sequence s has past[s] tokens cached and new[s] rows now; pages shuffled."""
    needed = [-(-(p + n) // page_tokens) for p, n in zip(past, new, strict=True)]
    ids = np.random.default_rng(seed).permutation(sum(needed)).astype(np.int32)
    pages = np.zeros((len(needed), max(needed)), np.int32)
    for s, count in enumerate(needed):
        first = sum(needed[:s])
        pages[s, :count] = ids[first : first + count]
    positions = [np.arange(p, p + n) for p, n in zip(past, new, strict=True)]
    slots = [
        pages[s, p // page_tokens].astype(np.int64) * page_tokens + p % page_tokens
        for s, p in enumerate(positions)
    ]
    return Rows(
        positions=np.concatenate(positions).astype(np.int32),
        slots=np.concatenate(slots),
        starts=np.cumsum([0, *new]).astype(np.int32),
        pages=pages,
    )


def fill_cache(
    shape: AttentionShape, past: Sequence[int], new: Sequence[int], page_tokens: int, seed: int = 0
) -> tuple[Rows, LayerCache]:
    """Make a step whose cache already holds keys and values for past and new tokens alike.

    The numbers depend on sequence and position only, never on the page size. Exponents spread so
    wide that aligned weights lose bits, and some vanish.
    """
    rows = make_rows(past, new, page_tokens, seed=seed)
    cache = make_cache(
        num_pages=int(rows.pages.max()) + 1,
        page_tokens=page_tokens,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
    )
    lengths = [p + n for p, n in zip(past, new, strict=True)]
    whole = make_rows([0] * len(lengths), lengths, page_tokens, seed=seed)
    k, v = (
        np.concatenate(
            [spread(length, shape, [seed, s, which]) for s, length in enumerate(lengths)]
        )
        for which in (0, 1)
    )
    reference.append(k, v, whole, cache)
    return rows, cache


def spread(length: int, shape: AttentionShape, seed: Sequence[int]) -> F32:
    """Make (length, G, D) numbers, magnitudes 2**-6 to 2**3, some down to 2**-33; some zero."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((length, shape.num_kv_heads, shape.head_dim))
    exponents = rng.integers(-6, 4, (length, shape.num_kv_heads, 1))
    x *= 2.0 ** np.where(rng.random(exponents.shape) < 0.2, exponents * 4 - 9, exponents)
    x[rng.random((length, shape.num_kv_heads)) < 0.03] = 0.0
    return x.astype(np.float32)


def make_shape(
    *, heads: int = 4, kv_heads: int = 2, head_dim: int = 16, window: int = 0
) -> AttentionShape:
    """Describe attention with the usual scale."""
    return AttentionShape(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        scale=head_dim**-0.5,
        window_tokens=window,
    )


def assert_same_bits(found: NDArray[np.generic], expected: NDArray[np.generic]) -> None:
    """Require equal dtype, shape and bytes: -0 is not +0."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def have_same_bits(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    """Say whether two arrays of one dtype and shape have equal bytes."""
    assert a.dtype == b.dtype and a.shape == b.shape
    return a.tobytes() == b.tobytes()
