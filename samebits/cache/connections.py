"""Connections to one file, lent to one thread at a time, and what a fork does to them.

SQLite's locks do not pass a fork, while its books do: a child that goes on with its parent's
connection, or opens a second one beside it, may destroy the file. So idle ones are closed before a
fork, and a child that was forked while another thread used one leaves the file alone.
"""

import os
import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from samebits.cache.fault import FAILURES, StoreFault, Trouble, read_error
from samebits.cache.forks import watch
from samebits.cache.schema import check_tables

BUSY_S = 5.0
"""How long to wait for another writer."""
SETTINGS = (
    "PRAGMA trusted_schema = OFF",
    "PRAGMA cell_size_check = ON",
    # A power cut may lose the last commits and never the rest; a kill loses none. The answers can
    # be computed again, and FULL would cost an fsync for each.
    "PRAGMA synchronous = NORMAL",
    "PRAGMA journal_size_limit = 16777216",
    # In KiB: enough for some thousand answers, each read from the file once.
    "PRAGMA cache_size = -16384",
)


class Connections:
    """A pool for one file.

    Attributes:
        is_writable: False: the disk or the file takes no writes, as seen when it was opened.
    """

    def __init__(self, path: Path) -> None:
        """Open a first connection and check the tables.

        Raises:
            StoreFault: SQLite cannot open it.
            RecordCorrupt: Its tables are not ours.
        """
        self.path = path
        self.idle: deque[sqlite3.Connection] = deque()
        self.all: dict[int, sqlite3.Connection | None] = {}
        self.is_forked = self.is_closed = False
        self.is_writable = True
        watch(self)
        with self.lend():
            pass

    @contextmanager
    def lend(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection; an error in a transaction undoes it.

        Raises:
            StoreFault: SQLite refuses, or this process may not use the file.
        """
        connection = self.take()
        try:
            yield connection
        except FAILURES as error:
            raise self.fail(connection, error) from error
        except BaseException:
            self.mend(connection)
            raise
        else:
            self.give(connection)

    def fail(self, connection: sqlite3.Connection, error: Exception) -> StoreFault:
        """Take back a connection that failed, and make the fault to raise."""
        self.mend(connection)
        return read_error(error, str(self.path))

    def take(self) -> sqlite3.Connection:
        """Give an idle connection, or a new one; hand it back with `give` or `mend`."""
        if self.is_forked or self.is_closed:
            raise self.refuse()
        try:
            return self.idle.pop()
        except IndexError:
            return self.open()

    def give(self, connection: sqlite3.Connection) -> None:
        """Take a connection back."""
        if self.is_closed:
            self.drop(connection)
        else:
            self.idle.append(connection)

    def mend(self, connection: sqlite3.Connection) -> None:
        """Take back a connection after an error: undo what it began, or close it."""
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except FAILURES:
            self.drop(connection)
        else:
            self.give(connection)

    def open(self) -> sqlite3.Connection:
        """Open a connection: for writing, or if that fails as a file that nobody changes."""
        ticket = object()
        # Before it is open: a fork in between must see it.
        self.all[id(ticket)] = None
        try:
            connection = self.open_any()
            self.all[id(connection)] = connection
            return connection
        finally:
            del self.all[id(ticket)]

    def open_any(self) -> sqlite3.Connection:
        """Open for writing; the first, without the right to or the room, for reading alone."""
        if self.is_writable:
            try:
                return self.connect("mode=rw")
            except StoreFault as fault:
                if fault.trouble is Trouble.DAMAGED or any(self.all.values()):
                    raise
        # A log that others write cannot be shared without a file beside it; where none can be
        # made, nobody writes. Should that be wrong, the checksums of entries tell.
        connection = self.connect("mode=ro&immutable=1")
        self.is_writable = False
        return connection

    def connect(self, options: str) -> sqlite3.Connection:
        """Open with options of SQLite's URI, and read the tables to see that it works."""
        connection: sqlite3.Connection | None = None
        try:
            connection = sqlite3.connect(
                f"file:{quote(os.fsencode(self.path))}?{options}",
                uri=True,
                timeout=BUSY_S,
                isolation_level=None,
                check_same_thread=False,
            )
            # Texts come as bytes: a damaged one must not fail to decode.
            connection.text_factory = bytes
            for setting in SETTINGS:
                connection.execute(setting)
            check_tables(connection, self.path)
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, FAILURES):
                raise read_error(error, str(self.path)) from error
            raise
        return connection

    def drop(self, connection: sqlite3.Connection) -> None:
        """Close a connection for good."""
        # Closed before it is forgotten: a fork in between must see it.
        with suppress(*FAILURES):
            connection.close()
        self.all.pop(id(connection), None)

    def before_fork(self) -> None:
        """Close what nobody uses: child and parent open their own."""
        self.close_idle()

    def after_fork(self) -> None:
        """In the child: where a thread that is no more held a connection, leave the file alone."""
        self.is_forked = self.is_forked or bool(self.all)

    def close_idle(self) -> None:
        """Close what nobody uses."""
        while self.idle:
            with suppress(IndexError):
                self.drop(self.idle.pop())

    def close(self) -> None:
        """Close all; what is in use is closed when it is handed back."""
        self.is_closed = True
        if not self.is_forked:
            self.close_idle()

    def refuse(self) -> StoreFault:
        """Say why this process may not use the file."""
        if self.is_closed:
            return StoreFault(Trouble.CLOSED, expected="an open cache", found="a closed one")
        return StoreFault(
            Trouble.FORKED,
            expected="a process that was not forked in the middle of a look at the store",
            found="one that was",
            remedy="Open the cache after the fork, or start processes by spawn.",
        )
