"""One value has one spelling, and what JSON cannot carry is refused or written as a string."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import RecordCorrupt, UnsupportedInput
from samebits.record.canonical import canonical_bytes, parse_json, read_int

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


@given(VALUES)
def test_reading_and_spelling_again_gives_the_same_bytes(value: object) -> None:
    once = canonical_bytes(value)
    assert canonical_bytes(parse_json(once)) == once


def test_key_order_and_spaces_do_not_matter() -> None:
    assert canonical_bytes({"b": 1, "a": [True, None]}) == b'{"a":[true,null],"b":1}'
    assert canonical_bytes(json.loads(' { "a" : [true,null] , "b":1 } ')) == canonical_bytes(
        {"b": 1, "a": [True, None]}
    )


def test_a_whole_float_and_an_integer_are_one_number() -> None:
    assert canonical_bytes([1.0, -0.0, 1e21]) == b"[1,0,1e+21]"


@pytest.mark.parametrize("value", [2**53, -(2**53), 2**64 - 1])
def test_large_integers_are_strings_and_come_back(value: int) -> None:
    data = canonical_bytes(value)
    assert data == b'"%d"' % value
    assert read_int(parse_json(data), "seed") == value


@pytest.mark.parametrize("value", [2**53 - 1, -(2**53) + 1, 0])
def test_smaller_integers_are_numbers_and_come_back(value: int) -> None:
    data = canonical_bytes(value)
    assert data == b"%d" % value
    assert read_int(parse_json(data), "seed") == value


@pytest.mark.parametrize(
    "value", ["7", "007", "+9007199254740992", "9007199254740992.0", 1.5, True, None, 2**60, "x"]
)
def test_other_spellings_of_integers_are_refused(value: object) -> None:
    with pytest.raises(RecordCorrupt, match="seed"):
        read_int(value, "seed")


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, -math.inf, "\ud800", {"\udfff": 1}, b"x", {1: 2}, {1, 2}, object()],
)
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(UnsupportedInput):
        canonical_bytes(value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"\xff",
        b'{"a":1,"a":1}',
        b"NaN",
        b"[-Infinity]",
        b"1 2",
        b"[" * 200_000,
        b"1e999",
        b'"\\ud800"',
        b'{"\\udc00":1}',
    ],
)
def test_damaged_json_is_refused(data: bytes) -> None:
    with pytest.raises(RecordCorrupt):
        parse_json(data)
