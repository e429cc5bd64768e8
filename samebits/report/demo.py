"""Draws the demo's record: as a rich renderable, as plain text, as JSON. Pure functions.

A cell is green only for "same"; without colour the words say all of it.
"""

import io
from collections.abc import Iterator

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.audit.demo_record import Cell, DemoRecord, Flip, Subject
from samebits.record.canonical import canonical_bytes

WIDEST = 100
"""Columns beyond which lines no longer read well."""
EXCERPT = 160
"""Characters of an output that are quoted."""


def demo_json(record: DemoRecord) -> str:
    """Spell the record in canonical JSON, one line."""
    return canonical_bytes(record.value()).decode() + "\n"


def demo_text(record: DemoRecord, width: int = 80) -> str:
    """Draw the record without colour, at most `width` columns wide."""
    sink = io.StringIO()
    console = Console(file=sink, width=width, color_system=None, force_terminal=False)
    console.print(draw_demo(record))
    return "\n".join(line.rstrip() for line in sink.getvalue().splitlines()) + "\n"


def draw_demo(record: DemoRecord) -> RenderableType:
    """Draw the record for a terminal."""
    parts = [
        Text(f"{record.model}: {len(record.prompts)} prompts, {record.max_tokens} tokens each"),
        Text("Each change is compared with the run named beside it; nothing else changes."),
        draw_changes(record),
        *explain_cells(),
        *(Text(note) for note in list_reasons(record)),
        *draw_flips(record),
        draw_subjects(record),
        draw_digests(record),
        draw_verdict(record),
        draw_next(record),
    ]
    return Group(*(part for part in parts))


def draw_changes(record: DemoRecord) -> RenderableType:
    """One row a change, one column an arithmetic."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column("change")
    table.add_column("against", style="dim")
    for subject in record.subjects:
        table.add_column(subject.arithmetic)
    for place, change in enumerate(record.changes):
        cells = [draw_cell(subject.cells[place]) for subject in record.subjects]
        table.add_row(change.label, change.base, *cells)
    return table


def draw_cell(cell: Cell) -> Text:
    """Say in a few words what a change did."""
    if cell.not_tested is not None:
        return Text("not tested", style="dim")
    if not cell.num_logits_differ:
        return Text("same", style="green")
    if cell.first_token is None:
        return Text(f"differ, 0/{cell.num_outputs}", style="yellow")
    count = f"{cell.num_outputs_differ}/{cell.num_outputs}"
    return Text(f"differ, {count} @{cell.first_token + 1}", style="red")


def explain_cells() -> Iterator[Text]:
    """Say how to read a cell."""
    yield Text("same          all logits of all steps of all prompts have the same bits")
    yield Text("differ, n/m   logits differ, and so do n of m outputs;")
    yield Text("              @t: the first differing token of any of them is number t\n")


def list_reasons(record: DemoRecord) -> Iterator[str]:
    """Say why each thing was not tested, once a reason."""
    reasons: dict[str, list[str]] = {}
    for subject in record.subjects:
        for cell in subject.cells:
            if cell.not_tested is not None:
                reasons.setdefault(cell.not_tested, []).append(
                    f"{subject.arithmetic}/{cell.change}"
                )
    for reason, places in reasons.items():
        yield f"not tested: {reason} ({', '.join(places)})"


def draw_flips(record: DemoRecord) -> Iterator[RenderableType]:
    """Quote one flip of each arithmetic that has one."""
    labels = {change.key: change for change in record.changes}
    for subject in record.subjects:
        if subject.flip is not None:
            change = labels[subject.flip.change]
            yield draw_flip(subject.arithmetic, subject.flip, change.base, change.label)


def draw_flip(arithmetic: str, flip: Flip, base: str, label: str) -> RenderableType:
    """Quote one output before and after a change."""
    lines: list[RenderableType] = [
        Text(f"\n{arithmetic}, the same prompt twice: {quote(flip.prompt)}"),
        Padding(Text(f"{base}: {quote(flip.before)}"), (0, 0, 0, 2)),
        Padding(Text(f"{label}: {quote(flip.after)}"), (0, 0, 0, 2)),
    ]
    return Group(*lines)


def quote(text: str) -> str:
    """Give a text on one line, cut if long."""
    line = " ".join(text.split())
    return f'"{line[:EXCERPT]}…"' if len(line) > EXCERPT else f'"{line}"'


def draw_subjects(record: DemoRecord) -> RenderableType:
    """One row an arithmetic: how fast it was."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    for name in ("tokens/s", "kernels"):
        table.add_column(name)
    for name in ("prefill", "decode", "batch 32"):
        table.add_column(name, justify="right")
    for subject in record.subjects:
        table.add_row(subject.arithmetic, subject.kernels, *(rates(subject)))
    return table


def rates(subject: Subject) -> tuple[str, str, str]:
    """Give the three rates as text."""
    speed = subject.speed
    each = (speed.prefill_tokens_s, speed.decode_tokens_s, speed.batched_tokens_s)
    return (f"{each[0]:.0f}", f"{each[1]:.0f}", f"{each[2]:.0f}")


def draw_digests(record: DemoRecord) -> RenderableType:
    """List the digests of all logits, one prompt at a time."""
    lines: list[RenderableType] = [Text("Digests of all logits, prompts one at a time:")]
    for subject in record.subjects:
        lines.append(Text(f"  {subject.arithmetic:<11} {subject.logits_digest}", no_wrap=True))
    return Group(*lines)


def draw_verdict(record: DemoRecord) -> RenderableType:
    """Say what it comes to, counted from the cells."""
    lines: list[RenderableType] = [Text()]
    for subject in record.subjects:
        tested = [cell for cell in subject.cells if cell.not_tested is None]
        broken = [cell for cell in tested if cell.num_logits_differ]
        flipped = [cell for cell in tested if cell.num_outputs_differ]
        lines.append(
            Text(
                f"{subject.arithmetic}: {len(tested)} changes tested; "
                f"{len(broken)} changed logits, {len(flipped)} changed outputs."
            )
        )
    return Group(*lines)


def draw_next(record: DemoRecord) -> RenderableType:
    """Say what to run next."""
    prompt = "Why is the sky blue?"
    commands = (
        f'samebits generate "{prompt}" --model {record.model} --receipt sky.json',
        f"samebits verify sky.json --model {record.model}",
    )
    minutes, seconds = divmod(round(record.wall_s), 60)
    return Group(
        Text(
            f"\nsamebits {record.version}, {record.threads} threads, "
            f"{minutes} min {seconds:02d} s.\nThe sb1 digest is the same on every machine."
        ),
        Text("Next:"),
        *(Text(f"  {command}", no_wrap=True) for command in commands),
    )
