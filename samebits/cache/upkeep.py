"""Look after a store: list its entries, check them all, remove some."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from samebits.cache.connections import Connections
from samebits.cache.entry import DamagedEntry, check_entry
from samebits.cache.fault import StoreFault, Trouble
from samebits.cache.key import digest_preimage, read_preimage
from samebits.errors import ConfigError, RecordCorrupt

BLOCK = 256
"""Entries read at once: a store may be larger than memory."""
LIST = "SELECT id, key, created_ms, namespace, surface, weights, length(answer) + length(events)"
CHECK = (
    "SELECT id, key, created_ms, namespace, surface, weights, ending, answer, events, checksum, "
    "preimage"
)
DIGEST = "sha256:"
DIGITS = re.compile(r"(sha256:)?[0-9a-fA-F]{8,64}\Z", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which entries are meant: those that fit all that is given.

    Raises:
        ConfigError: No digest, or a namespace that is no Unicode.
    """

    key: str | None = None
    """The digest, or its first digits, 8 at least; `sha256:` may stand before them."""
    weights: str | None = None
    """The same, of the weights."""
    namespace: str | None = None
    before_ms: int | None = None
    """Computed before this time, in milliseconds since 1970."""

    def __post_init__(self) -> None:
        check_digits("key", self.key)
        check_digits("weights", self.weights)
        check_namespace(self.namespace)

    @property
    def is_all(self) -> bool:
        """Whether nothing is given, so that every entry is meant."""
        return self == Choice()

    def where(self) -> tuple[str, list[object]]:
        """Give a condition of SQL and its values."""
        key = self.key and self.key.removeprefix(DIGEST).lower()
        weights = self.weights and DIGEST + self.weights.removeprefix(DIGEST).lower()
        tests: dict[str, Sequence[object] | None] = {
            "substr(lower(hex(substr(key, 1, 32))), 1, ?) = ?": key and [len(key), key],
            "substr(weights, 1, ?) = ?": weights and [len(weights), weights],
            "namespace = ?": None if self.namespace is None else [self.namespace],
            "created_ms < ?": None if self.before_ms is None else [self.before_ms],
        }
        given = {test: values for test, values in tests.items() if values is not None}
        condition = " AND ".join(given) or "1"
        return condition, [value for values in given.values() for value in values]


def check_digits(name: str, digits: str | None) -> None:
    """Refuse what is no digest, nor its first digits.

    Raises:
        ConfigError: Names it.
    """
    if digits is not None and not DIGITS.match(digits):
        raise ConfigError(expected=f"{name}: 8 to 64 hexadecimal digits", found=repr(digits))


def check_namespace(namespace: str | None) -> None:
    """Refuse a name that no entry can have.

    Raises:
        ConfigError: It has a lone surrogate.
    """
    try:
        (namespace or "").encode()
    except UnicodeEncodeError as error:
        raise ConfigError(expected="a namespace in Unicode", found=ascii(namespace)) from error


EVERYTHING = Choice()


class Listed(NamedTuple):
    """An entry as it says of itself; only `verify` checks it."""

    key: str
    created_ms: int
    namespace: str
    surface: str
    weights: str
    size_bytes: int
    """Of answer and events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a look at every entry found."""

    num_entries: int
    damaged: tuple[str, ...]
    """Keys of entries that are not what was written; they are never served."""
    damaged_ids: tuple[object, ...]
    """Their numbers in the table: a key may be damaged, too."""
    structure: tuple[str, ...]
    """What SQLite finds wrong with the file itself."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is wrong."""
        return not self.damaged and not self.structure


def list_entries(connections: Connections, choice: Choice) -> Iterator[Listed]:
    """Yield the entries that are meant, the oldest first."""
    where, values = choice.where()
    for _, key, created_ms, namespace, surface, weights, size in read_blocks(
        connections, LIST, where, values
    ):
        yield Listed(
            name_key(key),
            as_number(created_ms),
            as_text(namespace),
            as_text(surface),
            as_text(weights),
            as_number(size),
        )


def verify(connections: Connections) -> Verdict:
    """Check every entry against its checksum and its key, and the file against SQLite's rules."""
    with connections.lend() as connection:
        said = [as_text(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
    count, damaged, numbers = 0, [], []
    structure = [line for line in said if line != "ok"]
    try:
        for number, *row in read_blocks(connections, CHECK, "1", []):
            count += 1
            if not is_whole(row):
                damaged.append(name_key(row[0]))
                numbers.append(number)
    except StoreFault as fault:
        if fault.trouble is not Trouble.DAMAGED:
            raise
        structure.append(fault.found)
    return Verdict(
        num_entries=count,
        damaged=tuple(damaged),
        damaged_ids=tuple(numbers),
        structure=tuple(structure),
    )


def is_whole(row: Sequence[object]) -> bool:
    """Answer whether a row holds what was written, and is labelled as its key says."""
    key, created_ms, namespace, surface, weights, ending, answer, events, checksum, preimage = row
    if not isinstance(preimage, bytes) or digest_preimage(preimage) != key:
        return False
    try:
        check_entry(key, (created_ms, ending, answer, events), checksum)
        asked = read_preimage(preimage)
    except (DamagedEntry, RecordCorrupt):
        return False
    labels = (asked.namespace, asked.surface, str(asked.identity.get("weights")))
    return [label.encode() for label in labels] == [namespace, surface, weights]


def purge(connections: Connections, choice: Choice) -> int:
    """Remove the entries that are meant, their bytes included, and shrink the file.

    Returns:
        Their number.
    """
    where, values = choice.where()
    return remove(connections, f"DELETE FROM entry WHERE {where}", [values])


def purge_damaged(connections: Connections) -> int:
    """Remove the entries that `verify` finds damaged; give their number."""
    rows = [[number] for number in verify(connections).damaged_ids]
    if rows:
        with connections.lend() as connection:
            # A damaged key is not where the index says, and could not be deleted.
            connection.execute("REINDEX entry")
    return remove(connections, "DELETE FROM entry WHERE id = ?", rows)


def remove(connections: Connections, statement: str, rows: Sequence[Sequence[object]]) -> int:
    """Delete entries so that nothing of them is left in the file or its log.

    Raises:
        StoreFault: The store cannot be written; or the entries are gone, and another process reads,
            so that the log still holds their bytes.
    """
    with connections.lend() as connection:
        # What is merely freed can be read from the file until it is written over.
        connection.execute("PRAGMA secure_delete = ON")
        try:
            connection.execute("BEGIN IMMEDIATE")
            count = sum(connection.execute(statement, row).rowcount for row in rows)
            connection.execute("COMMIT")
        finally:
            connection.execute("PRAGMA secure_delete = OFF")
        # Not `execute`, which gives one page back and stops.
        connection.executescript("PRAGMA incremental_vacuum")
        is_busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if is_busy:
        raise StoreFault(
            Trouble.BUSY,
            expected="the log of the store to be emptied",
            found=f"{count} removed, and another process that reads or writes for long",
            remedy="Purge again when it has ended: until then the log holds what was removed.",
        )
    return count


def read_preimages(
    connections: Connections, *, surface: str, namespace: str, most: int
) -> Iterator[bytes]:
    """Yield what keys were made of, of one surface and namespace, the newest first."""
    with connections.lend() as connection:
        rows = connection.execute(
            "SELECT key, preimage FROM entry WHERE surface = ? AND namespace = ? "
            "ORDER BY id DESC LIMIT ?",
            (surface, namespace, most),
        )
        for key, preimage in rows:
            if isinstance(preimage, bytes) and digest_preimage(preimage) == key:
                yield preimage


def read_blocks(
    connections: Connections, select: str, where: str, values: Sequence[object]
) -> Iterator[tuple[object, ...]]:
    """Yield rows, the oldest first, some at a time: a writer waits for no reader of all."""
    last: object = -(2**63)
    while True:
        with connections.lend() as connection:
            rows = connection.execute(
                f"{select} FROM entry WHERE id > ? AND {where} ORDER BY id LIMIT ?",
                (last, *values, BLOCK),
            ).fetchall()
        if not rows:
            return
        yield from rows
        last = rows[-1][0]


def name_key(key: object) -> str:
    """Spell a key as digests are spelt."""
    return DIGEST + key.hex() if isinstance(key, bytes) else "unreadable"


def as_text(value: object) -> str:
    """Give a text that SQLite handed out as bytes; what is no UTF-8 is shown as such."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def as_number(value: object) -> int:
    """Give an integer; 0 where damage left something else."""
    return value if isinstance(value, int) else 0
