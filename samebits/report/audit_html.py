"""Reports of audits as one self-contained HTML file."""

from samebits.audit.results import Analysis
from samebits.report.audit_document import make_document
from samebits.report.in_html import write_page


def audit_html(analysis: Analysis, language: str = "en") -> str:
    """Write an audit as a page that needs no script and loads nothing.

    Raises:
        ConfigError: The language is not one of ours.
    """
    return write_page(make_document(analysis, language))
