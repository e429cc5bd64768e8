"""What a store cannot do, in our words: SQLite's errors are translated here and nowhere else."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from samebits.errors import SamebitsError


class Trouble(StrEnum):
    """Kinds of faults, as they are counted."""

    DAMAGED = "damaged"
    FULL = "disk-full"
    READ_ONLY = "read-only"
    BUSY = "busy"
    FORKED = "forked"
    CLOSED = "closed"
    UNAVAILABLE = "unavailable"


class StoreFault(SamebitsError):
    """Report that a store did not read or write; never a reason not to answer.

    Attributes:
        trouble: What kind it is.
    """

    def __init__(self, trouble: Trouble, *, expected: str, found: str, remedy: str = "") -> None:
        self.trouble = trouble
        super().__init__(expected=expected, found=found, remedy=remedy)


REMOVE = "Move the file away: it holds nothing that cannot be computed again."
TROUBLES = {
    sqlite3.SQLITE_CORRUPT: (Trouble.DAMAGED, REMOVE),
    sqlite3.SQLITE_NOTADB: (Trouble.DAMAGED, REMOVE),
    sqlite3.SQLITE_FULL: (Trouble.FULL, "Free some space; nothing that was kept is lost."),
    sqlite3.SQLITE_READONLY: (Trouble.READ_ONLY, "Make the file and its folder writable."),
    sqlite3.SQLITE_BUSY: (Trouble.BUSY, "Another process writes for long; try again."),
    sqlite3.SQLITE_LOCKED: (Trouble.BUSY, "Another process writes for long; try again."),
}
"""By the primary code of SQLite."""


FAILURES = (sqlite3.Error, UnicodeDecodeError)
"""What Python raises for SQLite; the second where SQLite quotes a damaged name in its message."""


@contextmanager
def translate(path: str) -> Iterator[None]:
    """Turn an error of SQLite into a fault of the store at a path."""
    try:
        yield
    except FAILURES as error:
        raise read_error(error, path) from error


def read_error(error: Exception, path: str) -> StoreFault:
    """Make the fault for an error of SQLite."""
    if isinstance(error, UnicodeDecodeError):
        code = sqlite3.SQLITE_CORRUPT
    else:
        code = getattr(error, "sqlite_errorcode", None) or 0
    trouble, remedy = TROUBLES.get(code & 0xFF, (Trouble.UNAVAILABLE, ""))
    return StoreFault(
        trouble, expected=f"the store {path} to work", found=str(error), remedy=remedy
    )
