"""A progress bar on standard error, where a person watches; silence where nobody does."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def show_progress(label: str, *, has_clock: bool = False) -> Iterator[Callable[[float, str], None]]:
    """Give a function to call with the share done, in [0, 1], and what is under way."""
    if not sys.stderr.isatty():
        yield lambda _fraction, _label: None
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
