"""Entries in one SQLite file, each with a checksum of all that is served.

What was changed behind our back is not found; it is never given. Knows bytes, keys and sizes, not
what an answer means. Normative: docs/formats.md, "Output cache".
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from samebits.cache.connections import Connections
from samebits.cache.entry import Entry, Labels, TooLarge, check_entry, digest_entry
from samebits.cache.fault import FAILURES, StoreFault, Trouble
from samebits.cache.key import Key
from samebits.cache.schema import find_path, prepare_file
from samebits.cache.upkeep import (
    EVERYTHING,
    Choice,
    Listed,
    Verdict,
    list_entries,
    purge,
    purge_damaged,
    read_preimages,
    verify,
)
from samebits.errors import ConfigError

MAX_BYTES = 2**30
MIN_BYTES = 2**17
SHARE = 8
"""No entry is larger than the store's size divided by this: it would drop too many others."""
TOUCHED = 2**16
"""Entries whose use is remembered until the next write."""
MOST_DROPPED = 64
"""Entries dropped at once, before the size is looked at again."""
READ = "SELECT id, created_ms, ending, answer, events, checksum FROM entry WHERE key = ?"
WRITE = (
    "INSERT INTO entry (key, created_ms, namespace, surface, weights, ending, answer, events, "
    "checksum, preimage) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
DROP = "DELETE FROM entry WHERE id IN (SELECT id FROM recency WHERE id <> ? ORDER BY tick LIMIT ?)"


class SqliteStore:
    """A store in a file; threads and processes may share it.

    Attributes:
        max_bytes: Size that the file is held to; its log comes on top (4 MiB, or one entry).
    """

    def __init__(self, path: str | Path, *, max_bytes: int = MAX_BYTES) -> None:
        """Open a store, and make it first if nothing is there.

        Raises:
            ConfigError: A size too small, a foreign file, another version, or no room to make it.
            RecordCorrupt: It is damaged at its root.
            StoreFault: SQLite cannot open it.
        """
        if max_bytes < MIN_BYTES:
            raise ConfigError(
                expected=f"max_bytes: at least {MIN_BYTES} bytes", found=str(max_bytes)
            )
        self.path = find_path(path)
        self.max_bytes = max_bytes
        prepare_file(self.path)
        self.connections = Connections(self.path)
        self.touched: dict[int, None] = {}

    @property
    def is_writable(self) -> bool:
        """Whether the disk and the file took writes when it was opened."""
        return self.connections.is_writable

    def get(self, key: bytes) -> Entry | None:
        """Read an entry; None: there is none.

        Raises:
            DamagedEntry: It is not what was written.
            StoreFault: The store cannot be read.
        """
        connections = self.connections
        connection = connections.take()
        try:
            row = connection.execute(READ, (key,)).fetchone()
        except FAILURES as error:
            raise connections.fail(connection, error) from error
        connections.give(connection)
        if row is None:
            return None
        number = row[0]
        entry = check_entry(key, row[1:5], row[5])
        # Taken out first: what is used again is used last.
        self.touched.pop(number, None)
        if len(self.touched) < TOUCHED:
            self.touched[number] = None
        return entry

    def put(self, key: Key, entry: Entry, labels: Labels) -> int:
        """Keep an entry, in place of one with the same key; drop the least recently used for it.

        Returns:
            The number of others dropped.
        Raises:
            TooLarge: It would take more than a share of the store.
            StoreFault: The store cannot be written; what was in it is as it was.
        """
        size = len(key.preimage) + len(entry.ending) + len(entry.answer) + len(entry.events)
        if size > self.max_bytes // SHARE:
            raise TooLarge(size)
        if not self.is_writable:
            raise StoreFault(
                Trouble.READ_ONLY, expected=f"{self.path} to take writes", found="a read-only store"
            )
        checksum = digest_entry(key.digest, entry)
        row = (key.digest, entry.created_ms, *labels, *entry[1:], checksum, key.preimage)
        with self.connections.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            self.write_recency(connection)
            connection.execute("DELETE FROM entry WHERE key = ?", (key.digest,))
            number = connection.execute(WRITE, row).lastrowid
            stamp(connection, [number])
            dropped = self.shrink(connection, number)
            connection.execute("COMMIT")
        return dropped

    def write_recency(self, connection: sqlite3.Connection) -> None:
        """Write which entries were used since the last write: a hit itself writes nothing."""
        touched, self.touched = self.touched, {}
        stamp(connection, list(touched))

    def shrink(self, connection: sqlite3.Connection, number: int | None) -> int:
        """Drop the least recently used until the file fits; the newest entry stays."""
        dropped, batch = 0, 1
        while used_bytes(connection) > self.max_bytes:
            gone = connection.execute(DROP, (number, batch)).rowcount
            if not gone:
                break
            dropped, batch = dropped + gone, min(2 * batch, MOST_DROPPED)
        return dropped

    def preimages(self, *, surface: str, namespace: str, most: int) -> Iterator[bytes]:
        """Yield what keys were made of, of one surface and namespace, the newest first.

        Raises:
            StoreFault: The store cannot be read.
        """
        return read_preimages(self.connections, surface=surface, namespace=namespace, most=most)

    def entries(self, choice: Choice = EVERYTHING) -> Iterator[Listed]:
        """Yield the entries that are meant, the oldest first, as they say of themselves."""
        return list_entries(self.connections, choice)

    def verify(self) -> Verdict:
        """Check every entry."""
        return verify(self.connections)

    def purge(self, choice: Choice) -> int:
        """Remove the entries that are meant; give their number."""
        return purge(self.connections, choice)

    def purge_damaged(self) -> int:
        """Remove the entries that `verify` finds damaged; give their number."""
        return purge_damaged(self.connections)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the last one to close it writes the log into it."""
        self.connections.close()


def stamp(connection: sqlite3.Connection, numbers: list[int | None]) -> None:
    """Note that entries were used, in this order, after all others."""
    if not numbers:
        return
    last = connection.execute("SELECT max(tick) FROM recency").fetchone()[0] or 0
    # Not for entries that another process dropped meanwhile.
    connection.executemany(
        "INSERT OR REPLACE INTO recency (id, tick) SELECT id, ? FROM entry WHERE id = ?",
        [(last + place, number) for place, number in enumerate(numbers, 1)],
    )


def used_bytes(connection: sqlite3.Connection) -> int:
    """Give the bytes of the pages in use, in this transaction."""
    pages, free, size = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)
