"""Plain values become dataclasses by their declared types, strictly, and go back."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pytest

from samebits.errors import RecordCorrupt
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.mend import mend
from samebits.record.typed import plain_value, read_typed


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    x: float
    name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    count: int
    inner: Inner | None = None
    many: tuple[Inner, ...] = ()
    pairs: tuple[tuple[str, int], ...] = ()
    mixed: tuple[int | str, ...] | None = None
    whole: tuple[int, ...] = ()
    reals: tuple[float, ...] = ()
    is_on: bool = False
    colour: Colour = Colour.RED
    free: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, int] = field(default_factory=dict)


FULL = Outer(
    count=2**60,
    inner=Inner(x=1.0, name="a"),
    many=(Inner(x=0.5), Inner(x=-math.inf)),
    pairs=(("a", 1), ("b", 2**53)),
    mixed=(1, "one", 2**63),
    whole=(0, -(2**53), 2**53 - 1),
    reals=(1.0, 2.5, math.inf),
    is_on=True,
    colour=Colour.BLUE,
    free={"a": [1, None, {"b": 0.5}]},
    named={"a": 2**55},
)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("value", [FULL, Outer(count=0)])
def test_values_go_through_canonical_json_and_back(value: Outer, whole: bool) -> None:
    data = canonical_bytes(mend(plain_value(value, whole=whole)))
    assert read_typed(Outer, parse_json(data), "outer") == value


def test_fields_at_their_defaults_are_left_out_unless_the_whole_is_asked_for() -> None:
    assert plain_value(Outer(count=0)) == {"count": 0}
    assert set(plain_value(Outer(count=0), whole=True)) == set(Outer.__slots__)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": None}, "outer.count: an integer"),
        ({"count": True}, "outer.count: an integer"),
        ({"count": "12"}, "outer.count: an integer"),
        ({"count": 1.0}, "outer.count: an integer"),
        ({"whole": [1, 2**53]}, r"outer.whole\[1\]: an integer"),
        ({"whole": [1, True]}, r"outer.whole\[1\]: an integer"),
        ({"inner": {}}, "outer.inner: the keys x"),
        ({"inner": {"x": "1"}}, "outer.inner.x: a number"),
        ({"inner": [1]}, "outer.inner: an object"),
        ({"many": [{"x": 1}, {"x": True}]}, r"outer.many\[1\].x: a number"),
        ({"pairs": [["a"]]}, r"outer.pairs\[0\]: a list of 2"),
        ({"mixed": [1, None]}, r"outer.mixed\[1\]: an integer.* or a text"),
        ({"reals": "12"}, "outer.reals: a list"),
        ({"is_on": 1}, "outer.is_on: true or false"),
        ({"colour": "green"}, "outer.colour: one of red, blue"),
        ({"named": {"a": "x"}}, "outer.named: an integer"),
        ({"free": []}, "outer.free: an object"),
        ({"more": 1}, "outer: no unknown key; found 'more'"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_place(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecordCorrupt, match=message):
        read_typed(Outer, {"count": 1, **changes}, "outer")
