"""Print what an audit found, or how two records compare, as a person or a program wants it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from samebits.cli.names import FormatName
from samebits.cli.output_file import write_atomically
from samebits.errors import ConfigError

if TYPE_CHECKING:
    from samebits.report.blocks import Document

WIDEST = 100
"""Columns: longer lines are hard to read."""
ENDINGS = {
    ".html": FormatName.HTML,
    ".htm": FormatName.HTML,
    ".md": FormatName.MARKDOWN,
    ".json": FormatName.JSON,
    ".txt": FormatName.TERMINAL,
}


def put_report(
    document: "Document",
    make_json: Callable[[], str],
    as_format: FormatName | None,
    out: Path | None,
) -> None:
    """Write a report to a file, or print it, in the format asked for or that of the file's name."""
    from samebits.report.in_html import write_page
    from samebits.report.in_markdown import write_markdown
    from samebits.report.in_terminal import write_text

    writers: dict[FormatName, Callable[[], str]] = {
        FormatName.HTML: lambda: write_page(document),
        FormatName.MARKDOWN: lambda: write_markdown(document),
        FormatName.JSON: make_json,
        FormatName.TERMINAL: lambda: write_text(document),
    }
    chosen = as_format or choose_format(out)
    if out is not None:
        write_atomically(out, writers[chosen]())
    elif chosen is not FormatName.TERMINAL or not draw_on_terminal(document):
        sys.stdout.write(writers[chosen]())


def choose_format(out: Path | None) -> FormatName:
    """Choose a format by the ending of a file; without a file, that for a terminal.

    Raises:
        ConfigError: The ending is none of ours.
    """
    ending = ".txt" if out is None else out.suffix.lower()
    if ending not in ENDINGS:
        raise ConfigError(
            expected=f"--out to end in one of {', '.join(ENDINGS)}",
            found=str(out),
            remedy="Or give --format.",
        )
    return ENDINGS[ending]


def draw_on_terminal(document: "Document") -> bool:
    """Draw a report in colour where a person watches; answer whether one does."""
    from rich.console import Console

    from samebits.report.in_terminal import draw_document

    console = Console(highlight=False)
    if console.is_terminal:
        console.width = min(console.width, WIDEST)
        console.print(draw_document(document))
    return console.is_terminal
