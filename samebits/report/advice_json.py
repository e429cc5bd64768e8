"""Advice as canonical JSON: what was found, field by field."""

from dataclasses import asdict

from samebits.advise.results import Advice
from samebits.report.plain_json import write_json

FORMAT = "samebits/advice-report/v1"


def advice_json(found: Advice) -> str:
    """Spell an advice in canonical JSON; the names are those of advise/results.py."""
    return write_json({"format": FORMAT, **asdict(found)})
