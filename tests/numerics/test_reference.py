"""reference.py is what docs/numerics.md says: its edges, and how close each operation is.

Tolerances: q has 15 bits and a sign, so a row is off by at most half a unit, 2**-16 of the power
of two above its largest element; binary32 adds about 2**-24 an operation.
"""

import math

import numpy as np
import pytest

from samebits.errors import UnsupportedInput
from samebits.numerics import reference
from samebits.numerics.rope import make_rope_table
from samebits.numerics.values import (
    LIMIT,
    HeadNorms,
    Weight,
    make_cache,
    pack_weight,
    unpack_weight,
)
from tests.numerics.cases import (
    F32,
    THRESHOLDS,
    assert_same_bits,
    fill_cache,
    hard_rows,
    make_rows,
    make_shape,
    make_weight,
)

EPS = 2.0**-24
"""Half a unit in the last place of binary32, relative."""


def row(*values: float) -> F32:
    return np.array([values], np.float32)


def dequantise(q: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Give the value of quantised rows in float64."""
    return np.asarray(np.ldexp(q.astype(np.float64), e[..., None] - 15))


@pytest.mark.parametrize(
    ("values", "q", "exponent"),
    [
        ((0.5, -0.25), (16384, -8192), 0),
        ((1.0, 0.5), (16384, 8192), 1),
        ((-1.0, 1.0), (-16384, 16384), 1),
        ((np.nextafter(np.float32(1), np.float32(0)), 0.5), (32767, 16384), 0),
        ((-np.nextafter(np.float32(1), np.float32(0)), 0.0), (-32767, 0), 0),
        ((0.75, 0.5 * 2.0**-15), (24576, 0), 0),
        ((0.75, 1.5 * 2.0**-15), (24576, 2), 0),
        ((0.75, -2.5 * 2.0**-15), (24576, -2), 0),
        ((2.0**-64, 0.0), (16384, 0), -63),
        ((2.0**-65, 2.0**-70), (0, 0), -64),
        ((2.0**-140, -(2.0**-149)), (0, 0), -64),
        ((0.0, -0.0), (0, 0), -64),
        ((3.4028234663852886e38, 2.0**127), (32767, 16384), 128),
    ],
)
def test_row_quantiser_at_its_edges(
    values: tuple[float, ...], q: tuple[int, ...], exponent: int
) -> None:
    found, e = reference.quantise_rows(row(*values))
    assert found.tolist() == [list(q)]
    assert e.tolist() == [exponent]
    assert found.dtype == np.int16 and e.dtype == np.int32


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused_everywhere(bad: float) -> None:
    x = row(1.0, bad)
    weight = make_weight(16, 2)
    for call in (
        lambda: reference.quantise_rows(x),
        lambda: reference.quantise_weight(x, 16),
        lambda: reference.linear(x, weight),
        lambda: reference.rms_norm(x, np.ones(2, np.float32), 1e-5),
        lambda: reference.argmax(x),
        lambda: reference.softmax_weights(x[0], reference.LOG2_E),
        lambda: reference.log_probabilities(x),
    ):
        with pytest.raises(UnsupportedInput, match="NaN or infinity"):
            call()


@pytest.mark.parametrize("rows", THRESHOLDS)
def test_row_quantiser_is_within_half_a_unit_and_looks_at_one_row_only(rows: int) -> None:
    x = hard_rows(rows, 45)
    q, e = reference.quantise_rows(x)
    unit = np.ldexp(1.0, e - 15)
    # The clamp costs the largest element up to one unit more; a zero row is below 2**-64.
    bound = np.where(e == -64, 2.0**-64, unit)
    assert (np.abs(dequantise(q, e) - x) <= bound[:, None]).all()
    inner = np.abs(q) < 32767
    assert (
        np.abs(dequantise(q, e) - x)[inner]
        <= np.broadcast_to(np.where(e == -64, 2.0**-64, unit / 2)[:, None], x.shape)[inner]
    ).all()
    alone, e_alone = reference.quantise_rows(x[rows // 2 : rows // 2 + 1])
    assert_same_bits(alone[0], q[rows // 2])
    assert e_alone[0] == e[rows // 2]


@pytest.mark.parametrize(("bits", "top"), LIMIT.items())
def test_weight_quantiser_reaches_its_limit_and_stays_within_half_a_unit(
    bits: int, top: int
) -> None:
    w = hard_rows(40, 33)
    q, s = reference.quantise_weight(w, bits)
    assert q.dtype == (np.int16 if bits == 16 else np.int8)
    is_zero = np.abs(w).max(axis=1) < 2.0**-64
    assert is_zero.any()
    assert (q[is_zero] == 0).all() and (s[is_zero] == 0).all()
    assert (np.abs(q[~is_zero].astype(np.int32)).max(axis=1) == top).all()
    # Half a unit, and the rounding of scale and quotient: 2**-24 each of up to `top` units.
    error = np.abs(q * s.astype(np.float64)[:, None] - w)[~is_zero]
    assert (error <= s[~is_zero, None] * (0.5 + 2 * EPS * top)).all()


@pytest.mark.parametrize(("n", "k"), [(1, 1), (16, 2), (17, 3), (50, 33)])
def test_packing_comes_back(n: int, k: int) -> None:
    q = np.arange(n * k, dtype=np.int16).reshape(n, k) - 7
    packed = pack_weight(q)
    assert packed.shape == (-(-n // 16), -(-k // 2), 16, 2)
    weight = Weight(
        packed=packed,
        scale=np.zeros(16, np.float32),
        bias=None,
        num_outputs=n,
        num_inputs=k,
        bits=16,
    )
    rows = unpack_weight(weight, 0, len(packed))
    assert (rows[:n] == q).all() and (rows[n:] == 0).all()
    assert packed.astype(np.int64).sum() == q.astype(np.int64).sum()


@pytest.mark.parametrize("rows", [1, 9, 45])
def test_linear_is_the_product_of_the_quantised_operands(rows: int) -> None:
    x, weight = hard_rows(rows, 65), make_weight(50, 65, bias=True)
    residual = hard_rows(rows, 50, seed=3)
    q, e = reference.quantise_rows(x)
    w = unpack_weight(weight, 0, len(weight.packed))[:50] * weight.scale[:50, None].astype(float)
    exact = dequantise(q, e) @ w.T
    assert weight.bias is not None
    # acc to binary32, times scale, times a power of two; two additions follow.
    found = reference.linear(x, weight, residual)
    terms = np.abs(exact) + np.abs(weight.bias) + np.abs(residual) + np.abs(exact + weight.bias)
    assert (np.abs(found - (exact + weight.bias + residual)) <= 4 * EPS * terms + 1e-37).all()


def test_linear_of_a_zero_row_is_the_bias() -> None:
    weight = make_weight(20, 9, bias=True)
    assert weight.bias is not None
    assert_same_bits(reference.linear(np.zeros((1, 9), np.float32), weight)[0], weight.bias)


@pytest.mark.parametrize("rows", [1, 16, 45])
def test_rms_norm_is_close_to_float64(rows: int) -> None:
    rng = np.random.default_rng(rows)
    x = (rng.standard_normal((rows, 96)) * 2.0 ** rng.integers(-9, 9, (rows, 1))).astype("f4")
    weight = rng.standard_normal(96).astype(np.float32)
    exact = x / np.sqrt(np.square(x.astype(float)).mean(axis=1, keepdims=True) + 1e-5) * weight
    # Half a unit on each element: relative to the root mean square at most
    # 2**-16 * (2 * largest / rms), and largest / rms <= sqrt(96) < 10.
    found = reference.rms_norm(x, weight, 1e-5)
    np.testing.assert_allclose(found, exact, rtol=20 * 2.0**-16)
    # Errors of the elements are independent, so the sum is far better than the bound.
    np.testing.assert_allclose(found, exact, rtol=2e-5)


def test_rms_norm_of_zeros_is_zero() -> None:
    x = np.zeros((2, 8), np.float32)
    assert (reference.rms_norm(x, np.ones(8, np.float32), 1e-6) == 0).all()


def test_exp2_is_within_its_stated_error() -> None:
    f = np.linspace(-0.5, 0.5, 100_001).astype(np.float32)
    p, n = reference.exp2_parts(f)
    relative = np.ldexp(p.astype(np.float64), n) / np.exp2(f.astype(np.float64)) - 1
    # 1.1e-7, the docstring's promise, roundings included.
    assert np.abs(relative).max() < 1.1e-7


def test_integer_exp2_is_monotone_at_the_joints_and_ends_at_its_floor() -> None:
    x = np.array([0.0, -1.0, -2.0, -24.0, -25.5, -30.0, -30.001, -1e30], np.float32)
    found = reference.integer_exp2(x, 24, -30.0)
    assert found.tolist() == [2**24, 2**23, 2**22, 1, 0, 0, 0, 0]
    near_zero = -np.arange(100, dtype=np.float32) * np.float32(2.0**-25)
    assert (reference.integer_exp2(near_zero, 24, -30.0) <= 2**24).all()


@pytest.mark.parametrize("window", [0, 7])
def test_attention_is_close_to_float64(window: int) -> None:
    shape = make_shape(window=window)
    rows, cache = fill_cache(shape, [20], [13], 16)
    q = np.random.default_rng(1).standard_normal((13, 4, 16)).astype(np.float32)
    k, ke, v, ve = reference.gather(rows, 0, 33, cache)
    keys, values = dequantise(k, ke), dequantise(v, ve)
    found = reference.attention(q, shape, rows, cache).reshape(13, 4, 16)
    for r, position in enumerate(rows.positions):
        first = max(0, position + 1 - window) if window else 0
        seen = slice(first, position + 1)
        for h in range(4):
            scores = keys[h // 2, seen] @ q[r, h].astype(float) * shape.scale
            weights = np.exp(scores - scores.max())
            exact = weights @ values[h // 2, seen] / weights.sum()
            # Query off by 2**-16 of its power of two: a score by up to
            # 2**-16 * 2 * |q|max * |k|_1 * scale < 2**-16 * 2 * 4 * 16 * 20 / 4 < 1e-2, in fact
            # far less since errors are independent: 1e-3 of the largest value is generous.
            bound = 1e-3 * np.abs(values[h // 2, seen]).max()
            assert np.abs(found[r, h] - exact).max() < bound


def test_attention_to_one_token_returns_its_value() -> None:
    shape = make_shape()
    rows, cache = fill_cache(shape, [0], [1], 16)
    found = reference.attention(np.ones((1, 4, 16), np.float32), shape, rows, cache)
    _, _, v, ve = reference.gather(rows, 0, 1, cache)
    expected = dequantise(v, ve)[:, 0].repeat(2, axis=0).reshape(1, -1)
    assert_same_bits(found, expected.astype(np.float32))


def test_attention_does_not_see_later_tokens_or_those_before_the_window() -> None:
    shape = make_shape(window=5)
    rows, cache = fill_cache(shape, [10], [1], 16)
    q = np.ones((1, 4, 16), np.float32)
    before = reference.attention(q, shape, rows, cache)
    page = int(rows.pages[0, 0])
    for token in (0, 5, 11):
        cache.value_exponents[page, :, token] = 100
        cache.key_exponents[page, :, token] = 60
    assert_same_bits(reference.attention(q, shape, rows, cache), before)
    cache.value_exponents[page, :, 6] = 100
    assert reference.attention(q, shape, rows, cache).tobytes() != before.tobytes()


def test_rope_append_rotates_normalises_and_caches() -> None:
    shape = make_shape(heads=2, kv_heads=1, head_dim=4)
    rng = np.random.default_rng(0)
    norms = HeadNorms(
        query=rng.standard_normal(4).astype("f4"), key=rng.standard_normal(4).astype("f4"), eps=1e-6
    )
    table = make_rope_table(4, 1e4, 64)
    rows = make_rows([30], [3], 16)
    cache = make_cache(num_pages=3, page_tokens=16, num_kv_heads=1, head_dim=4)
    qkv = rng.standard_normal((3, 16)).astype(np.float32)
    q = reference.rope_append(qkv, shape, norms, table, rows, cache)
    k, ke, v, ve = reference.gather(rows, 0, 33, cache)
    heads = qkv.reshape(3, 4, 4)
    angles = np.arange(30, 33)[:, None] * 1e4 ** (-np.arange(2) / 2)

    def expect(x: F32, weight: F32) -> np.ndarray:
        normed = x / np.sqrt(np.square(x.astype(float)).mean(-1, keepdims=True) + 1e-6) * weight
        turned = (normed[:, :2] + 1j * normed[:, 2:]) * np.exp(1j * angles)
        return np.concatenate([turned.real, turned.imag], axis=1)

    # The norm is good to 1e-4, the quantiser to 2**-16 of numbers below 8.
    np.testing.assert_allclose(q[:, 0], expect(heads[:, 0], norms.query), atol=3e-4)
    np.testing.assert_allclose(dequantise(k, ke)[0, 30:], expect(heads[:, 2], norms.key), atol=3e-4)
    np.testing.assert_allclose(dequantise(v, ve)[0, 30:], heads[:, 3], atol=3e-4)
    assert (ke[0, :30] == 0).all()


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gates_are_close_to_float64(activation: str) -> None:
    g = np.concatenate([np.linspace(-30, 30, 4001), [0.0, -1e4, 1e4, -200, 200]]).astype("f4")
    u = np.random.default_rng(0).standard_normal(len(g)).astype(np.float32)
    found = reference.gate(np.concatenate([g, u])[None], activation)[0]
    x = g.astype(np.float64)
    if activation == "silu":
        with np.errstate(over="ignore"):
            exact = x / (1 + np.exp(-x)) * u
    else:
        exact = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) * u
    # The exponent is off by 4 * 2**-24 of up to 126; below 2**-126 the gate is flat, not zero.
    np.testing.assert_allclose(found, exact, rtol=126 * 4 * EPS, atol=1e-10)


def test_argmax_takes_the_lowest_of_equals() -> None:
    assert reference.argmax(np.array([[1, 3, 3, 2], [-0.0, 0.0, -1, 0]], "f4")).tolist() == [1, 0]


def test_softmax_weights_are_integers_below_2_to_the_40() -> None:
    z = np.array([2.0, 2.0, 1.0, -50.0], np.float32)
    weights = reference.softmax_weights(z, reference.LOG2_E)
    assert weights.tolist()[:2] == [2**40, 2**40]
    assert weights[2] == pytest.approx(2**40 / math.e, rel=3e-7)
    assert weights[3] == 0
    assert weights.dtype == np.int64


@pytest.mark.parametrize("spread", [0.1, 3.0, 30.0])
def test_log_probabilities_are_within_one_millionth(spread: float) -> None:
    z = (np.random.default_rng(7).standard_normal((5, 3000)) * spread).astype(np.float32)
    exact = z.astype(float) - z.max(axis=1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(axis=1, keepdims=True))
    # Weights to 2e-7 relative; binary32 rounds the result, and z - max, to 2**-24 of at most 250.
    bound = 1e-6 + 2 * EPS * np.abs(exact)
    assert (np.abs(reference.log_probabilities(z) - exact) <= bound).all()


def test_natural_log_is_within_1e_15() -> None:
    for x in (1.0, 0.71, 1.41, 2.0, 3.0, 1e-3, 2.0**40, 2.0**56 - 1, 12345.678):
        found = float(reference.natural_log(np.float64(x)))
        assert found == pytest.approx(math.log(x), rel=4e-16, abs=1e-15)
