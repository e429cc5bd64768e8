from dataclasses import replace
from typing import Any

import pytest

from samebits.audit.axes import BASE, Contrast, with_call
from samebits.audit.bisection import find_middle, value_of
from samebits.audit.planned import note_of, note_of_plan, read_note, read_plan
from samebits.errors import RecordCorrupt


def level(value: int) -> Contrast:
    return Contrast(
        axis="concurrency",
        level=str(value),
        base=BASE,
        treated=with_call(BASE, concurrency=value),
    )


def test_the_middle_lies_between_the_largest_clear_and_the_smallest_found() -> None:
    asked = [level(value) for value in (2, 4, 8, 16)]
    middle = find_middle(level(16), asked[:3], asked)
    assert middle == level(12)


def test_the_base_counts_as_clear() -> None:
    middle = find_middle(level(8), [], [level(8)])
    assert middle is not None
    assert value_of(middle) == 4


def test_neighbours_have_no_middle() -> None:
    assert find_middle(level(2), [], [level(2)]) is None
    assert find_middle(level(5), [level(4)], [level(4), level(5)]) is None


def test_what_was_asked_and_is_undecided_is_not_asked_for_ever() -> None:
    assert find_middle(level(8), [], [level(4), level(8)]) is None


@pytest.mark.parametrize("least", range(2, 17))
def test_every_threshold_is_reached_in_at_most_four_steps(least: int) -> None:
    asked = [level(value) for value in (2, 4, 8, 16)]
    for _ in range(5):
        found = min((c for c in asked if value_of(c) >= least), key=value_of)
        clear = [c for c in asked if value_of(c) < least]
        middle = find_middle(found, clear, asked)
        if middle is None:
            break
        asked.append(middle)
    assert value_of(found) == least
    assert len(asked) <= 4 + 3


def test_a_note_is_read_as_it_was_written() -> None:
    assert read_note(note_of(level(12))) == level(12)


def test_other_notes_are_no_contrasts() -> None:
    assert read_note({"name": "positive control", "differs": True}) is None


def test_a_note_of_an_unknown_condition_is_refused() -> None:
    note = {**note_of(replace(level(3), level="3")), "treated": {"wind": 3}}
    with pytest.raises(RecordCorrupt, match="wind"):
        read_note(note)


@pytest.mark.parametrize("name", ["axis", "level", "base", "treated", "max_prompts", "leans"])
@pytest.mark.parametrize("value", [[1, "a"], -1.5, {"a": []}])
def test_a_contrast_of_other_types_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(RecordCorrupt):
        read_note({**note_of(level(3)), name: value})
    with pytest.raises(RecordCorrupt):
        read_plan([{**note_of_plan([level(3)]), "contrasts": value}])
