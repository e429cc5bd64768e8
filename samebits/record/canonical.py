"""Canonical bytes: one value, one spelling (RFC 8785).

JSON numbers are binary64, so an integer of magnitude 2**53 or more is written as a decimal string;
the reader of a field knows its type and takes both (`read_int`). Normative: docs/formats.md.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

import rfc8785

from samebits.errors import RecordCorrupt, UnsupportedInput

LARGEST_NUMBER = 2**53 - 1
DECIMAL = re.compile(r"-?[1-9][0-9]*\Z", re.ASCII)


def canonical_bytes(value: object) -> bytes:
    """Spell a value of None, bool, int, float, str, lists, tuples and string-keyed mappings.

    Raises:
        UnsupportedInput: NaN, infinity, a lone surrogate, or any other type.
    Source: docs/formats.md, "Canonical bytes".
    """
    try:
        return rfc8785.dumps(spell(value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise UnsupportedInput(
            expected="finite numbers and valid Unicode in a record", found=str(error)
        ) from error


def spell(value: object) -> Any:
    """Replace what JSON cannot carry: large integers by strings, tuples by lists."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return value if abs(value) <= LARGEST_NUMBER else str(value)
    if isinstance(value, list | tuple):
        return [spell(item) for item in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: spell(item) for key, item in value.items()}
    raise UnsupportedInput(
        expected="None, bool, int, float, str, list or string-keyed mapping in a record",
        found=type(value).__name__,
    )


def parse_json(data: bytes | str) -> Any:
    """Read JSON strictly: UTF-8, no duplicate keys, nothing that `canonical_bytes` cannot spell.

    Raises:
        RecordCorrupt: Anything else.
    """
    try:
        text = data.decode() if isinstance(data, bytes) else data
        value = json.loads(
            text,
            object_pairs_hook=unique_pairs,
            parse_constant=refuse_constant,
            parse_int=read_number,
        )
        canonical_bytes(value)
    except (ValueError, RecursionError, UnsupportedInput) as error:
        raise RecordCorrupt(expected="one JSON value in UTF-8", found=str(error)) from error
    return value


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object, refusing a key that stands there twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise RecordCorrupt(expected="each key once", found=f"{twice!r} twice")
    return found


def read_number(digits: str) -> int | float:
    """Read a number without point or exponent; from 2**53 on it was a float when it was written."""
    number = float(digits)
    return int(digits) if abs(number) <= LARGEST_NUMBER else number


def refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python's reader would take."""
    raise RecordCorrupt(expected="finite numbers", found=name)


def read_int(value: object, field: str) -> int:
    """Give an integer back from either spelling.

    Raises:
        RecordCorrupt: It is neither, or a string that should have been a number.
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_NUMBER:
        return value
    if isinstance(value, str) and len(value) < 40 and DECIMAL.match(value):
        number = int(value)
        if abs(number) > LARGEST_NUMBER:
            return number
    raise RecordCorrupt(
        expected=f"{field}: an integer, as a string from 2**53 on", found=repr(value)
    )
