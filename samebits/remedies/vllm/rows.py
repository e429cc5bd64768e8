"""Which request lies in which row of vLLM's batch, kept right through its updates."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Enter = Callable[[Any, list[int] | None, list[int]], T | None]
"""Given parameters, prompt ids and the growing list of output ids of a newcomer; gives what to keep
of it, None if it is not guarded."""


class Rows(Generic[T]):
    """Follow the guarded requests of a batch; rows of others are not held.

    Attributes:
        held: Row to what is kept of its request.
    """

    def __init__(self, leave: Callable[[T], None]) -> None:
        """Hold nothing.

        Args:
            leave: Told of each that is no longer in the batch: finished, aborted or preempted.
        """
        self.held: dict[int, T] = {}
        self._leave = leave

    def update(self, update: Any, enter: Enter[T]) -> None:
        """Apply a BatchUpdate of vLLM's: first what was removed, then added, then moved."""
        for row in update.removed:
            self._drop(row)
        for row, params, prompt, output in update.added:
            self._drop(row)
            if (newcomer := enter(params, prompt, output)) is not None:
                self.held[row] = newcomer
        for source, target, direction in update.moved:
            self._move(source, target, is_swap=direction.name == "SWAP")

    def _drop(self, row: int) -> None:
        if (gone := self.held.pop(row, None)) is not None:
            self._leave(gone)

    def _move(self, source: int, target: int, *, is_swap: bool) -> None:
        moving, other = self.held.pop(source, None), self.held.pop(target, None)
        if moving is not None:
            self.held[target] = moving
        if other is not None and is_swap:
            self.held[source] = other
        elif other is not None:
            self._leave(other)

    def __bool__(self) -> bool:
        return bool(self.held)

    def __iter__(self) -> Iterator[tuple[int, T]]:
        return iter(sorted(self.held.items()))
