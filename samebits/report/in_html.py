"""Writes a report as one HTML file: no script, nothing from outside, everything escaped."""

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from samebits.report.blocks import Document
from samebits.report.drawing import draw_chart

GLYPHS = {"": "", "clear": "○", "bits": "◐", "tokens": "●", "unsure": "?", "untested": "–"}
"""Signs that repeat a colour."""


@cache
def environment() -> Environment:
    """Load the templates; every value is escaped."""
    made = Environment(
        loader=PackageLoader("samebits.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals.update(draw_chart=draw_chart, glyphs=GLYPHS)
    return made


@cache
def page_style() -> Markup:
    """Read the style sheet, which is ours."""
    return Markup(files("samebits.report").joinpath("templates", "page.css").read_text("utf-8"))


def style_source(style: str) -> str:
    """Name the style sheet by its digest, so that a page's policy allows no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"


def write_page(document: Document) -> str:
    """Write a report as a page."""
    style = page_style()
    template = environment().get_template("page.html.j2")
    return template.render(document=document, style=style, source=style_source(style))
