"""Puts an analysis into words: the whole report, before it is drawn on anything."""

from samebits.audit.results import Analysis
from samebits.report.audit_axes import make_axes
from samebits.report.audit_heat import make_heat
from samebits.report.audit_setup import make_setup
from samebits.report.audit_stability import make_census, make_stability, make_survival
from samebits.report.audit_summary import make_summary, name_target
from samebits.report.audit_why import make_depth, make_explanation
from samebits.report.blocks import Document
from samebits.report.words import Words, words_for

LABELS = ("skip", "contents", "numbers", "wide", "made-by")
"""What the page says by itself."""
SECTIONS = (
    make_summary,
    make_axes,
    make_heat,
    make_stability,
    make_survival,
    make_census,
    make_depth,
    make_explanation,
    make_setup,
)
"""In the order of reading."""


def make_document(analysis: Analysis, language: str) -> Document:
    """Make the report of an audit in a language.

    Raises:
        ConfigError: The language is not one of ours.
    """
    words = words_for(language)
    return Document(
        language=words("lang"),
        title=words("title", target=name_target(analysis)),
        sections=tuple(make(analysis, words) for make in SECTIONS),
        labels=page_labels(words),
    )


def page_labels(words: Words) -> dict[str, str]:
    """Give what the page says by itself."""
    return {"colon": words("colon")} | {key: words(f"page.{key}") for key in LABELS}
