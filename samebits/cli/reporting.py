"""Print what an audit found, or how two records compare, as a person or a program wants it."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.cli.output_file import write_atomically

if TYPE_CHECKING:
    from samebits.audit.results import Analysis

WIDEST = 100
"""Columns: longer lines are hard to read."""


def print_audit(analysis: "Analysis", language: str, *, as_json: bool) -> None:
    """Print the analysis."""
    from rich.console import Console

    from samebits.report.audit_json import audit_json
    from samebits.report.audit_terminal import audit_text, draw_audit

    console = Console(highlight=False)
    if as_json:
        print(audit_json(analysis), end="")
    elif not console.is_terminal:
        print(audit_text(analysis, language), end="")
    else:
        console.width = min(console.width, WIDEST)
        console.print(draw_audit(analysis, language))


def put_text(text: str, out: Path | None) -> None:
    """Write a text to a file, or print it."""
    if out is None:
        sys.stdout.write(text)
    else:
        write_atomically(out, text)


def choose_format(asked: str | None, out: Path | None, endings: Mapping[str, str]) -> str:
    """Choose a format: the one asked for, else by the ending of the file, else for a terminal."""
    return asked or endings.get(out.suffix if out else "", "terminal")
