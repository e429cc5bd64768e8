"""The contract on NumPy alone, fast enough to use: exact matrix products through BLAS.

A float64 product of integers is exact, in whatever order BLAS adds, while every partial sum stays
below 2**53, because every partial sum is then itself a representable integer. Linear: products are
below 2**30 and K is at most 2**23. q·k: below 2**30 * D. P'·v: below 2**39, so sums are cut every
2**14 tokens. What is not reduced, and what is rarely large, is reference.py's own.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.numerics.reference import (
    P_BITS,
    append,
    argmax,
    check_finite,
    check_linear,
    gate,
    gather,
    integer_exp2,
    log_probabilities,
    pow2,
    quantise_rows,
    quantise_weight,
    rms_norm,
    rope_append,
    score_factor,
    softmax_weights,
)
from samebits.numerics.values import PANEL, AttentionShape, LayerCache, Rows, Weight

__all__ = [
    "append",
    "argmax",
    "attention",
    "gate",
    "linear",
    "log_probabilities",
    "quantise_rows",
    "quantise_weight",
    "rms_norm",
    "rope_append",
    "softmax_weights",
]

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

BLOCK_WEIGHTS = 2**18
"""Weights converted to float64 at a time: 2 MB, which stays in cache."""
BLOCK_SCORES = 2**20
"""Attention scores held at a time."""
EXACT_TOKENS = 2**14
"""Tokens whose weighted values may be summed in float64: 2**39 * 2**14 = 2**53."""
UNSEEN = -(2**15)
"""An exponent below every other."""


def panels_to_float64(weight: Weight, first: int, last: int) -> F64:
    """Convert panels [first, last) to (16 * panels, K or K + 1), pairs moved as one integer."""
    pair = np.int32 if weight.bits == 16 else np.int16
    pairs = weight.packed[first:last].view(pair)[..., 0].transpose(0, 2, 1)
    rows = np.ascontiguousarray(pairs).view(weight.packed.dtype)
    return rows.reshape((last - first) * PANEL, -1).astype(np.float64)


def linear(x: F32, weight: Weight, residual: F32 | None = None) -> F32:
    """Multiply by a weight matrix; add its bias and a residual if there are any.

    Args:
        x: (R, K). residual: (R, N) or None.
    Returns:
        (R, N), the bits of reference.linear.
    Source: docs/numerics.md, "Linear".
    """
    check_linear(x, weight)
    q, e = quantise_rows(x)
    operand = np.zeros((len(q), 2 * weight.packed.shape[1]))
    operand[:, : q.shape[1]] = q
    unit = pow2(e - 15)[:, None]
    out = np.empty((len(q), weight.num_outputs), np.float32)
    step = max(1, BLOCK_WEIGHTS // (PANEL * operand.shape[1]))
    for first in range(0, len(weight.packed), step):
        last = min(first + step, len(weight.packed))
        sums = operand @ panels_to_float64(weight, first, last).T
        sums += 0.0  # -0 would show in the result; an integer sum has none
        outputs = slice(first * PANEL, min(last * PANEL, weight.num_outputs))
        y = sums.astype(np.float32) * weight.scale[first * PANEL : last * PANEL] * unit
        out[:, outputs] = y[:, : outputs.stop - outputs.start]
    if weight.bias is not None:
        out += weight.bias
    return out if residual is None else out + residual


class Tokens(NamedTuple):
    """The cached tokens of one sequence, ready for products."""

    keys: F64
    """(G, T, D)."""
    key_units: F32
    """(G, T)."""
    values: F64
    """(G, T, D)."""
    value_exponents: NDArray[np.int32]
    """(G, T)."""


def load_tokens(rows: Rows, sequence: int, first: int, length: int, cache: LayerCache) -> Tokens:
    """Collect tokens [first, length) of a sequence."""
    k, ke, v, ve = gather(rows, sequence, length, cache)
    return Tokens(
        keys=k[:, first:].astype(np.float64),
        key_units=pow2(ke[:, first:] - 15),
        values=v[:, first:].astype(np.float64),
        value_exponents=ve[:, first:],
    )


def attention(q: F32, shape: AttentionShape, rows: Rows, cache: LayerCache) -> F32:
    """Attend each row to its sequence's cached tokens up to its own position.

    Args:
        q: (R, H, D), rotated.
    Returns:
        (R, H * D), the bits of reference.attention.
    Source: docs/numerics.md, "Attention"; Vaswani et al. 2017.
    """
    out = np.empty(q.shape, np.float32)
    for s, (start, stop) in enumerate(zip(rows.starts[:-1], rows.starts[1:], strict=True)):
        if start == stop:
            continue
        length = int(rows.positions[stop - 1]) + 1
        first = first_seen(int(rows.positions[start]), shape)
        tokens = load_tokens(rows, s, first, length, cache)
        step = max(1, BLOCK_SCORES // (shape.num_heads * (length - first)))
        for a in range(start, stop, step):
            b = min(a + step, stop)
            out[a:b] = attend(q[a:b], rows.positions[a:b] - first, tokens, shape)
    return out.reshape(len(q), -1)


def first_seen(position: int, shape: AttentionShape) -> int:
    """Give the first position that a row sees."""
    return max(0, position + 1 - shape.window_tokens) if shape.window_tokens else 0


def make_visible(
    positions: NDArray[np.int32], num_tokens: int, shape: AttentionShape
) -> NDArray[np.bool_]:
    """Say which of the tokens each row sees: (n, T)."""
    behind = positions[:, None] - np.arange(num_tokens)
    seen = behind >= 0
    return seen & (behind < shape.window_tokens) if shape.window_tokens else seen


def attend(q: F32, positions: NDArray[np.int32], tokens: Tokens, shape: AttentionShape) -> F32:
    """Attend rows (n, H, D) at positions (n,) to the tokens; positions count from token 0."""
    visible = make_visible(positions, tokens.keys.shape[1], shape)
    scores = score(q, visible, tokens, shape)
    weights = integer_exp2(scores - scores.max(axis=-1, keepdims=True), P_BITS, -30.0)
    seen = np.where(visible, tokens.value_exponents[:, None], UNSEEN)  # (G, n, T)
    top = seen.max(axis=-1)
    shift = np.clip(top[..., None] - seen, 0, 64)[:, None]
    aligned = np.rint(weights.astype(np.float32) * pow2(-shift))
    acc = weigh_values(aligned, tokens.values)  # (G, H/G, n, D)
    total = weights.sum(axis=-1).astype(np.float32)
    out = acc.astype(np.float32) * pow2(top - 15)[:, None, :, None] / total[..., None]
    by_head: F32 = out.reshape(shape.num_heads, len(q), -1)
    return by_head.transpose(1, 0, 2)


def score(q: F32, visible: NDArray[np.bool_], tokens: Tokens, shape: AttentionShape) -> F32:
    """Score every token for every row and head: (G, H/G, n, T), minus infinity where unseen."""
    n, heads, width = q.shape
    grouped = q.transpose(1, 0, 2).reshape(shape.num_kv_heads, -1, width)
    qq, qe = quantise_rows(grouped)
    sums = qq.astype(np.float64) @ tokens.keys.transpose(0, 2, 1)
    units = tokens.key_units[:, None]
    scores = sums.astype(np.float32) * pow2(qe - 15)[..., None] * units * score_factor(shape.scale)
    scores = scores.reshape(shape.num_kv_heads, heads // shape.num_kv_heads, n, -1)
    check_finite(np.where(visible, scores, np.float32(0)), "an attention score")
    return np.where(visible, scores, np.float32(-np.inf))


def weigh_values(aligned: F32, values: F64) -> NDArray[np.int64]:
    """Sum values by integer weights: (G, H/G, n, T) by (G, T, D) to (G, H/G, n, D)."""
    heads, group, n, length = aligned.shape
    flat = aligned.reshape(heads, group * n, length)
    acc = np.zeros((heads, group * n, values.shape[2]), np.int64)
    for a in range(0, length, EXACT_TOKENS):
        part = flat[..., a : a + EXACT_TOKENS].astype(np.float64)
        acc += (part @ values[:, a : a + EXACT_TOKENS]).astype(np.int64)
    return acc.reshape(heads, group, n, -1)
