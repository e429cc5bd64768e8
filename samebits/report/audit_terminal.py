"""Reports of audits for a terminal, and as plain text."""

from rich.console import RenderableType

from samebits.audit.results import Analysis
from samebits.report.audit_document import make_document
from samebits.report.in_terminal import draw_document, print_document


def draw_audit(analysis: Analysis, language: str = "en") -> RenderableType:
    """Draw an audit for a terminal.

    Raises:
        ConfigError: The language is not one of ours.
    """
    return draw_document(make_document(analysis, language))


def audit_text(analysis: Analysis, language: str = "en", width: int = 80) -> str:
    """Write an audit as text without colour, at most `width` columns wide.

    Raises:
        ConfigError: The language is not one of ours.
    """
    return print_document(make_document(analysis, language), width)
