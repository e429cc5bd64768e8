"""Draws a report for a terminal, or as plain text.

Fits 80 columns; wide tables are listed row by row. Colour repeats what the words say.
"""

import io
from collections.abc import Callable, Iterator
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from samebits.report import blocks
from samebits.report.blocks import Cell, Code, Column, Document, Figure, Items, Paragraph, Table
from samebits.report.charts import Bars

STYLES = {
    "": "",
    "clear": "green",
    "bits": "yellow",
    "tokens": "red",
    "unsure": "magenta",
    "untested": "dim",
}
BAR = 30
"""Columns of the longest bar."""


def draw_document(document: Document) -> RenderableType:
    """Draw a report."""
    colon = document.labels["colon"]
    parts: list[RenderableType] = [Text(document.title, style="bold")]
    for section in document.sections:
        drawn = [part for block in section.blocks for part in draw_block(block, colon)]
        if drawn:
            parts += [Text(), Text(section.title, style="bold underline"), *drawn]
    return Group(*parts)


def write_text(document: Document, width: int = 80) -> str:
    """Write a report without colour, at most `width` columns wide."""
    sink = io.StringIO()
    console = Console(file=sink, width=width, color_system=None, force_terminal=False)
    console.print(draw_document(document))
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def draw_block(block: blocks.Block, colon: str) -> Iterator[RenderableType]:
    """Draw one block; `colon` stands after a name."""
    return DRAWERS[block.kind](block, colon)


def draw_paragraph(block: Paragraph, _colon: str) -> Iterator[RenderableType]:
    """Draw a paragraph; an alarm begins with a sign."""
    style = f"bold {STYLES[block.tone]}".strip() if block.role else STYLES[block.tone]
    style = "dim" if block.role == "small" else style
    if block.role == "alarm":
        yield draw_item("! ", Text(block.text, style=style))
    else:
        yield Text(block.text, style=style)


def draw_items(block: Items, _colon: str) -> Iterator[RenderableType]:
    """Draw a list."""
    for text in block.texts:
        yield draw_item("- ", Text(text))


def draw_item(sign: str, text: Text) -> RenderableType:
    """Draw a text beside a sign."""
    grid = Grid.grid(padding=0)
    grid.add_column()
    grid.add_column(overflow="fold")
    grid.add_row(sign, text)
    return grid


def draw_code(block: Code, colon: str) -> Iterator[RenderableType]:
    """Draw a command."""
    yield Text(f"{block.label}{colon}".rstrip())
    yield Padding(Text(block.text, overflow="fold"), (0, 0, 0, 2))


def draw_table(table: Table, colon: str) -> Iterator[RenderableType]:
    """Draw a table, or the fields of each row where it is too wide."""
    yield Text(f"\n{table.caption}", style="italic")
    yield from draw_rows(table, colon) if table.is_wide else draw_grid(table)


def draw_grid(table: Table) -> Iterator[RenderableType]:
    """Draw rows under columns."""
    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for column in table.columns:
        justify = "right" if column.is_number else "left"
        grid.add_column(Text(column.label), justify=justify, overflow="fold")  # type: ignore[arg-type]
    for group in table.groups:
        for row in group.rows:
            grid.add_row(*map(draw_cell, row))
    yield grid


def draw_cell(cell: Cell) -> Text:
    """Draw a field."""
    return Text(cell.text, style=STYLES[cell.tone])


def draw_rows(table: Table, colon: str) -> Iterator[RenderableType]:
    """List each row: its first field, then the others with the names of their columns."""
    for group in table.groups:
        if group.label:
            yield Text(f"\n{group.label}", style=f"bold {STYLES[group.tone]}".strip())
        for row in group.rows:
            yield Padding(Text(row[0].text), (0, 0, 0, 2))
            for text in list_fields(table.columns[1:], row[1:], colon):
                yield Padding(Text(text), (0, 0, 0, 4))


def list_fields(columns: tuple[Column, ...], cells: tuple[Cell, ...], colon: str) -> Iterator[str]:
    """Put named fields after each other, without the empty ones; then the sentences."""
    pairs = [pair for pair in zip(columns, cells, strict=True) if pair[1].text]
    named = [
        f"{column.label}{colon}{cell.text}" for column, cell in pairs if not column.is_sentence
    ]
    yield from filter(None, [" · ".join(named)])
    yield from (cell.text for column, cell in pairs if column.is_sentence)


def draw_figure(figure: Figure, colon: str) -> Iterator[RenderableType]:
    """Draw bars; of other figures the numbers, if they are few."""
    if isinstance(figure.chart, Bars):
        yield Text(f"\n{figure.title}", style="italic")
        yield draw_bars(figure.chart)
    elif not figure.is_long:
        yield from draw_table(figure.table, colon)


def draw_bars(chart: Bars) -> RenderableType:
    """Draw bars of letters."""
    most = max(chart.values, default=1) or 1
    grid = Grid.grid(padding=(0, 1))
    grid.add_column(justify="right")
    for label, value, counted in zip(chart.labels, chart.values, chart.texts, strict=True):
        bar = "#" * max(round(BAR * value / most), 1 if value else 0)
        grid.add_row(Text(label), Text(bar), Text(counted))
    return grid


def draw_nothing(_block: Any, _colon: str) -> Iterator[RenderableType]:
    """Leave out what a terminal has no room for."""
    yield from ()


DRAWERS: dict[str, Callable[[Any, str], Iterator[RenderableType]]] = {
    "paragraph": draw_paragraph,
    "items": draw_items,
    "code": draw_code,
    "table": draw_table,
    "figure": draw_figure,
    "gallery": draw_nothing,
    "fold": draw_nothing,
}
