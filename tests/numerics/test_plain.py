"""Ordinary arithmetic is near the truth, and its bits move: the inverse control of every claim."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samebits.errors import ConfigError
from samebits.numerics import portable
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.order_free import OrderFree
from samebits.numerics.plain import Plain, round_bfloat16
from samebits.numerics.rope import make_rope_table
from samebits.numerics.values import AttentionShape, HeadNorms
from tests.numerics.cases import (
    F32,
    PAGE_TOKENS,
    Matrix,
    have_same_bits,
    make_rows,
    make_shape,
    normal,
)

MOVING = ["plain-f32", "plain-bf16"]
WIDTH = 576
SHAPE = make_shape(heads=4, kv_heads=2, head_dim=64)
TOKENS = 300


WIDE = normal(8_000, WIDTH, seed=1)


def make_arithmetic(name: str) -> Arithmetic:
    return OrderFree(portable) if name == "sb1" else Plain(name)


def multiply(arithmetic: Arithmetic, *counts: int) -> list[NDArray[Any]]:
    """Give the first 16 rows of a product, computed for each count of rows: 1 means one by one.

    So many outputs because bfloat16 hides most differences: one in some 10,000 shows.
    """
    weight = arithmetic.load_linear([Matrix(WIDE)])
    x = arithmetic.embed(normal(TOKENS, WIDTH), 1.0)
    found = []
    for count in counts:
        parts = [arithmetic.linear(x[r : r + count], weight)[:16] for r in range(0, 16, count)]
        found.append(np.concatenate(parts)[:16])
    return found


def attend(arithmetic: Arithmetic, chunks: Sequence[int], page_tokens: int = 64) -> NDArray[Any]:
    """Append and attend TOKENS tokens chunk by chunk; give what all rows return."""
    cache = arithmetic.make_cache(
        num_layers=1, num_pages=TOKENS // page_tokens + 1, page_tokens=page_tokens, shape=SHAPE
    )[0]
    table = make_rope_table(SHAPE.head_dim, 1e4, TOKENS, dtype=arithmetic.dtype)
    qkv = arithmetic.embed(normal(TOKENS, 8 * SHAPE.head_dim), 1.0)
    found, done = [], 0
    for chunk in chunks:
        rows = make_rows([done], [chunk], page_tokens)
        rows = rows._replace(
            pages=np.arange(TOKENS // page_tokens + 1, dtype=np.int32)[None],
            slots=np.arange(done, done + chunk),
        )
        q = arithmetic.rope_append(qkv[done : done + chunk], SHAPE, None, table, rows, cache)
        found.append(arithmetic.attention(q, SHAPE, rows, cache))
        done += chunk
    return np.concatenate(found)


def vary_rows(arithmetic: Arithmetic) -> list[NDArray[Any]]:
    return multiply(arithmetic, 1, 2, 8, 16, 33, 129, 300)


def vary_chunks(arithmetic: Arithmetic) -> list[NDArray[Any]]:
    chunkings = ([TOKENS], [1] * TOKENS, [7] * 42 + [6], [16] * 18 + [12], [64] * 4 + [44])
    return [attend(arithmetic, chunks) for chunks in chunkings]


def vary_pages(arithmetic: Arithmetic) -> list[NDArray[Any]]:
    return [attend(arithmetic, [TOKENS], page_tokens) for page_tokens in PAGE_TOKENS]


CHANGES = [vary_rows, vary_chunks, vary_pages]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", MOVING)
def test_plain_arithmetic_moves_its_bits(
    name: str, change: Callable[[Arithmetic], list[NDArray[Any]]]
) -> None:
    first, *others = change(make_arithmetic(name))
    assert not all(have_same_bits(other, first) for other in others)


@pytest.mark.parametrize("change", CHANGES)
def test_the_contract_does_not(change: Callable[[Arithmetic], list[NDArray[Any]]]) -> None:
    first, *others = change(make_arithmetic("sb1"))
    assert all(have_same_bits(other, first) for other in others)


@pytest.mark.parametrize(("name", "tolerance"), [("plain-f32", 2e-6), ("plain-bf16", 4e-2)])
def test_coarse_precisions_are_close_to_float64(name: str, tolerance: float) -> None:
    # Independent roundings of 2**-24 or 2**-9, two in the product and about eight in attention,
    # add to some sqrt(8) of them; the largest of thousands is within four times.
    fine, coarse = Plain("plain-f64"), Plain(name)
    for exact, found in (
        (multiply(fine, 33)[0], multiply(coarse, 33)[0]),
        (attend(fine, [TOKENS]), attend(coarse, [TOKENS])),
    ):
        assert exact.dtype == np.float64 and found.dtype == np.float32
        assert np.abs(found - exact).max() <= tolerance * np.abs(exact).max()


@pytest.mark.parametrize("window", [0, 1, 40])
def test_float64_attention_is_the_textbook_formula(window: int) -> None:
    shape = make_shape(heads=4, kv_heads=2, head_dim=8, window=window)
    plain = Plain("plain-f64")
    rows = make_rows([0, 0], [70, 3], 32)
    cache = plain.make_cache(num_layers=1, num_pages=4, page_tokens=32, shape=shape)[0]
    table = make_rope_table(8, 1e4, 70, dtype=np.float64)
    qkv = normal(73, 64).astype(np.float64)
    norms = HeadNorms(query=normal(8, seed=1), key=normal(8, seed=2), eps=1e-6)
    q = plain.rope_append(qkv, shape, norms, table, rows, cache)
    found = plain.attention(q, shape, rows, cache)
    for start, stop in ((0, 70), (70, 73)):
        expected = attend_by_the_book(qkv[start:stop], shape, norms)
        np.testing.assert_allclose(found[start:stop], expected, rtol=0, atol=1e-12)


def attend_by_the_book(qkv: NDArray[Any], shape: AttentionShape, norms: HeadNorms) -> NDArray[Any]:
    """Attend one sequence from position 0 with complex rotations and a full score matrix."""
    n, d = len(qkv), shape.head_dim
    heads = qkv.reshape(n, -1, d)
    rotation = np.exp(1j * np.arange(n)[:, None] * 1e4 ** (-np.arange(d // 2) / (d // 2)))

    def turn(x: NDArray[Any], weight: F32) -> NDArray[Any]:
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + norms.eps) * weight
        z = (x[..., : d // 2] + 1j * x[..., d // 2 :]) * rotation[:, None]
        return np.concatenate([z.real, z.imag], axis=-1)

    q, k = turn(heads[:, :4], norms.query), turn(heads[:, 4:6], norms.key).repeat(2, axis=1)
    v = heads[:, 6:].repeat(2, axis=1)
    scores = np.einsum("ihd,jhd->hij", q, k) * shape.scale
    behind = np.arange(n)[:, None] - np.arange(n)
    hidden = (behind < 0) | (behind >= (shape.window_tokens or n))
    weights = np.where(hidden, 0, np.exp(scores))
    mixed = np.einsum("hij,jhd->ihd", weights / weights.sum(-1, keepdims=True), v)
    return np.asarray(mixed.reshape(n, -1))


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_float64_agrees_with_the_contract_within_float32(activation: str) -> None:
    plain, contract = Plain("plain-f64"), OrderFree(portable)
    x = normal(5, 64)
    pairs = [
        (plain.gate(x.astype(np.float64), activation), contract.gate(x, activation)),
        (
            plain.rms_norm(x.astype(np.float64), x[0].astype(np.float64), 1e-5),
            contract.rms_norm(x, x[0], 1e-5),
        ),
        (plain.embed(x, 25.25), contract.embed(x, 25.25)),
        (plain.add(x.astype(np.float64), x), contract.add(x, x)),
    ]
    for exact, found in pairs:
        # The mean square of rms_norm is off by 2**-16 of its elements at most.
        np.testing.assert_allclose(found, exact, rtol=2e-5, atol=1e-7)


def test_silu_of_very_negative_numbers_is_zero_not_nan() -> None:
    gu = np.array([[-2000.0, 1.0]])
    assert Plain("plain-f64").gate(gu, "silu")[0, 0] == 0


def test_bfloat16_rounds_to_nearest_even() -> None:
    unit = 2.0**-7
    x = np.array([1 + unit / 2, 1 + 1.5 * unit, 1 + 0.51 * unit, -1 - 0.49 * unit, 0.0], "f4")
    assert round_bfloat16(x).tolist() == [1, 1 + 2 * unit, 1 + unit, -1, 0]


def test_bfloat16_activations_are_bfloat16_numbers() -> None:
    plain = Plain("plain-bf16")
    weight = plain.load_linear([Matrix(normal(20, WIDTH))], [normal(20)])
    x = plain.embed(normal(3, WIDTH), 3.3)
    y = plain.linear(x, weight, plain.embed(normal(3, 20), 1.0))
    for values in (x, y, weight.matrix, weight.bias, plain.gate(y, "silu")):
        assert values is not None
        assert have_same_bits(round_bfloat16(values), values)


def test_unknown_precision_is_refused() -> None:
    with pytest.raises(ConfigError, match="plain-f64, plain-f32, plain-bf16"):
        Plain("plain-f16")
