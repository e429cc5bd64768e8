"""The sample pages, each drawn once for all tests that look at it."""

from functools import cache

from samebits.report.audit_html import audit_html
from samebits.report.compare import compare_html
from tests.report.audit_results import SAMPLES
from tests.report.comparisons import COMPARISONS

LANGUAGES = ("en", "zh")
SMALL = tuple(name for name in SAMPLES if name != "large")


@cache
def page_of(name: str, language: str = "en") -> str:
    if name in SAMPLES:
        return audit_html(SAMPLES[name](), language)
    return compare_html(COMPARISONS[name](), language)
