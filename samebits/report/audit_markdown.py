"""Reports of audits in Markdown."""

from samebits.audit.results import Analysis
from samebits.report.audit_document import make_document
from samebits.report.in_markdown import write_document


def audit_markdown(analysis: Analysis, language: str = "en") -> str:
    """Write an audit as Markdown.

    Raises:
        ConfigError: The language is not one of ours.
    """
    return write_document(make_document(analysis, language))
