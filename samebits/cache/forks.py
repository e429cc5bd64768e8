"""What a fork does to locks and connections: who holds such things is told before and after.

The hooks are set when something is first watched, and stay: Python takes none back.
"""

import os
import weakref
from typing import Protocol


class Forkable(Protocol):
    """Something that a fork would break."""

    def before_fork(self) -> None:
        """Make ready, in the parent."""
        ...

    def after_fork(self) -> None:
        """Begin anew, in the child, where no other thread is left."""
        ...


WATCHED: "weakref.WeakSet[Forkable]" = weakref.WeakSet()
HOOKS: list[str] = []
"""Not empty once the hooks stand."""


def watch(thing: Forkable) -> None:
    """Tell something of every fork from now on, as long as it lives."""
    WATCHED.add(thing)
    if not HOOKS and hasattr(os, "register_at_fork"):
        HOOKS.append("set")
        os.register_at_fork(before=before_fork, after_in_child=after_fork)


def before_fork() -> None:
    """Tell of a fork to come."""
    for thing in list(WATCHED):
        thing.before_fork()


def after_fork() -> None:
    """Tell the copies in a child."""
    for thing in list(WATCHED):
        thing.after_fork()
