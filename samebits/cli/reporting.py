"""Print what an audit found, or how two records compare, as a person or a program wants it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from samebits.cli.names import FormatName
from samebits.cli.output_file import write_atomically
from samebits.errors import ConfigError

if TYPE_CHECKING:
    from samebits.advise.results import Advice
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


ADVICE_BEGINS = b'{"advice":'
"""Canonical JSON puts this key first; a record of an audit begins otherwise."""
EXIT_NONE_WILL_DO = 1
EXIT_CANNOT_TELL = 3


class Drawn(NamedTuple):
    """A record read, judged and put into words."""

    document: "Document"
    make_json: Callable[[], str]
    exit_code: int


def read_analysis(path: Path, need: str | None, rate: float | None, language: str) -> Drawn:
    """Read the record of an audit.

    Raises:
        ConfigError: A rate is asked for, which an audit does not have.
        RecordCorrupt: It is none, or damaged.
    """
    from samebits.audit.analyse import analyse
    from samebits.audit.record_reader import read_record
    from samebits.report.audit_document import make_document
    from samebits.report.in_json import report_json

    if rate is not None:
        raise ConfigError(expected="--rate with the record of an advice", found=str(path))
    found = read_record(path)
    analysis = analyse(found, need=need or str(found.header.asked.get("need")))
    document = make_document(analysis, language)
    return Drawn(document, lambda: report_json(analysis), analysis.exit_code)


def read_weighed(path: Path, need: str | None, rate: float | None, language: str) -> Drawn | None:
    """Read the record of an advice; None if it is no such record.

    Raises:
        RecordCorrupt: It is one, and damaged.
    """
    # What is no file, the reader of audits refuses by name.
    if not path.is_file():
        return None
    with path.open("rb") as file:
        if file.read(len(ADVICE_BEGINS)) != ADVICE_BEGINS:
            return None
    from samebits.advise.record import read_advice
    from samebits.advise.weigh import weigh

    record = read_advice(path.read_bytes(), str(path))
    found = weigh(
        record,
        need=need or str(record.asked.get("need")),
        rate=record.asked.get("rate", 0.0) if rate is None else rate,
    )
    return draw_advice(found, language)


def draw_advice(found: "Advice", language: str) -> Drawn:
    """Put an advice into words."""
    from samebits.report.advice_document import make_advice
    from samebits.report.in_json import report_json

    code = 0 if found.here.is_shown else EXIT_CANNOT_TELL
    return Drawn(
        make_advice(found, language),
        lambda: report_json(found),
        EXIT_NONE_WILL_DO if found.here.rung is None else code,
    )


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
