"""portable.py gives the bits of reference.py, at every size where kernels change their ways."""

import numpy as np
import pytest

from samebits.errors import UnsupportedInput
from samebits.numerics import portable, reference
from samebits.numerics.values import LIMIT, Weight, pack_weight
from tests.numerics.cases import (
    F32,
    PAGE_TOKENS,
    THRESHOLDS,
    assert_same_bits,
    fill_cache,
    hard_rows,
    make_shape,
    make_weight,
)

LINEARS = [(50, 33, 16, True), (48, 64, 8, False), (17, 129, 16, False), (1, 1, 8, True)]


@pytest.mark.parametrize("rows", THRESHOLDS)
@pytest.mark.parametrize(("n", "k", "bits", "bias"), LINEARS)
def test_linear_gives_the_bits_of_the_reference(
    rows: int, n: int, k: int, bits: int, bias: bool
) -> None:
    x, weight = hard_rows(rows, k), make_weight(n, k, bits=bits, bias=bias)
    residual = hard_rows(rows, n, seed=1)
    assert_same_bits(portable.linear(x, weight), reference.linear(x, weight))
    assert_same_bits(portable.linear(x, weight, residual), reference.linear(x, weight, residual))


@pytest.mark.parametrize("rows", THRESHOLDS)
def test_linear_is_invariant_to_companions(rows: int) -> None:
    x, weight = hard_rows(rows, 257), make_weight(65, 257)
    whole = portable.linear(x, weight)
    for r in {0, rows // 2, rows - 1}:
        assert_same_bits(whole[r : r + 1], portable.linear(x[r : r + 1], weight))


@pytest.mark.parametrize("block", [1, 700, 5000])
def test_linear_is_invariant_to_its_block(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = hard_rows(9, 43), make_weight(100, 43)
    monkeypatch.setattr(portable, "BLOCK_WEIGHTS", block)
    assert_same_bits(portable.linear(x, weight), reference.linear(x, weight))


@pytest.mark.parametrize(("bits", "top"), LIMIT.items())
def test_linear_is_exact_at_the_largest_operands(bits: int, top: int) -> None:
    k = 6000
    q = np.full((16, k), top, np.int16 if bits == 16 else np.int8)
    q[1::2] *= -1
    weight = Weight(
        packed=pack_weight(q),
        scale=np.ones(16, np.float32),
        bias=None,
        num_outputs=16,
        num_inputs=k,
        bits=bits,
    )
    x = np.full((2, k), np.float32(32767 / 32768))
    exact = np.float32(32767 * top * k) * np.float32(2.0**-15)
    assert_same_bits(portable.linear(x, weight)[:, :2], np.array([[exact, -exact]] * 2, "f4"))
    assert_same_bits(portable.linear(x, weight), reference.linear(x, weight))


def test_linear_refuses_what_does_not_fit() -> None:
    with pytest.raises(UnsupportedInput, match=r"float32 \(R, 33\)"):
        portable.linear(hard_rows(2, 32), make_weight(16, 33))
    with pytest.raises(UnsupportedInput, match="NaN or infinity"):
        portable.linear(np.full((1, 33), np.nan, np.float32), make_weight(16, 33))


@pytest.mark.parametrize("tokens", THRESHOLDS)
@pytest.mark.parametrize("window", [0, 1, 7, 16, 40])
def test_attention_of_one_row_gives_the_bits_of_the_reference(tokens: int, window: int) -> None:
    shape = make_shape(window=window)
    rows, cache = fill_cache(shape, [tokens - 1, 20], [1, 1], 16)
    q = hard_rows(2, 64, seed=tokens).reshape(2, 4, 16)
    assert_same_bits(
        portable.attention(q, shape, rows, cache), reference.attention(q, shape, rows, cache)
    )


@pytest.mark.parametrize("tokens", THRESHOLDS)
def test_attention_of_a_prompt_gives_the_bits_of_the_reference(tokens: int) -> None:
    page_tokens, window = PAGE_TOKENS[tokens % 3], (0, 9, 33)[tokens % 3]
    shape = make_shape(heads=3, kv_heads=1, window=window)
    rows, cache = fill_cache(shape, [0, 5], [tokens, 2], page_tokens)
    q = spread_queries(tokens + 2, 3)
    assert_same_bits(
        portable.attention(q, shape, rows, cache), reference.attention(q, shape, rows, cache)
    )


@pytest.mark.parametrize("window", [0, 17])
def test_attention_is_invariant_to_page_size(window: int) -> None:
    shape = make_shape(window=window)
    found = []
    for page_tokens in PAGE_TOKENS:
        rows, cache = fill_cache(shape, [100, 0, 63], [30, 45, 1], page_tokens)
        found.append(portable.attention(spread_queries(76, 4), shape, rows, cache))
    assert_same_bits(found[1], found[0])
    assert_same_bits(found[2], found[0])


@pytest.mark.parametrize("name", ["EXACT_TOKENS", "BLOCK_SCORES"])
def test_attention_is_invariant_to_its_blocks(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = make_shape(window=50)
    rows, cache = fill_cache(shape, [90, 0], [10, 70], 32)
    q = spread_queries(80, 4)
    expected = reference.attention(q, shape, rows, cache)
    monkeypatch.setattr(portable, name, 13)
    assert_same_bits(portable.attention(q, shape, rows, cache), expected)


def test_attention_skips_a_sequence_without_rows() -> None:
    shape = make_shape()
    rows, cache = fill_cache(shape, [10, 4, 30], [1, 0, 2], 16)
    q = spread_queries(3, 4)
    assert_same_bits(
        portable.attention(q, shape, rows, cache), reference.attention(q, shape, rows, cache)
    )


def spread_queries(rows: int, heads: int) -> F32:
    """Make (rows, heads, 16) queries; some so large that all weights but one vanish."""
    rng = np.random.default_rng([rows, heads])
    x = rng.standard_normal((rows, heads, 16)) * rng.choice([0.01, 1, 1, 40], (rows, heads, 1))
    queries: F32 = x.astype(np.float32)
    return queries
