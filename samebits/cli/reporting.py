"""Print what an audit found, or how two records compare, as a person or a program wants it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.cli.output_file import write_atomically

if TYPE_CHECKING:
    from rich.console import RenderableType

    from samebits.audit.results import Analysis

WIDEST = 100
"""Columns: longer lines are hard to read."""
ENDINGS = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json"}


def print_audit(analysis: "Analysis", language: str, *, as_json: bool) -> None:
    """Print the analysis."""
    from samebits.report.audit_json import audit_json
    from samebits.report.audit_terminal import audit_text, draw_audit

    if as_json:
        print(audit_json(analysis), end="")
    else:
        print_drawing(draw_audit(analysis, language), lambda: audit_text(analysis, language))


def print_drawing(drawing: "RenderableType", make_text: Callable[[], str]) -> None:
    """Print a drawing where a person watches, else the text it stands for."""
    from rich.console import Console

    console = Console(highlight=False)
    if not console.is_terminal:
        print(make_text(), end="")
    else:
        console.width = min(console.width, WIDEST)
        console.print(drawing)


def put_text(text: str, out: Path | None) -> None:
    """Write a text to a file, or print it."""
    if out is None:
        sys.stdout.write(text)
    else:
        write_atomically(out, text)


def choose_format(asked: str | None, out: Path | None) -> str:
    """Choose a format: the one asked for, else by the ending of the file, else for a terminal."""
    return asked or ENDINGS.get(out.suffix.lower() if out else "", "terminal")
