"""The executable form of docs/numerics.md: NumPy only, slow, short, and by definition right.

Whatever is reduced here is an int64; everything else is elementwise binary32, each operation
rounded once. NumPy never fuses a multiplication into an addition, so these lines say exactly what
a kernel has to produce. Knows nothing of speed, threads or processors.
"""

import numpy as np
from numpy.typing import NDArray

from samebits.errors import UnsupportedInput
from samebits.numerics.values import (
    LIMIT,
    MAX_INPUTS,
    PANEL,
    AttentionShape,
    HeadNorms,
    LayerCache,
    RopeTable,
    Rows,
    Weight,
    unpack_weight,
)

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

SMALLEST = np.float32(2.0**-64)
"""A row (or weight row) whose largest magnitude is below this is zero."""
ZERO_EXPONENT = -64
"""Exponent of a row that is zero: below that of any other."""
EXP2 = tuple(
    np.float32(float.fromhex(c))
    for c in (
        "0x1p+0",
        "0x1.62e430p-1",
        "0x1.ebfbdcp-3",
        "0x1.c6aee8p-5",
        "0x1.3b2d4ep-7",
        "0x1.5f3e38p-10",
        "0x1.41fb60p-13",
    )
)
"""Minimax polynomial of 2**f on [-1/2, 1/2], constant first; relative error below 1.1e-7."""
LOG2_E = np.float32(1.4426950408889634)
GELU_CUBIC = np.float32(0.044715)
GELU_FACTOR = np.float32(-2.302208198144325)
"""-2 * sqrt(2/pi) * log2(e)."""
P_BITS = 24
"""Attention weights are integers in units of 2**-24."""
W_BITS = 40
"""Sampling weights are integers in units of 2**-40."""


def pow2(exponent: NDArray[np.signedinteger]) -> F32:
    """Make 2**exponent in binary32 from its bits; exponent in [-126, 127]."""
    return ((exponent.astype(np.int32) + 127) << 23).view(np.float32)


def check_finite(x: F32, what: str) -> None:
    """Refuse NaN and infinity.

    Raises:
        UnsupportedInput: x has one.
    """
    if not np.isfinite(x).all():
        raise UnsupportedInput(expected=f"finite numbers in {what}", found="NaN or infinity")


def quantise_rows(x: F32) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """Quantise each row to 16 bits with a power-of-two scale: x ≈ q * 2**(e - 15).

    Args:
        x: (..., K), finite.
    Returns:
        q: (..., K), |q| <= 32767; e: (...), in [-64, 128].
    Source: docs/numerics.md, "Row quantiser".
    """
    check_finite(x, "an activation")
    largest = np.abs(x).max(axis=-1)
    exponent = (largest.view(np.int32) >> 23) - 126
    exponent = np.where(largest < SMALLEST, ZERO_EXPONENT, exponent).astype(np.int32)
    q = np.rint(x * pow2(15 - exponent)[..., None])
    q = np.where(exponent[..., None] == ZERO_EXPONENT, 0, np.clip(q, -32767, 32767))
    return q.astype(np.int16), exponent


def quantise_weight(w: F32, bits: int) -> tuple[NDArray[np.int16] | NDArray[np.int8], F32]:
    """Quantise weights per output: w ≈ q * s.

    Args:
        w: (N, K), finite. bits: 16 or 8.
    Returns:
        q: (N, K), int16 or int8, |q| <= 16383 or 127; s: (N,).
    Source: docs/numerics.md, "Weights".
    """
    check_finite(w, "a weight")
    largest = np.abs(w).max(axis=1)
    is_zero = largest < SMALLEST
    scale = largest / np.float32(LIMIT[bits])
    q = np.rint(w / np.where(is_zero, np.float32(1), scale)[:, None])
    q = np.where(is_zero[:, None], 0, np.clip(q, -LIMIT[bits], LIMIT[bits]))
    scale = np.where(is_zero, np.float32(0), scale)
    return (q.astype(np.int16) if bits == 16 else q.astype(np.int8)), scale


def accumulate(q: NDArray[np.int16], weight: Weight) -> I64:
    """Sum products of integers exactly: (R, K) times (N, K) to (R, 16 * ceil(N/16))."""
    w = unpack_weight(weight, 0, len(weight.packed))
    return q.astype(np.int64) @ w.astype(np.int64).T


def scale_sums(acc: I64, e: NDArray[np.int32], weight: Weight, residual: F32 | None) -> F32:
    """Turn exact sums into outputs: fl(fl(acc) * s) * 2**(e - 15), plus bias, plus residual."""
    y: F32 = acc.astype(np.float32) * weight.scale * pow2(e - 15)[:, None]
    y = y[:, : weight.num_outputs]
    if weight.bias is not None:
        y = y + weight.bias
    return y if residual is None else y + residual


def check_linear(x: F32, weight: Weight) -> None:
    """Refuse operands that do not fit.

    Raises:
        UnsupportedInput: Wrong dtype or width, or K too large for exact sums.
    """
    if x.dtype != np.float32 or x.ndim != 2 or x.shape[1] != weight.num_inputs:
        raise UnsupportedInput(
            expected=f"float32 (R, {weight.num_inputs})", found=f"{x.dtype} {x.shape}"
        )
    if weight.num_inputs > MAX_INPUTS:
        raise UnsupportedInput(expected=f"K <= {MAX_INPUTS}", found=str(weight.num_inputs))


def linear(x: F32, weight: Weight, residual: F32 | None = None) -> F32:
    """Multiply by a weight matrix; add its bias and a residual if there are any.

    Args:
        x: (R, K). residual: (R, N) or None.
    Returns:
        (R, N).
    Source: docs/numerics.md, "Linear".
    """
    check_linear(x, weight)
    q, e = quantise_rows(x)
    return scale_sums(accumulate(q, weight), e, weight, residual)


def rms_norm(x: F32, weight: F32, eps: float) -> F32:
    """Divide each row by its root mean square and multiply by a weight.

    Args:
        x: (..., K). weight: (K,). eps: added to the mean square.
    Source: docs/numerics.md, "RMSNorm"; Zhang and Sennrich 2019.
    """
    q, e = quantise_rows(x)
    squares = (q.astype(np.int64) ** 2).sum(axis=-1)
    unit = pow2(e - 15)
    mean = squares.astype(np.float32) * unit * unit / np.float32(x.shape[-1])
    check_finite(mean, "a mean square")
    factor = np.float32(1) / np.sqrt(mean + np.float32(eps))
    y: F32 = x * factor[..., None] * weight
    return y


def exp2_parts(x: F32) -> tuple[F32, NDArray[np.int32]]:
    """Split 2**x into a polynomial p in [0.7, 1.42] and an integer n: 2**x ≈ p * 2**n."""
    n = np.rint(x)
    f = x - n
    p = np.full_like(f, EXP2[-1])
    for c in EXP2[-2::-1]:
        p = p * f + c
    return p, n.astype(np.int32)


def integer_exp2(x: F32, bits: int, floor: float) -> I64:
    """Round 2**x to units of 2**-bits; zero below floor. x <= 0."""
    p, n = exp2_parts(np.maximum(x, np.float32(floor)))
    return np.where(x < np.float32(floor), 0, np.rint(p * pow2(n + bits)).astype(np.int64))


def rotate(x: F32, cos: F32, sin: F32) -> F32:
    """Rotate halves of each head: (R, heads, D) by (R, D/2). Source: Su et al. 2021."""
    a, b = np.split(x, 2, axis=-1)
    c, s = cos[:, None], sin[:, None]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def rope_append(
    qkv: F32,
    shape: AttentionShape,
    norms: HeadNorms | None,
    table: RopeTable,
    rows: Rows,
    cache: LayerCache,
) -> F32:
    """Normalise heads if asked, rotate q and k, and append quantised k and v to the cache.

    Args:
        qkv: (R, (H + 2G) * D): q heads, then k heads, then v heads.
    Returns:
        (R, H, D): the rotated queries.
    Source: docs/numerics.md, "RoPE" and "Key-value cache".
    """
    heads = qkv.reshape(len(qkv), -1, shape.head_dim)
    q, k, v = np.split(heads, [shape.num_heads, shape.num_heads + shape.num_kv_heads], axis=1)
    if norms is not None:
        q, k = rms_norm(q, norms.query, norms.eps), rms_norm(k, norms.key, norms.eps)
    cos, sin = table.cos[rows.positions], table.sin[rows.positions]
    append(rotate(k, cos, sin), v, rows, cache)
    return rotate(q, cos, sin)


def append(k: F32, v: F32, rows: Rows, cache: LayerCache) -> None:
    """Quantise (R, G, D) keys and values and write them to the rows' slots."""
    page, offset = np.divmod(rows.slots, cache.page_tokens)
    kq, ke = quantise_rows(k)
    vq, ve = quantise_rows(v)
    pairs = kq.reshape(*kq.shape[:2], -1, 2)
    cache.keys[page, :, offset // PANEL, :, offset % PANEL] = pairs
    cache.values[page, :, offset // 2, :, offset % 2] = vq
    cache.key_exponents[page, :, offset] = ke
    cache.value_exponents[page, :, offset] = ve


def gather(
    rows: Rows, sequence: int, length: int, cache: LayerCache
) -> tuple[NDArray[np.int16], NDArray[np.int32], NDArray[np.int16], NDArray[np.int32]]:
    """Collect a sequence's first `length` keys and values: q (G, T, D), e (G, T), twice."""
    pages = rows.pages[sequence, : -(-length // cache.page_tokens)]
    k = cache.keys[pages].transpose(1, 0, 2, 4, 3, 5)
    v = cache.values[pages].transpose(1, 0, 2, 4, 3)
    heads, width = v.shape[0], v.shape[4]
    ke = cache.key_exponents[pages].transpose(1, 0, 2).reshape(heads, -1)
    ve = cache.value_exponents[pages].transpose(1, 0, 2).reshape(heads, -1)
    return (
        k.reshape(heads, -1, width)[:, :length],
        ke[:, :length].astype(np.int32),
        v.reshape(heads, -1, width)[:, :length],
        ve[:, :length].astype(np.int32),
    )


def score_factor(scale: float) -> np.float32:
    """Make the factor that takes q·k to a power of two: fl(scale * log2 e)."""
    return np.float32(scale * 1.4426950408889634)


def attend(
    q: F32,
    k: NDArray[np.int16],
    ke: NDArray[np.int32],
    v: NDArray[np.int16],
    ve: NDArray[np.int32],
    scale: float,
) -> F32:
    """Attend one query (D,) of one head to the T visible tokens: (T, D) keys and values."""
    qq, qe = quantise_rows(q)
    sums = k.astype(np.int64) @ qq.astype(np.int64)
    scores = sums.astype(np.float32) * pow2(qe - 15) * pow2(ke - 15) * score_factor(scale)
    check_finite(scores, "an attention score")
    weights = integer_exp2(scores - scores.max(), P_BITS, -30.0)
    top = ve.max()
    shift = np.minimum(top - ve, 64)
    aligned = np.rint(weights.astype(np.float32) * pow2(-shift)).astype(np.int64)
    acc = aligned @ v.astype(np.int64)
    out: F32 = acc.astype(np.float32) * pow2(top - 15) / weights.sum().astype(np.float32)
    return out


def attention(q: F32, shape: AttentionShape, rows: Rows, cache: LayerCache) -> F32:
    """Attend each row to its sequence's cached tokens up to its own position.

    Args:
        q: (R, H, D), rotated.
    Returns:
        (R, H * D).
    Source: docs/numerics.md, "Attention"; Vaswani et al. 2017.
    """
    out = np.empty(q.shape, np.float32)
    group = shape.num_heads // shape.num_kv_heads
    for s, start in enumerate(rows.starts[:-1]):
        for r in range(start, rows.starts[s + 1]):
            stop = int(rows.positions[r]) + 1
            first = max(0, stop - shape.window_tokens) if shape.window_tokens else 0
            k, ke, v, ve = (a[:, first:] for a in gather(rows, s, stop, cache))
            for h in range(shape.num_heads):
                g = h // group
                out[r, h] = attend(q[r, h], k[g], ke[g], v[g], ve[g], shape.scale)
    return out.reshape(len(q), -1)


def check_gate(width: int, activation: str) -> None:
    """Refuse a gate without two halves, or with a function the contract does not define.

    Raises:
        UnsupportedInput: An odd width, or an activation other than silu and gelu_tanh.
    """
    if width % 2 or activation not in ("silu", "gelu_tanh"):
        raise UnsupportedInput(
            expected="a gate and an up half, under silu or gelu_tanh",
            found=f"{width} columns under {activation}",
        )


def gate(gu: F32, activation: str) -> F32:
    """Multiply act(gate) by up.

    Args:
        gu: (R, 2F): the gate half, then the up half. activation: silu or gelu_tanh.
    Returns:
        (R, F).
    Source: docs/numerics.md, "Gates"; Shazeer 2020.
    """
    check_gate(gu.shape[-1], activation)
    g, u = np.split(gu, 2, axis=-1)
    if activation == "silu":
        t = g * -LOG2_E
    else:
        t = g * (GELU_CUBIC * (g * g) + np.float32(1)) * GELU_FACTOR
    p, n = exp2_parts(np.clip(t, np.float32(-126), np.float32(126)))
    return g / (np.float32(1) + p * pow2(n)) * u


def argmax(logits: F32) -> I64:
    """Give the id of each row's largest logit, (R, V) to (R,); ties go to the lowest id."""
    check_finite(logits, "logits")
    ids: I64 = logits.argmax(axis=-1)
    return ids


def softmax_weights(logits: F32, factor: np.float32) -> I64:
    """Give each token an integer weight, rint(2**((z - max z) * factor) * 2**40); (V,) to (V,).

    Below 2**-60 a weight is zero. The largest logit has 2**40.
    Source: docs/numerics.md, "Sampling".
    """
    check_finite(logits, "logits")
    return integer_exp2((logits - logits.max()) * factor, W_BITS, -60.0)


def natural_log(x: np.float64) -> np.float64:
    """Take the logarithm of a positive binary64 number by a fixed series, to a few last bits."""
    mantissa, exponent = np.frexp(x)
    if mantissa < 0.7071067811865476:
        mantissa, exponent = mantissa * 2.0, exponent - 1
    s = (mantissa - 1.0) / (mantissa + 1.0)
    total = np.float64(0.0)
    for odd in range(21, 0, -2):
        total = total * (s * s) + 1.0 / odd
    return np.float64(exponent * np.float64(0.6931471805599453) + 2.0 * s * total)


def log_probabilities(logits: F32) -> F32:
    """Give the natural log-probabilities of each row, (R, V) to (R, V).

    Source: docs/numerics.md, "Log-probabilities".
    """
    out = np.empty_like(logits)
    for r, row in enumerate(logits):
        total = np.float64(softmax_weights(row, LOG2_E).sum())
        normaliser = natural_log(total) - natural_log(np.float64(2.0**W_BITS))
        out[r] = ((row - row.max()).astype(np.float64) - normaliser).astype(np.float32)
    return out
