"""One value has one spelling, and what JSON cannot carry is refused or written as a string."""

import json
import math
import struct
from enum import Enum
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import RecordCorrupt, UnsupportedInput
from samebits.record.canonical import (
    HEADS,
    LONGEST_FORM,
    MOST_FORMS,
    canonical_bytes,
    parse_json,
    read_int,
)

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


@given(VALUES | st.lists(st.floats(allow_nan=False, allow_infinity=False)) | st.lists(TEXTS))
def test_the_spelling_is_that_of_the_library(value: object) -> None:
    assert canonical_bytes(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=300))
def test_numbers_of_any_bits_are_spelt_as_by_the_library(patterns: list[int]) -> None:
    numbers = [struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in patterns]
    finite = [number for number in numbers if math.isfinite(number)]
    powers = [m * 10.0**e for e in range(-9, 24) for m in (1.0, -1.5, 9.999999999999999)]
    assert canonical_bytes(finite + powers) == rfc8785.dumps(finite + powers)
    assert [canonical_bytes(x) for x in finite] == [rfc8785.dumps(x) for x in finite]


@pytest.mark.parametrize("value", [[1, 2**53], [0.5, math.nan], [0.5, math.inf], [1, 1.0], [True]])
def test_arrays_of_rare_numbers_are_spelt_one_by_one(value: list[float]) -> None:
    try:
        one_by_one = b"[" + b",".join(map(canonical_bytes, value)) + b"]"
    except UnsupportedInput:
        with pytest.raises(UnsupportedInput):
            canonical_bytes(value)
    else:
        assert canonical_bytes(value) == one_by_one


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


class Flavour(str, Enum):  # noqa: UP042  # not StrEnum: its str() is its name, not its text
    """A text of a kind that `str` does not give back."""

    SWEET = "sweet"


def test_a_kind_of_text_is_spelt_as_its_text() -> None:
    assert canonical_bytes({Flavour.SWEET: [Flavour.SWEET, 1]}) == b'{"sweet":["sweet",1]}'


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ({1: 2, "a": 3}, "int"),
        ({b"a": 1}, "bytes"),
        ({None: 1}, "NoneType"),
        ({"a": {2.0: 1}}, "float"),
    ],
)
def test_a_key_that_is_no_text_is_refused(value: Any, kind: str) -> None:
    for _ in range(2):
        with pytest.raises(UnsupportedInput, match=f"found {kind}"):
            canonical_bytes(value)


def test_forms_of_objects_are_remembered_within_bounds() -> None:
    for number in range(3 * MOST_FORMS):
        key = f"k{number}"
        assert canonical_bytes({key: 1, "a": 2}) == f'{{"a":2,"{key}":1}}'.encode()
        assert len(HEADS) <= MOST_FORMS
    long = "x" * (LONGEST_FORM + 1)
    assert canonical_bytes({long: 1}) == f'{{"{long}":1}}'.encode()
    assert (long,) not in HEADS
