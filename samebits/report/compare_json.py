"""Reports of comparisons as canonical JSON: what was found, field by field."""

from dataclasses import asdict

from samebits.audit.compare_results import RecordComparison
from samebits.report.plain_json import write_json

FORMAT = "samebits/comparison/v1"


def compare_json(found: RecordComparison) -> str:
    """Spell a comparison in canonical JSON; the names are those of audit/compare_results.py."""
    return write_json({"format": FORMAT, **asdict(found)})
