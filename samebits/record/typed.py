"""Plain values to dataclasses and back, by the types that the fields declare.

Strict: a key that no field has, a missing one without a default and a value of another type are
refused by name. A field that stands at its default may be left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from samebits.errors import RecordCorrupt
from samebits.record.canonical import LARGEST_NUMBER, read_int
from samebits.record.mend import NUMBERS

SCALARS = frozenset({str, int, float, bool, NoneType})
Reader = Callable[[Any], Any]
"""A plain value to a typed one; raises Misfit."""


class Misfit(Exception):
    """A value does not fit the declared type."""

    def __init__(self, expected: str, found: object, where: str = "") -> None:
        self.expected = expected
        self.found = found
        self.where = where
        super().__init__(expected)

    def inside(self, where: str) -> "Misfit":
        """Give the same, one level further out."""
        join = "" if self.where.startswith("[") or not self.where else "."
        return Misfit(self.expected, self.found, f"{where}{join}{self.where}")


def read_typed(kind: Any, value: Any, where: str) -> Any:
    """Read a plain value as a type.

    Args:
        kind: A dataclass, or any type that a field of one may declare.
        where: Names the value in errors.
    Raises:
        RecordCorrupt: It does not fit; the message names the field.
    """
    try:
        return reader_of(kind)(value)
    except Misfit as error:
        found = error.inside(where)
        raise RecordCorrupt(
            expected=f"{found.where}: {found.expected}", found=repr(found.found)[:200]
        ) from error


def plain_value(item: Any, *, whole: bool = False) -> Any:
    """Give a dataclass as plain values.

    Args:
        whole: Keep the fields that stand at their defaults, too.
    """
    kind: Any = type(item)
    if kind in SCALARS:
        return item
    if is_dataclass(item):
        return {
            name: plain_value(value, whole=whole)
            for name, default in list_defaults(kind)
            if (value := getattr(item, name)) != default or whole
        }
    if isinstance(item, tuple | list):
        # Long lists of plain items are what a record mostly is: here and in `make_list_reader`
        # their types are looked at at once.
        if SCALARS.issuperset(map(type, item)):
            return list(item)
        return [plain_value(value, whole=whole) for value in item]
    if isinstance(item, Mapping):
        return {key: plain_value(value, whole=whole) for key, value in item.items()}
    return item


@cache
def list_defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    """List the fields of a dataclass with their defaults, MISSING if none."""
    return tuple((field.name, default_of(field)) for field in fields(kind))


def default_of(field: "Field[Any]") -> Any:
    """Give the default of a field, MISSING if it has none."""
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


@cache
def reader_of(kind: Any) -> Reader:
    """Make the reader of a type, once."""
    if kind in PLAIN:
        return PLAIN[kind]
    if is_dataclass(kind):
        return make_dataclass_reader(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return make_enum_reader(kind)
    makers = {UnionType: make_union_reader, tuple: make_tuple_reader}
    return makers.get(get_origin(kind), make_mapping_reader)(get_args(kind))


def read_text(value: Any) -> str:
    """Read a text."""
    if type(value) is not str:
        raise Misfit("a text", value)
    return value


def read_whole(value: Any) -> int:
    """Read an integer, in either spelling."""
    if type(value) is int and abs(value) <= LARGEST_NUMBER:
        return value
    try:
        return read_int(value, "")
    except RecordCorrupt as error:
        raise Misfit("an integer, as a string from 2**53 on", value) from error


def read_real(value: Any) -> float:
    """Read a number; NaN and infinities are texts."""
    if type(value) is float or type(value) is int:
        return float(value)
    if type(value) is str and value in NUMBERS:
        return NUMBERS[value]
    raise Misfit("a number", value)


def read_bool(value: Any) -> bool:
    """Read true or false."""
    if type(value) is not bool:
        raise Misfit("true or false", value)
    return value


def read_none(value: Any) -> None:
    """Read null."""
    if value is not None:
        raise Misfit("null", value)


PLAIN: Mapping[Any, Reader] = {
    str: read_text,
    int: read_whole,
    float: read_real,
    bool: read_bool,
    NoneType: read_none,
    Any: lambda value: value,
}


def make_dataclass_reader(kind: Any) -> Reader:
    """Make the reader of a dataclass."""
    hints = get_type_hints(kind)
    readers = {field.name: reader_of(hints[field.name]) for field in fields(kind)}
    needed = {name for name, default in list_defaults(kind) if default is MISSING}

    def read(value: Any) -> Any:
        if type(value) is not dict:
            raise Misfit("an object", value)
        found = {}
        for name, item in value.items():
            if name not in readers:
                raise Misfit("no unknown key", name)
            try:
                found[name] = readers[name](item)
            except Misfit as error:
                raise error.inside(name) from error
        if not needed <= found.keys():
            raise Misfit(f"the keys {', '.join(sorted(needed - found.keys()))}", "none")
        return kind(**found)

    return read


def make_enum_reader(kind: type[StrEnum]) -> Reader:
    """Make the reader of a fixed list of texts."""
    members = {str(member): member for member in kind}

    def read(value: Any) -> StrEnum:
        if type(value) is not str or value not in members:
            raise Misfit(f"one of {', '.join(members)}", value)
        return members[value]

    return read


def make_union_reader(kinds: tuple[Any, ...]) -> Reader:
    """Make the reader of one type or another; the first that fits counts."""
    readers = [reader_of(kind) for kind in kinds]
    if kinds[-1] is NoneType and len(kinds) == 2:
        first = readers[0]
        return lambda value: None if value is None else first(value)

    def read(value: Any) -> Any:
        expected = []
        for one in readers:
            try:
                return one(value)
            except Misfit as error:
                expected.append(error.expected)
        raise Misfit(" or ".join(expected), value)

    return read


def make_tuple_reader(kinds: tuple[Any, ...]) -> Reader:
    """Make the reader of a list: of any length and one type, or of fixed types."""
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        return make_list_reader(kinds[0])
    readers = [reader_of(kind) for kind in kinds]

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list or len(value) != len(readers):
            raise Misfit(f"a list of {len(readers)}", value)
        return tuple(one(item) for one, item in zip(readers, value, strict=True))

    return read


def make_list_reader(kind: Any) -> Reader:
    """Make the reader of a list of one type."""
    one = reader_of(kind)
    members = set(get_args(kind)) or {kind}
    # An integer from 2**53 on is a text, so that texts beside integers are looked at one by one.
    at_once = members & ({int, float} if int in members else {str, float})

    def read(value: Any) -> tuple[Any, ...]:
        if type(value) is not list:
            raise Misfit("a list", value)
        if set(map(type, value)) <= at_once and (int not in members or is_small(value)):
            return tuple(value)
        return tuple(read_item(one, i, item) for i, item in enumerate(value))

    return read


def is_small(value: list[int]) -> bool:
    """Answer whether all integers are below 2**53 in magnitude."""
    return not value or -LARGEST_NUMBER <= min(value) <= max(value) <= LARGEST_NUMBER


def read_item(one: Reader, place: int, item: Any) -> Any:
    """Read one item of a list."""
    try:
        return one(item)
    except Misfit as error:
        raise error.inside(f"[{place}]") from error


def make_mapping_reader(kinds: tuple[Any, ...]) -> Reader:
    """Make the reader of an object with free keys."""
    one = reader_of(kinds[1])

    def read(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise Misfit("an object", value)
        return {name: one(item) for name, item in value.items()}

    return read
