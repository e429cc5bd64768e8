"""Reports of comparisons of two records, in every format."""

from dataclasses import asdict

from rich.console import RenderableType

from samebits.audit.compare_results import RecordComparison
from samebits.report.compare_document import make_comparison
from samebits.report.in_html import write_page
from samebits.report.in_markdown import write_document
from samebits.report.in_terminal import draw_document, print_document
from samebits.report.plain_json import write_json

FORMAT = "samebits/comparison/v1"


def draw_comparison(found: RecordComparison, language: str = "en") -> RenderableType:
    """Draw a comparison for a terminal.

    Raises:
        ConfigError: The language is not one of ours, here and below.
    """
    return draw_document(make_comparison(found, language))


def compare_text(found: RecordComparison, language: str = "en", width: int = 80) -> str:
    """Write a comparison as text without colour, at most `width` columns wide."""
    return print_document(make_comparison(found, language), width)


def compare_markdown(found: RecordComparison, language: str = "en") -> str:
    """Write a comparison as Markdown."""
    return write_document(make_comparison(found, language))


def compare_html(found: RecordComparison, language: str = "en") -> str:
    """Write a comparison as a page that needs no script and loads nothing."""
    return write_page(make_comparison(found, language))


def compare_json(found: RecordComparison) -> str:
    """Spell a comparison in canonical JSON; the names are those of audit/compare_results.py."""
    return write_json({"format": FORMAT, **asdict(found)})
