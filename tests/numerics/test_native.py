"""The C kernels give the bits of the reference at every level this machine can run.

`wide`, the 64-byte code without AVX-512, stands in for the levels it cannot. Attention is in
test_native_attention.py; threads, forks and floating-point modes are in test_native_process.py.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samebits.errors import ConfigError, UnsupportedInput
from samebits.numerics import reference
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.selftest import fill_weight
from samebits.numerics.values import LIMIT, Weight, pack_weight
from tests.numerics.cases import F32, THRESHOLDS, assert_same_bits, hard_rows, make_weight

LEVELS = [*list_levels(), "wide"]
WIDTHS = (1, 2, 3, 31, 33, 511, 512, 513, 514, 1023, 1024, 1025, 1026)
OUTPUTS = (1, 2, 15, 16, 17, 31, 32, 33, 47, 100, 257)
BLOCK_WIDTHS = (1, 2, 511, 512, 513, 514, 515, 1025, 65535, 65536, 65537, 65539, 131072, 131074)
"""Around 256 pairs, where digits are flushed, and 32,768 pairs, where whole products are."""


@pytest.fixture(
    scope="module",
    params=[(level, threads) for level in LEVELS for threads in (1, 2)],
    ids=lambda p: f"{p[0]}-{p[1]}",
)
def native(request: pytest.FixtureRequest) -> NativeKernels:
    level, threads = request.param
    return NativeKernels(level=level, threads=threads)


@cache
def expect_linear(bits: int) -> tuple[F32, Weight, F32, F32]:
    """Give operands with every threshold of rows, and what the reference makes of them."""
    x, residual = hard_rows(max(THRESHOLDS), 259), hard_rows(max(THRESHOLDS), 33, seed=1)
    weight = make_weight(33, 259, bits=bits, bias=True)
    return x, weight, residual, reference.linear(x, weight, residual)


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("rows", THRESHOLDS)
def test_linear_at_every_threshold_of_rows(native: NativeKernels, rows: int, bits: int) -> None:
    x, weight, residual, expected = expect_linear(bits)
    assert_same_bits(native.linear(x[:rows], weight, residual[:rows]), expected[:rows])
    assert_same_bits(native.linear(x[-rows:], weight, residual[-rows:]), expected[-rows:])


@pytest.mark.parametrize("bits", [16, 8])
def test_linear_at_every_edge_of_the_reduced_width(native: NativeKernels, bits: int) -> None:
    for width in WIDTHS:
        x, weight = hard_rows(9, width), make_weight(17, width, bits=bits)
        assert_same_bits(native.linear(x, weight), reference.linear(x, weight))


@pytest.mark.parametrize("bits", [16, 8])
def test_linear_at_every_edge_of_the_outputs(native: NativeKernels, bits: int) -> None:
    for outputs in OUTPUTS:
        x = hard_rows(9, 65)
        weight = make_weight(outputs, 65, bits=bits, bias=bool(outputs % 2))
        assert_same_bits(native.linear(x, weight), reference.linear(x, weight))


@cache
def expect_long(bits: int) -> tuple[F32, Weight, F32]:
    x, weight = hard_rows(5, 70_001), make_weight(17, 70_001, bits=bits)
    return x, weight, reference.linear(x, weight)


@pytest.mark.parametrize("bits", [16, 8])
def test_linear_of_a_very_wide_row(native: NativeKernels, bits: int) -> None:
    x, weight, expected = expect_long(bits)
    assert_same_bits(native.linear(x, weight), expected)


def make_signs(width: int) -> NDArray[np.int64]:
    """Make sign patterns (5, K): all plus, all minus, in turns, pairs in turns, one turn."""
    k = np.arange(width)
    minus = [k < 0, k >= 0, k % 2 == 1, k // 2 % 2 == 1, k >= width // 2]
    return np.where(np.stack(minus), -1, 1)


def pack(q: NDArray[np.int64], bits: int) -> Weight:
    """Pack integers (N, K) with scale 1."""
    packed = pack_weight(q.astype(np.int16) if bits == 16 else q.astype(np.int8))
    scale = np.ones(16 * len(packed), np.float32)
    return Weight(
        packed=packed,
        scale=scale,
        bias=None,
        num_outputs=q.shape[0],
        num_inputs=q.shape[1],
        bits=bits,
    )


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("width", BLOCK_WIDTHS)
def test_sums_of_operands_at_their_limits_are_exact(
    native: NativeKernels, width: int, bits: int
) -> None:
    signs = make_signs(width)
    sums = (signs * 32767) @ (signs * LIMIT[bits]).T
    assert abs(sums).max() == 32767 * LIMIT[bits] * width
    x = (signs * (1 - 2.0**-24)).astype(np.float32)  # rounds to 32768, clamped to 32767
    found = native.linear(x, pack(signs * LIMIT[bits], bits))
    assert_same_bits(found, sums.astype(np.float32) * np.float32(2.0**-15))


@pytest.mark.parametrize("bits", [16, 8])
def test_sums_of_random_signs_at_their_limits_are_exact(native: NativeKernels, bits: int) -> None:
    rng = np.random.default_rng(bits)
    for width in (513, 1026, 65_541):
        a, b = (np.where(rng.random((n, width)) < 0.5, -1, 1) for n in (7, 19))
        sums = (a * 32767) @ (b * LIMIT[bits]).T
        x = (a * (1 - 2.0**-24)).astype(np.float32)
        found = native.linear(x, pack(b * LIMIT[bits], bits))
        assert_same_bits(found, sums.astype(np.float32) * np.float32(2.0**-15))


def test_linear_of_no_rows_has_no_rows(native: NativeKernels) -> None:
    assert native.linear(np.empty((0, 64), np.float32), make_weight(17, 64)).shape == (0, 17)


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 33, 576, 1537])
def test_rows_are_quantised_alike(native: NativeKernels, width: int) -> None:
    x = hard_rows(max(THRESHOLDS), width)
    q, e = reference.quantise_rows(x)
    for rows in THRESHOLDS:
        found_q, found_e = native.quantise_rows(x[:rows])
        assert_same_bits(found_q, q[:rows])
        assert_same_bits(found_e, e[:rows])
    heads = x[:12].reshape(3, 4, width)
    assert_same_bits(native.quantise_rows(heads)[0], q[:12].reshape(3, 4, width))


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize("width", [1, 2, 17, 33, 576])
def test_weights_are_quantised_alike(native: NativeKernels, width: int, bits: int) -> None:
    w = hard_rows(49, width)
    for found, expected in zip(
        native.quantise_weight(w, bits), reference.quantise_weight(w, bits), strict=True
    ):
        assert_same_bits(found, expected)


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 33, 576, 1537])
def test_norms_are_alike(native: NativeKernels, width: int) -> None:
    x, weight = hard_rows(max(THRESHOLDS), width), hard_rows(1, width, seed=2)[0]
    for eps in (1e-5, 1e-6, 0.0625):
        expected = reference.rms_norm(x, weight, eps)
        for rows in (1, 2, 7, 8, 33, 129, 300):
            assert_same_bits(native.rms_norm(x[:rows], weight, eps), expected[:rows])


def make_gates(rows: int, width: int) -> F32:
    """Make gate inputs: hard rows, a fine grid over the polynomial, and its clipped ends."""
    gu = np.minimum(np.abs(hard_rows(rows, 2 * width)), 1e6) * np.sign(hard_rows(rows, 2 * width))
    gu[0, :width] = np.linspace(-130, 130, width, dtype=np.float32)
    gu[0, width:] = np.where(np.arange(width) % 5 == 0, 2.0**-140, 1.5)
    return gu.astype(np.float32)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
@pytest.mark.parametrize("width", [1, 7, 16, 33, 1536])
def test_gates_are_alike(native: NativeKernels, width: int, activation: str) -> None:
    gu = make_gates(33, width)
    expected = reference.gate(gu, activation)
    for rows in (1, 2, 8, 33):
        assert_same_bits(native.gate(gu[:rows], activation), expected[:rows])


@pytest.mark.parametrize("width", [1, 2, 15, 16, 17, 259, 4001])
def test_sampling_is_alike(native: NativeKernels, width: int) -> None:
    logits = hard_rows(17, width)
    logits[3] = np.where(np.arange(width) % 2, np.float32(0), np.float32(-0.0))
    assert_same_bits(native.argmax(logits), reference.argmax(logits))
    calm = np.clip(logits, -80, 80)
    assert_same_bits(native.log_probabilities(calm), reference.log_probabilities(calm))
    for row, factor in zip(calm, np.linspace(0.01, 3, 17, dtype=np.float32), strict=True):
        found = native.softmax_weights(row, factor)
        assert_same_bits(found, reference.softmax_weights(row, factor))


def test_equal_logits_give_the_lowest_id_wherever_they_lie(native: NativeKernels) -> None:
    for first in (0, 1, 15, 16, 500):
        logits = np.full((1, 517), -1.0, np.float32)
        logits[0, first:] = 2.0
        assert native.argmax(logits)[0] == first


OPERATIONS: dict[str, Callable[[NativeKernels, F32], Any]] = {
    "quantise_rows": lambda k, x: k.quantise_rows(x),
    "quantise_weight": lambda k, x: k.quantise_weight(x, 16),
    "linear": lambda k, x: k.linear(x, fill_weight(17, 64, 16, 5)),
    "residual": lambda k, x: k.linear(x.copy(), fill_weight(64, 64, 16, 5), x),
    "rms_norm": lambda k, x: k.rms_norm(x, np.ones(64, np.float32), 1e-5),
    "gate": lambda k, x: k.gate(x, "silu"),
    "argmax": lambda k, x: k.argmax(x),
    "softmax_weights": lambda k, x: k.softmax_weights(x[0], np.float32(1)),
    "log_probabilities": lambda k, x: k.log_probabilities(x),
}
FINITE = sorted(set(OPERATIONS) - {"gate", "residual"})


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", FINITE)
def test_numbers_that_are_not_finite_are_refused(
    native: NativeKernels, name: str, bad: float
) -> None:
    for place in (0, 31, 63):
        x = np.ones((3, 64), np.float32)
        x[0, place] = bad
        with pytest.raises(UnsupportedInput, match="NaN or infinity"):
            OPERATIONS[name](native, x)


def test_a_gate_hands_nan_and_infinity_on_to_whoever_refuses_them(native: NativeKernels) -> None:
    for bad in (np.nan, np.inf):
        gu = np.ones((1, 64), np.float32)
        gu[0, 5] = bad
        assert not np.isfinite(native.gate(gu, "silu")[0, 5])


def test_a_mean_square_that_overflows_is_refused(native: NativeKernels) -> None:
    x = np.full((1, 64), 3e38, np.float32)
    with pytest.raises(UnsupportedInput, match="NaN or infinity"):
        native.rms_norm(x, np.ones(64, np.float32), 1e-5)


def misalign(x: F32) -> F32:
    """Copy to an address that is no multiple of four."""
    memory = np.zeros(x.nbytes + 1, np.uint8)
    shifted = memory[1:].view(np.float32).reshape(x.shape)
    shifted[...] = x
    return shifted


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(misalign, id="misaligned"),
        pytest.param(lambda x: np.repeat(x, 2, axis=1)[:, ::2], id="with gaps"),
        pytest.param(lambda x: np.asfortranarray(x), id="by columns"),
        pytest.param(lambda x: x.astype(np.float64), id="float64"),
        pytest.param(lambda x: x.astype(np.float16), id="float16"),
    ],
)
@pytest.mark.parametrize("name", OPERATIONS)
def test_arrays_of_another_layout_or_type_are_refused(
    native: NativeKernels, name: str, spoil: Callable[[F32], Any]
) -> None:
    x = spoil(np.ones((64, 64), np.float32))
    with pytest.raises(UnsupportedInput, match="float32"):
        OPERATIONS[name](native, x)


def test_a_width_that_does_not_fit_the_weight_is_refused(native: NativeKernels) -> None:
    weight = fill_weight(17, 64, 16, 5)
    with pytest.raises(UnsupportedInput, match="64"):
        native.linear(np.ones((1, 65), np.float32), weight)
    with pytest.raises(UnsupportedInput, match="residual"):
        native.linear(np.ones((1, 64), np.float32), weight, np.ones((1, 18), np.float32))


def test_a_level_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="generic"):
        NativeKernels(level="sse9", threads=1)
