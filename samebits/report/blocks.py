"""What a report consists of, whatever it is drawn on: sections of paragraphs, tables and figures.

All text is already in the reader's language and harmless to look at (visible.py); escaping for
HTML or Markdown is left to whoever draws. Knows nothing of audits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from samebits.report.charts import Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A field of a table."""

    text: str
    tone: str = ""
    """Colour, one of in_html.GLYPHS, here and below; the words beside it say the same."""
    is_code: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table."""

    label: str
    is_number: bool = False
    is_tight: bool = False
    """Whether its fields stay on one line."""
    is_sentence: bool = False
    """Whether its fields say by themselves what they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rows that belong together; the first cell of a row names it."""

    rows: tuple[tuple[Cell, ...], ...]
    label: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns."""

    kind: ClassVar[str] = "table"
    caption: str
    columns: tuple[Column, ...]
    groups: tuple[Group, ...]
    is_wide: bool = False
    """Whether a terminal has no room for its columns and lists the fields of each row instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """A sentence or more."""

    kind: ClassVar[str] = "paragraph"
    text: str
    tone: str = ""
    role: str = ""
    """lead: the one sentence to read; alarm: what must not be overlooked; small: an aside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """A list of sentences."""

    kind: ClassVar[str] = "items"
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """A command to copy."""

    kind: ClassVar[str] = "code"
    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart, what it shows in words, and its numbers."""

    kind: ClassVar[str] = "figure"
    key: str
    """Unique in the document; letters, digits and hyphens."""
    title: str
    description: str
    chart: Chart
    table: Table
    is_long: bool = True
    """Whether text formats leave its numbers out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gallery:
    """Small figures of one kind, side by side."""

    kind: ClassVar[str] = "gallery"
    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    """A long table that is shown on demand."""

    kind: ClassVar[str] = "fold"
    summary: str
    table: Table


Block = Paragraph | Items | Table | Code | Figure | Gallery | Fold


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Blocks under a heading."""

    key: str
    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A report."""

    language: str
    title: str
    sections: tuple[Section, ...]
    labels: dict[str, str]
    """What the page itself says: skip link, contents, data of a figure."""


def make_table(
    caption: str,
    columns: tuple[str, ...],
    rows: Sequence[tuple[str | Cell, ...]],
    *,
    code: str = "",
) -> Table:
    """Make a table of one group.

    Args:
        columns: Labels; one that begins with # is of numbers.
        code: Indices of the columns that hold code, such as "12".
    """
    return Table(
        caption=caption,
        columns=tuple(make_column(label) for label in columns),
        groups=(Group(rows=tuple(make_row(row, code) for row in rows)),),
    )


def make_column(label: str) -> Column:
    """Make a column; # before its label says that it holds numbers."""
    return Column(label=label.removeprefix("#"), is_number=label.startswith("#"))


def make_row(fields: tuple[str | Cell, ...], code: str = "") -> tuple[Cell, ...]:
    """Make the cells of a row."""
    return tuple(
        Cell(text=field, is_code=str(place) in code) if isinstance(field, str) else field
        for place, field in enumerate(fields)
    )
