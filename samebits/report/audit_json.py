"""Reports of audits as canonical JSON: the analysis, field by field."""

from dataclasses import asdict

from samebits.audit.results import Analysis
from samebits.report.plain_json import write_json

FORMAT = "samebits/audit-report/v1"


def audit_json(analysis: Analysis) -> str:
    """Spell an analysis in canonical JSON, one line; the names are those of audit/results.py."""
    return write_json({"format": FORMAT, **asdict(analysis)})
