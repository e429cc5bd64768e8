"""How a record says which contrasts were planned: in notes.

So an old record is read as it was made, whatever the axes are today.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from samebits.audit.axes import Contrast
from samebits.audit.condition import Condition
from samebits.errors import RecordCorrupt

PLAN = "plan"
EXPLORATORY = "contrast"


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
    found = (contrast_from(value) for note in plans for value in note.get("contrasts", ()))
    return list(dict.fromkeys(found)) if plans else None


def read_note(note: Mapping[str, Any]) -> Contrast | None:
    """Read an exploratory contrast; None if it is another note.

    Raises:
        RecordCorrupt: It is none.
    """
    if note.get("name") != EXPLORATORY:
        return None
    return contrast_from({key: value for key, value in note.items() if key != "name"})


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


def contrast_from(value: Any) -> Contrast:
    """Read what `contrast_value` gave.

    Raises:
        RecordCorrupt: A name is missing, unknown, or has another type.
    """
    try:
        fields = {
            **value,
            "base": Condition.from_value(value["base"]),
            "treated": Condition.from_value(value["treated"]),
        }
        return Contrast(**fields)
    except (KeyError, TypeError, ValueError) as error:
        raise RecordCorrupt(expected="contrasts in a note", found=str(error)) from error
