"""The notes of a record that its analysis reads: their names, and the contrasts planned.

Contrasts are noted so that an old record is read as it was made, whatever the axes are today.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.audit.axes import Contrast
from samebits.audit.condition import Condition
from samebits.record.typed import read_typed

PLAN = "plan"
EXPLORATORY = "contrast"
CONTROL = "positive control"
WHERE = "contrasts in a note"


def note_of_plan(contrasts: Sequence[Contrast]) -> dict[str, Any]:
    """Give the note that tells a record of the contrasts planned."""
    return {"name": PLAN, "contrasts": [contrast_value(contrast) for contrast in contrasts]}


def note_of(contrast: Contrast) -> dict[str, Any]:
    """Give the note that tells a record of an exploratory contrast."""
    return {"name": EXPLORATORY, **contrast_value(contrast)}


def read_plan(notes: Sequence[Mapping[str, Any]]) -> list[Contrast] | None:
    """Read the contrasts planned, by all attempts; None if the record stops before them.

    Raises:
        RecordCorrupt: A contrast is none.
    """
    plans = [note for note in notes if note.get("name") == PLAN]
    told = [read_typed(tuple[Told, ...], note.get("contrasts"), WHERE) for note in plans]
    return (
        list(dict.fromkeys(make_contrast(one) for plan in told for one in plan)) if plans else None
    )


def read_note(note: Mapping[str, Any]) -> Contrast | None:
    """Read an exploratory contrast; None if it is another note.

    Raises:
        RecordCorrupt: It is none.
    """
    if note.get("name") != EXPLORATORY:
        return None
    value = {key: item for key, item in note.items() if key != "name"}
    return make_contrast(read_typed(Told, value, WHERE))


def contrast_value(contrast: Contrast) -> dict[str, Any]:
    """Give a contrast as plain values."""
    return {
        "axis": contrast.axis,
        "level": contrast.level,
        "base": contrast.base.value(),
        "treated": contrast.treated.value(),
        "max_prompts": contrast.max_prompts,
        "leans": contrast.leans,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A contrast as `contrast_value` spells it."""

    axis: str
    level: str
    base: Mapping[str, Any]
    """What differs from the audit's base, here and below."""
    treated: Mapping[str, Any]
    max_prompts: int | None = None
    leans: bool = False


def make_contrast(told: Told) -> Contrast:
    """Make the contrast.

    Raises:
        RecordCorrupt: A condition has an unknown factor, or one of another type.
    """
    return Contrast(
        axis=told.axis,
        level=told.level,
        base=Condition.from_value(told.base),
        treated=Condition.from_value(told.treated),
        max_prompts=told.max_prompts,
        leans=told.leans,
    )
