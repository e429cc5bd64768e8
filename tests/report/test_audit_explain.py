"""The arithmetic on the reader's numbers is right, bit by bit."""

import math
import struct
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.report.explain import (
    FORMATS,
    absorb,
    compare_tie,
    is_usable,
    round_bfloat16,
    round_float16,
    round_float32,
    softmax,
    sum_orders,
)
from tests.report.audit_results import make_operands, make_probe

FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(FLOATS)
def test_rounding_to_float32_and_float16_is_numpys(value: float) -> None:
    with np.errstate(over="ignore"):
        assert round_float32(value) == float(np.float32(value))
        assert round_float16(value) == float(np.float16(value))


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_rounding_to_bfloat16_takes_the_nearest_and_even_among_ties(value: float) -> None:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    down = struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
    found = round_bfloat16(value)
    if math.isinf(found):
        assert abs(value) > 3.39e38
        return
    up = struct.unpack("<f", struct.pack("<I", min((bits & 0xFFFF0000) + 0x10000, 0xFF7FFFFF)))[0]
    gaps = [abs(Fraction(value) - Fraction(x)) for x in (down, up) if math.isfinite(x)]
    assert abs(Fraction(found) - Fraction(value)) == min(gaps)
    if len(gaps) == 2 and gaps[0] == gaps[1]:
        assert struct.unpack("<I", struct.pack("<f", found))[0] >> 16 & 1 == 0


def test_float32_forward_sums_are_those_of_numpy() -> None:
    operands = make_operands(200, "float32")
    total = np.float32(0)
    for x, w in zip(operands.x, operands.w, strict=True):
        total = np.float32(total + np.float32(np.float32(x) * np.float32(w)))
    sums = sum_orders(operands).sums
    found = next(s for s in sums if s.order == "forward" and s.format.name == "float32")
    assert found.value == float(total)
    assert found.bits == total.view(np.uint32).tobytes()[::-1].hex()


def test_the_exact_value_is_the_rounded_rational_sum() -> None:
    operands = make_operands(300, "float32")
    exact = sum(Fraction(x) * Fraction(w) for x, w in zip(operands.x, operands.w, strict=True))
    assert sum_orders(operands).exact == float(exact)


def test_orders_give_different_bits_in_the_narrow_formats() -> None:
    sums = sum_orders(make_operands())
    assert sums.distinct("bfloat16") > 1
    assert len(sums.sums) == 6 * len(FORMATS)


def test_bits_have_the_width_of_their_format() -> None:
    assert [form.bits(1.0) for form in FORMATS] == ["3f800000", "3c00", "3f80"]
    assert [form.gap(1.0) for form in FORMATS] == [2.0**-23, 2.0**-10, 2.0**-7]


def test_the_addend_that_is_shown_vanishes_in_bfloat16_and_arrives_in_float32() -> None:
    found = absorb(make_operands())
    assert found is not None
    wide, _, narrow = found.rows
    assert narrow.result == narrow.total and narrow.arrived == 0
    assert wide.arrived == pytest.approx(1, abs=0.01)
    assert narrow.num_lost > wide.num_lost == 0


def test_products_that_are_all_zero_have_nothing_to_absorb() -> None:
    operands = make_operands()
    assert absorb(replace(operands, x=(0.0,) * len(operands.x))) is None


def test_operands_that_are_not_finite_are_not_added_up() -> None:
    operands = make_operands()
    assert is_usable(operands)
    assert not is_usable(replace(operands, x=(math.inf, *operands.x[1:])))
    assert not is_usable(replace(operands, x=operands.x[1:]))


def test_what_float16_cannot_hold_is_infinite_and_nothing_breaks() -> None:
    operands = replace(make_operands(), x=(3e4,) * 64, w=(30.0,) * 64)
    sums = sum_orders(operands).sums
    assert all(math.isinf(s.value) for s in sums if s.format.name == "float16")


def test_a_tie_names_both_winners_and_shares_add_up_to_one() -> None:
    tie = make_probe().tie
    assert tie is not None
    found = compare_tie(tie)
    assert [x.wins_base for x in found] == [True, False, False]
    assert [x.wins_treated for x in found] == [False, True, False]
    assert sum(x.base_share for x in found) == pytest.approx(1)
    assert softmax([1e4, 1e4]) == [0.5, 0.5]
