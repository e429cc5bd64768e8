"""Writes reports as canonical JSON, one line: what was found, field by field.

The names are those of the modules that define these values. Nothing is spelled for a language.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from samebits.advise.results import Advice
from samebits.audit.compare_results import RecordComparison
from samebits.audit.results import Analysis
from samebits.lock.compare import Difference
from samebits.record.canonical import canonical_bytes
from samebits.record.mend import mend

FORMATS = {
    Advice: "samebits/advice-report/v1",
    Analysis: "samebits/audit-report/v1",
    RecordComparison: "samebits/comparison/v1",
}
DIFFERENCES = "samebits/lock-comparison/v1"


def report_json(found: Advice | Analysis | RecordComparison) -> str:
    """Spell what was found."""
    return write_json({"format": FORMATS[type(found)], **asdict(found)})


def differences_json(
    found: Sequence[Difference],
    ignored: Sequence[Difference] = (),
    excepted: Sequence[Difference] = (),
) -> str:
    """Spell how environments differ."""
    lists = {"differences": found, "ignored": ignored, "excepted": excepted}
    spelled = {name: [asdict(x) for x in items] for name, items in lists.items()}
    return write_json({"format": DIFFERENCES, **spelled})


def write_json(value: Mapping[str, Any]) -> str:
    """Spell a value in canonical JSON, one line; what JSON cannot carry is a text."""
    return canonical_bytes(mend(value)).decode() + "\n"
