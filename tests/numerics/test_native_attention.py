"""Attention and the cache in C have the bits of the reference, whatever page, window and head."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from samebits.errors import UnsupportedInput
from samebits.numerics import reference
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.rope import make_rope_table
from samebits.numerics.values import AttentionShape, HeadNorms, LayerCache, Rows
from tests.numerics.cases import (
    F32,
    THRESHOLDS,
    assert_same_bits,
    fill_cache,
    hard_rows,
    make_shape,
)

LEVELS = [*list_levels(), "wide"]
TOKENS = max(THRESHOLDS)
HEADS = {
    # (query heads, key-value heads, width): groups from 1 to 32, widths with and without a rest.
    "4/2x8": (4, 2, 8),
    "32/1x8": (32, 1, 8),
    "6/2x24": (6, 2, 24),
    "3/3x40": (3, 3, 40),
    "9/3x64": (9, 3, 64),
    "5/1x80": (5, 1, 80),
    "17/1x16": (17, 1, 16),
    "7/1x96": (7, 1, 96),
    "4/2x128": (4, 2, 128),
    "4/1x256": (4, 1, 256),
}


@pytest.fixture(
    scope="module",
    params=[(level, threads) for level in LEVELS for threads in (1, 2)],
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def native(request: pytest.FixtureRequest) -> NativeKernels:
    level, threads = request.param
    return NativeKernels(level=level, threads=threads)


def queries(count: int, shape: AttentionShape, seed: int = 3) -> F32:
    """Draw rotated queries, among them large, tiny and zero ones."""
    rng = np.random.default_rng([seed, count, shape.head_dim])
    q = rng.standard_normal((count, shape.num_heads, shape.head_dim))
    q *= rng.choice([1e-12, 0.3, 1.0, 8.0], (count, shape.num_heads, 1))
    q[::9, 0] = 0.0
    return q.astype(np.float32)


def take(rows: Rows, start: int, stop: int) -> Rows:
    """Keep some rows of a step of one sequence."""
    return Rows(
        rows.positions[start:stop].copy(),
        rows.slots[start:stop].copy(),
        np.array([0, stop - start], np.int32),
        rows.pages,
    )


@cache
def prefill(page_tokens: int, window: int) -> tuple[AttentionShape, Rows, LayerCache, F32, F32]:
    """Attend a prefill by the reference: row t is what a context of t + 1 tokens gives."""
    shape = make_shape(heads=4, kv_heads=2, head_dim=24, window=window)
    rows, cached = fill_cache(shape, [0], [TOKENS], page_tokens)
    q = queries(TOKENS, shape)
    return shape, rows, cached, q, reference.attention(q, shape, rows, cached)


@pytest.mark.parametrize(("page_tokens", "window"), [(16, 0), (32, 20), (64, 0), (128, 100)])
def test_contexts_and_chunks_of_every_threshold(
    native: NativeKernels, page_tokens: int, window: int
) -> None:
    shape, rows, cached, q, expected = prefill(page_tokens, window)
    for tokens in THRESHOLDS:
        for start, stop in ((tokens - 1, tokens), (0, tokens), (TOKENS - tokens, TOKENS)):
            found = native.attention(q[start:stop].copy(), shape, take(rows, start, stop), cached)
            assert_same_bits(found, expected[start:stop])


@cache
def expect_mixed(
    heads: str, page_tokens: int, window: int
) -> tuple[AttentionShape, Rows, LayerCache, F32, F32]:
    """Attend four sequences at once by the reference: prefill, decode, chunk, first token."""
    num_heads, kv_heads, width = HEADS[heads]
    shape = make_shape(heads=num_heads, kv_heads=kv_heads, head_dim=width, window=window)
    rows, cached = fill_cache(shape, [0, 133, 40, 0], [19, 1, 7, 1], page_tokens)
    q = queries(len(rows.positions), shape)
    return shape, rows, cached, q, reference.attention(q, shape, rows, cached)


@pytest.mark.parametrize("window", [0, 1, 7, 64])
@pytest.mark.parametrize("page_tokens", [16, 32, 64, 128])
def test_every_page_size_and_window(native: NativeKernels, page_tokens: int, window: int) -> None:
    shape, rows, cached, q, expected = expect_mixed("6/2x24", page_tokens, window)
    assert_same_bits(native.attention(q, shape, rows, cached), expected)


@pytest.mark.parametrize("window", [0, 20])
@pytest.mark.parametrize("heads", HEADS)
def test_every_head_width_and_group(native: NativeKernels, heads: str, window: int) -> None:
    shape, rows, cached, q, expected = expect_mixed(heads, 32, window)
    assert_same_bits(native.attention(q, shape, rows, cached), expected)


@pytest.mark.parametrize("dirt", [-(2**15), 2**15 - 1, 12345])
def test_what_lies_in_slots_that_nobody_owns_does_not_matter(
    native: NativeKernels, dirt: int
) -> None:
    shape, rows, clean, q, expected = expect_mixed("6/2x24", 32, 7)
    dirty = copy(clean)
    owned = np.zeros(clean.key_exponents.shape[0] * clean.page_tokens, bool)
    for s, length in enumerate((19, 134, 47, 1)):
        at = np.arange(length)
        owned[rows.pages[s, at // 32] * 32 + at % 32] = True
    page, offset = np.divmod(np.flatnonzero(~owned), clean.page_tokens)
    assert len(page) > 20
    dirty.keys[page, :, offset // 16, :, offset % 16] = dirt
    dirty.values[page, :, offset // 2, :, offset % 2] = dirt
    dirty.key_exponents[page, :, offset] = dirt
    dirty.value_exponents[page, :, offset] = dirt
    assert_same_bits(native.attention(q, shape, rows, dirty), expected)


def copy(cached: LayerCache) -> LayerCache:
    """Copy a cache."""
    return replace(
        cached,
        keys=cached.keys.copy(),
        values=cached.values.copy(),
        key_exponents=cached.key_exponents.copy(),
        value_exponents=cached.value_exponents.copy(),
    )


def test_operands_at_their_limits_do_not_overflow(native: NativeKernels) -> None:
    shape = replace(make_shape(heads=4, kv_heads=1, head_dim=256), scale=2.0**-30)
    rows, cached = fill_cache(shape, [299], [1], 64)
    for sign in (1, -1):
        cached.keys[...] = 32767 * sign
        cached.values[...] = 32767 * sign
        cached.key_exponents[...] = 3
        cached.value_exponents[...] = 3
        q = np.full((1, 4, 256), 7.9999995, np.float32)
        q[0, 1:3] *= -1
        found = native.attention(q, shape, rows, cached)
        assert_same_bits(found, reference.attention(q, shape, rows, cached))


def test_a_score_that_overflows_is_refused(native: NativeKernels) -> None:
    shape = make_shape(heads=1, kv_heads=1, head_dim=16)
    rows, cached = fill_cache(shape, [3], [1], 16)
    cached.keys[...] = 32767
    cached.key_exponents[...] = 120
    q = np.full((1, 1, 16), 1e30, np.float32)
    for kernels in (reference, native):
        with (
            np.errstate(over="ignore"),
            pytest.raises(UnsupportedInput, match="attention score"),
        ):
            kernels.attention(q, shape, rows, cached)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_queries_keys_and_values_that_are_not_finite_are_refused(
    native: NativeKernels, bad: float
) -> None:
    shape, rows, cached, q, _ = expect_mixed("6/2x24", 32, 0)
    spoilt = q.copy()
    spoilt[-1, -1, -1] = bad
    with pytest.raises(UnsupportedInput, match="NaN or infinity"):
        native.attention(spoilt, shape, rows, cached)
    table = make_rope_table(24, 1e4, TOKENS)
    for head in (5, 6, 9):  # the last query, the first key, the last value
        qkv = np.ones((len(rows.positions), 10 * 24), np.float32)
        qkv[-1, head * 24] = bad
        if head == 5:
            turned = native.rope_append(qkv, shape, None, table, rows, copy(cached))
            assert not np.isfinite(turned[-1, -1]).all()  # handed on; attention refuses it
        else:
            with pytest.raises(UnsupportedInput, match="NaN or infinity"):
                native.rope_append(qkv, shape, None, table, rows, copy(cached))


@pytest.mark.parametrize("with_norms", [False, True])
@pytest.mark.parametrize("heads", HEADS)
def test_rotation_and_cache_are_alike(native: NativeKernels, heads: str, with_norms: bool) -> None:
    shape, rows, cached, _, _ = expect_mixed(heads, 32, 0)
    width = shape.head_dim
    table = make_rope_table(width, 1e4, TOKENS)
    norms = HeadNorms(
        query=hard_rows(1, width, seed=4)[0], key=hard_rows(1, width, seed=5)[0], eps=1e-6
    )
    num_heads = shape.num_heads + 2 * shape.num_kv_heads
    qkv = hard_rows(len(rows.positions), num_heads * width)
    mine, theirs = copy(cached), copy(cached)
    asked = (qkv, shape, norms if with_norms else None, table, rows)
    assert_same_bits(native.rope_append(*asked, mine), reference.rope_append(*asked, theirs))
    for name in ("keys", "values", "key_exponents", "value_exponents"):
        assert_same_bits(getattr(mine, name), getattr(theirs, name))


@pytest.mark.parametrize("rows_count", THRESHOLDS)
def test_rotation_at_every_threshold_of_rows(native: NativeKernels, rows_count: int) -> None:
    shape, rows, cached, _, _ = prefill(32, 20)
    table = make_rope_table(24, 1e4, TOKENS)
    some = take(rows, 0, rows_count)
    qkv = hard_rows(rows_count, 8 * 24)
    mine, theirs = copy(cached), copy(cached)
    found = native.rope_append(qkv, shape, None, table, some, mine)
    assert_same_bits(found, reference.rope_append(qkv, shape, None, table, some, theirs))
    assert_same_bits(mine.keys, theirs.keys)
    assert_same_bits(mine.values, theirs.values)


def test_queries_of_another_layout_are_refused(native: NativeKernels) -> None:
    shape, rows, cached, q, _ = expect_mixed("6/2x24", 32, 0)
    wide: Any = q.astype(np.float64)
    for spoilt in (wide, np.asfortranarray(q), q[:, :5].copy(), q[1:].copy()):
        with pytest.raises(UnsupportedInput, match="queries"):
            native.attention(spoilt, shape, rows, cached)


def test_heads_of_odd_width_are_refused(native: NativeKernels) -> None:
    shape, rows, cached, q, _ = expect_mixed("6/2x24", 32, 0)
    for width in (23, 1026):
        with pytest.raises(UnsupportedInput, match="head width"):
            native.attention(q, replace(shape, head_dim=width), rows, cached)
