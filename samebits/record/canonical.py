"""Canonical bytes: one value, one spelling (RFC 8785).

JSON numbers are binary64, so an integer of magnitude 2**53 or more is written as a decimal string;
the reader of a field knows its type and takes both (`read_int`). Normative: docs/formats.md.
"""

import json
import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any

import rfc8785

from samebits.errors import RecordCorrupt, UnsupportedInput

LARGEST_NUMBER = 2**53 - 1
EXPONENT = re.compile("[ein]")
"""In what Python writes for a number: an exponent, inf or nan."""
RARE = re.compile(r"[ein]|\.0[,\]]")
"""In what Python writes for an array of floats: one that is spelt otherwise here."""
HEADS: dict[tuple[Any, ...], list[tuple[str, str]]] = {}
"""By the keys of an object as they come: what `order_keys` gives."""
MOST_FORMS = 1024
LONGEST_FORM = 1024
"""Characters of all keys: what strangers send must not fill the memory."""
DECIMAL = re.compile(r"-?[1-9][0-9]*\Z", re.ASCII)


def canonical_bytes(value: object) -> bytes:
    """Spell a value of None, bool, int, float, str, lists, tuples and string-keyed mappings.

    Written out here because an audit waits while its record is spelt: two to six times as fast as
    the library, which stays for numbers with an exponent, and as the oracle in the tests.

    Raises:
        UnsupportedInput: NaN, infinity, a lone surrogate, an integer longer than Python writes, too
            deep or endless nesting, or any other type.
    Source: RFC 8785; docs/formats.md, "Canonical bytes".
    """
    try:
        return spell(value).encode()
    except (rfc8785.CanonicalizationError, ValueError, RecursionError) as error:
        raise UnsupportedInput(
            expected="finite numbers, valid Unicode and little nesting in a record",
            found=str(error),
        ) from error


def spell(value: object) -> str:
    """Spell a value as text."""
    return SPELLINGS.get(type(value), spell_other)(value)


def spell_other(value: object) -> str:
    """Spell a subclass, such as an enumeration or a number of NumPy, or another mapping."""
    for kind, spelling in SPELLINGS.items():
        if isinstance(value, kind):
            return spelling(value)
    if isinstance(value, Mapping):
        return spell_object(value)
    raise refuse_type(value)


def spell_float(value: float) -> str:
    """Spell a binary64 number; where Python's shortest digits need no exponent, they do."""
    text = float.__repr__(value)
    if text.endswith(".0"):
        return "0" if value == 0 else text[:-2]
    return text if text.isascii() and not EXPONENT.search(text) else spell_rare(value)


def spell_rare(value: float) -> str:
    """Spell a number with an exponent, NaN or infinity as the library does, or refuse it."""
    return rfc8785.dumps(float(value)).decode()


def spell_int(value: int) -> str:
    """Spell an integer: a number below 2**53, else a string."""
    text = int.__repr__(value)
    return text if -LARGEST_NUMBER <= value <= LARGEST_NUMBER else f'"{text}"'


def spell_list(value: list[Any] | tuple[Any, ...]) -> str:
    """Spell an array; one of numbers or texts alone at once, since records are made of them."""
    kinds = set(map(type, value))
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is int or kind is float:
        is_plain = kind is int and -LARGEST_NUMBER <= min(value) <= max(value) <= LARGEST_NUMBER
        text = repr([*value]).replace(", ", ",")
        if is_plain or (kind is float and not RARE.search(text)):
            return text
    spelling = spell if kind is None else SPELLINGS.get(kind, spell_other)
    return f"[{','.join(map(spelling, value))}]"


def spell_object(value: Mapping[Any, object]) -> str:
    """Spell an object, its keys in order of their UTF-16 code units."""
    names = tuple(value)
    heads = HEADS.get(names) or order_keys(names)
    # Not by `spell`, which is one call more: every request that is looked up in a cache waits here.
    find = SPELLINGS.get
    pairs = [head + find(type(item := value[key]), spell_other)(item) for key, head in heads]
    return f"{{{','.join(pairs)}}}"


def order_keys(names: tuple[Any, ...]) -> list[tuple[str, str]]:
    """Put the keys of an object in order, each with its spelling and the colon after it.

    Objects of few forms follow one another in a record and in the requests to a cache, so forms are
    remembered.
    """
    try:
        keys: list[str] = sorted(names)
        text = "".join(keys)
    except TypeError as error:
        raise refuse_type(next(name for name in names if not isinstance(name, str))) from error
    if not text.isascii():
        keys.sort(key=lambda key: key.encode("utf-16-be"))
    heads = [(key, f"{encode_basestring(key)}:") for key in keys]
    if len(text) <= LONGEST_FORM:
        if len(HEADS) >= MOST_FORMS:
            HEADS.clear()
        HEADS[names] = heads
    return heads


def refuse_type(value: object) -> UnsupportedInput:
    """Make the error for a value that has no spelling."""
    return UnsupportedInput(
        expected="None, bool, int, float, str, list or string-keyed mapping in a record",
        found=type(value).__name__,
    )


SPELLINGS: dict[type, Callable[[Any], str]] = {
    type(None): lambda _: "null",
    bool: lambda value: "true" if value else "false",
    str: encode_basestring,
    float: spell_float,
    int: spell_int,
    list: spell_list,
    tuple: spell_list,
    dict: spell_object,
}
"""bool stands before int, of which it is a kind."""


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
