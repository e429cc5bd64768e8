"""Draws the demo's record: as a rich renderable, as plain text, as JSON. Pure functions.

A cell is green only for "same"; without colour the words say all of it.
"""

import io
import shlex
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
BUILT_IN = "smollm2"
"""The model that commands need not name."""
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
        Text("The prompts were chosen for their near-ties, so that words flip in so short a run."),
        draw_changes(record),
        *explain_cells(),
        *(Text(note) for note in list_reasons(record)),
        *draw_flips(record),
        draw_subjects(record),
        draw_digests(record),
        draw_verdict(record),
        draw_next(record),
    ]
    return Group(*parts)


def draw_changes(record: DemoRecord) -> RenderableType:
    """One row a change, one column an arithmetic."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
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
        return Text(f"differ 0/{cell.num_outputs}", style="yellow")
    count = f"{cell.num_outputs_differ}/{cell.num_outputs}"
    return Text(f"differ {count} @{cell.first_token + 1}", style="red")


def explain_cells() -> Iterator[Text]:
    """Say how to read a cell."""
    yield Text("same         all logits of all steps of all prompts have the same bits")
    yield Text("differ n/m   logits differ, and so do n of m outputs;")
    yield Text("             @t: the first token that differs in any of them is number t")
    yield Text("alone        one prompt at a time\n")


def list_reasons(record: DemoRecord) -> Iterator[str]:
    """Say why each thing was not tested; arithmetics with the same gaps share a line."""
    gaps: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for subject in record.subjects:
        for reason, labels in find_gaps(record, subject).items():
            gaps.setdefault((reason, tuple(labels)), []).append(subject.arithmetic)
    for (reason, places), names in gaps.items():
        yield f"not tested: {reason} ({', '.join(names)}: {', '.join(places)})"


def find_gaps(record: DemoRecord, subject: Subject) -> dict[str, list[str]]:
    """List the labels of the changes that were not tested, by reason."""
    found: dict[str, list[str]] = {}
    for change, cell in zip(record.changes, subject.cells, strict=True):
        if cell.not_tested is not None:
            found.setdefault(cell.not_tested, []).append(change.label)
    return found


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
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("tokens/s", "kernels"):
        table.add_column(name)
    for name in ("prefill", "decode", "batch 32"):
        table.add_column(name, justify="right")
    for subject in record.subjects:
        kernels = " ".join(filter(None, (subject.kernels, subject.level)))
        table.add_row(subject.arithmetic, kernels, *rates(subject))
    return table


def rates(subject: Subject) -> tuple[str, str, str]:
    """Give the three rates as text."""
    speed = subject.speed
    each = (speed.prefill_tokens_s, speed.decode_tokens_s, speed.batched_tokens_s)
    return (f"{each[0]:.0f}", f"{each[1]:.0f}", f"{each[2]:.0f}")


def draw_digests(record: DemoRecord) -> RenderableType:
    """List the digests of all logits, one prompt at a time."""
    lines: list[RenderableType] = [Text("SHA-256 of all logits, each prompt alone:")]
    for subject in record.subjects:
        digest = subject.logits_digest.removeprefix("sha256:")
        lines.append(Text(f"  {subject.arithmetic:<11} {digest}", no_wrap=True))
    return Group(*lines)


def draw_verdict(record: DemoRecord) -> RenderableType:
    """Say what it comes to, counted from the cells."""
    return Group(Text(), *(Text(f"{x.arithmetic}: {sum_up(x)}") for x in record.subjects))


def sum_up(subject: Subject) -> str:
    """Count the changes that kept the bits, and those that reached the words."""
    tested = [cell for cell in subject.cells if cell.not_tested is None]
    num_same = sum(not cell.num_logits_differ for cell in tested)
    num_flipped = sum(cell.num_outputs_differ > 0 for cell in tested)
    text = f"same bits under {num_same} of {len(tested)} changes"
    return f"{text}; other words under {num_flipped}" if num_flipped else text


def draw_next(record: DemoRecord) -> RenderableType:
    """Say what to run next."""
    model = "" if record.model == BUILT_IN else f" --model {shlex.quote(record.model)}"
    commands = (
        f'samebits generate "Why is the sky blue?"{model} --receipt sky.json',
        f"samebits verify sky.json{model}",
    )
    minutes, seconds = divmod(round(record.wall_s), 60)
    return Group(
        Text(
            f"\nsamebits {record.version}, threads {record.threads}, {minutes} min {seconds:02d} s."
        ),
        Text("Next: the same on another machine, where the sb1 digest must be the same; or"),
        *(Text(f"  {command}") for command in commands),
    )
