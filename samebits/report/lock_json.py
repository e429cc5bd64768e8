"""Locks' differences as canonical JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from samebits.lock.compare import Difference
from samebits.report.plain_json import write_json

FORMAT = "samebits/lock-comparison/v1"


def differences_json(
    found: Sequence[Difference],
    ignored: Sequence[Difference] = (),
    excepted: Sequence[Difference] = (),
) -> str:
    """Spell differences in canonical JSON; the names are those of samebits/lock/compare.py."""
    lists = {"differences": found, "ignored": ignored, "excepted": excepted}
    return write_json(
        {"format": FORMAT, **{name: [asdict(x) for x in items] for name, items in lists.items()}}
    )
