"""Writes a report as Markdown: CommonMark and its tables. All text is escaped."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from samebits.report import blocks
from samebits.report.blocks import (
    Cell,
    Code,
    Document,
    Figure,
    Fold,
    Gallery,
    Items,
    Paragraph,
    Table,
)

SPECIAL = re.compile(r"([\\`*_\[\]<>|~&#])")


def write_markdown(document: Document) -> str:
    """Write a report."""
    parts = [f"# {escape(document.title)}"]
    for section in document.sections:
        parts.append(f"## {escape(section.title)}")
        parts += [part for block in section.blocks for part in write_block(block)]
    parts.append(f"*{escape(document.labels['made-by'])}*")
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Escape what Markdown or HTML would take for a mark; a text is one line already."""
    return SPECIAL.sub(r"\\\1", text)


def write_block(block: blocks.Block) -> Iterator[str]:
    """Write one block."""
    return WRITERS[block.kind](block)


def write_paragraph(block: Paragraph) -> Iterator[str]:
    """Write a paragraph; what must be read is bold, an alarm is quoted."""
    text = escape(block.text)
    bold = f"**{text}**"
    yield {"lead": bold, "alarm": f"> {bold}"}.get(block.role, text)


def write_items(block: Items) -> Iterator[str]:
    """Write a list."""
    yield "\n".join(f"- {escape(text)}" for text in block.texts)


def write_code(block: Code) -> Iterator[str]:
    """Write a command; the fence is longer than any in it."""
    ticks = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
    fence = "`" * max(3, ticks + 1)
    yield f"{escape(block.label)}:"
    yield f"{fence}sh\n{block.text}\n{fence}"


def write_table(table: Table) -> Iterator[str]:
    """Write a table; a group is a row of its own."""
    lines = [write_row([escape(column.label) for column in table.columns])]
    lines.append(write_row(["--:" if column.is_number else "---" for column in table.columns]))
    for group in table.groups:
        if group.label:
            empty = [""] * (len(table.columns) - 1)
            lines.append(write_row([f"**{escape(group.label)}**", *empty]))
        lines += [write_row(list(map(write_cell, row))) for row in group.rows]
    yield f"*{escape(table.caption)}*"
    yield "\n".join(lines)


def write_row(fields: list[str]) -> str:
    """Write the fields of a row."""
    return f"| {' | '.join(fields)} |"


def write_cell(cell: Cell) -> str:
    """Write a field; code is not set as code, since a pipe cannot be escaped there."""
    return escape(cell.text)


def write_figure(figure: Figure) -> Iterator[str]:
    """Write the numbers of a figure, or only what it shows if they are many."""
    if figure.is_long:
        yield f"*{escape(figure.title)}*: {escape(figure.description)}"
    else:
        yield from write_table(figure.table)


def write_gallery(gallery: Gallery) -> Iterator[str]:
    """Write what each figure shows."""
    yield "\n".join(f"- {escape(figure.description)}" for figure in gallery.figures)


def write_fold(fold: Fold) -> Iterator[str]:
    """Write a long table under a heading."""
    yield f"### {escape(fold.summary)}"
    yield from write_table(fold.table)


WRITERS: dict[str, Callable[[Any], Iterator[str]]] = {
    "paragraph": write_paragraph,
    "items": write_items,
    "code": write_code,
    "table": write_table,
    "figure": write_figure,
    "gallery": write_gallery,
    "fold": write_fold,
}
