"""Samples in every format; the pages are drawn once for all tests that look at them."""

from functools import cache

from samebits.audit.compare_results import RecordComparison
from samebits.audit.results import Analysis
from samebits.report.audit_document import make_document
from samebits.report.blocks import Document
from samebits.report.compare_document import make_comparison
from samebits.report.in_html import write_page
from samebits.report.in_markdown import write_markdown
from samebits.report.in_terminal import write_text
from tests.report.audit_results import SAMPLES
from tests.report.comparisons import COMPARISONS

LANGUAGES = ("en", "zh")
SMALL = tuple(name for name in SAMPLES if name != "large")


def draw(found: Analysis | RecordComparison, language: str) -> Document:
    if isinstance(found, Analysis):
        return make_document(found, language)
    return make_comparison(found, language)


def as_html(found: Analysis | RecordComparison, language: str = "en") -> str:
    return write_page(draw(found, language))


def as_markdown(found: Analysis | RecordComparison, language: str = "en") -> str:
    return write_markdown(draw(found, language))


def as_text(found: Analysis | RecordComparison, language: str = "en") -> str:
    return write_text(draw(found, language))


@cache
def page_of(name: str, language: str = "en") -> str:
    make = SAMPLES.get(name) or COMPARISONS[name]
    return as_html(make(), language)
