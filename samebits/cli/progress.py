"""Progress on standard error: a bar where a person watches; elsewhere silence, or some lines.

Lines are for logs of long runs, which are read while they grow.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LINE_S = 10.0
"""Seconds between two lines at least, unless a new stage begins."""

Tell = Callable[[float, str], None]
"""Called with the share done, in [0, 1], and what is under way."""


@contextmanager
def show_progress(
    label: str, *, has_clock: bool = False, stage_of: Callable[[str], str] | None = None
) -> Iterator[Tell]:
    """Give a function to call with the share done and what is under way.

    Args:
        stage_of: Gives the stage of what is under way. Where no person watches a line is written
            for each new stage, and every LINE_S; None: nothing is.
    """
    if not sys.stderr.isatty():
        yield write_nothing if stage_of is None else make_lines(stage_of)
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = [TextColumn("{task.description}"), BarColumn(bar_width=24), TaskProgressColumn()]
    if has_clock:
        columns.append(TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=1.0)

        def tell(fraction: float, doing: str) -> None:
            progress.update(task, completed=fraction, description=doing or label)

        yield tell


def write_nothing(_fraction: float, _doing: str) -> None:
    """Tell nobody."""


def make_lines(stage_of: Callable[[str], str], clock: Callable[[], float] = time.monotonic) -> Tell:
    """Make a function that writes a line for each new stage, and now and then one within it."""
    began = clock()
    last: list[tuple[str, float]] = []

    def tell(fraction: float, doing: str) -> None:
        stage, now = stage_of(doing), clock()
        if last and last[0][0] == stage and now - last[0][1] < LINE_S:
            return
        last[:] = [(stage, now)]
        minutes, seconds = divmod(int(now - began), 60)
        print(f"{minutes}:{seconds:02d} {fraction:4.0%} {doing}", file=sys.stderr)

    return tell
