"""The file of a store: how it is made, and how it is told from every other file.

A file is looked at before SQLite opens it, since opening alone may change a database (it recovers a
journal). Normative: docs/formats.md, "Output cache".
"""

import os
import sqlite3
import stat
import tempfile
from contextlib import closing, suppress
from pathlib import Path

from samebits.cache.fault import REMOVE, translate
from samebits.errors import ConfigError, RecordCorrupt

APPLICATION_ID = 0x53424F43
"""SBOC in ASCII."""
VERSION = 1
MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
OLDEST_SQLITE = (3, 37, 0)
"""The first with STRICT tables."""
TABLES = (
    """CREATE TABLE entry (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    key BLOB NOT NULL UNIQUE,
    created_ms INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    surface TEXT NOT NULL,
    weights TEXT NOT NULL,
    ending BLOB NOT NULL,
    answer BLOB NOT NULL,
    events BLOB NOT NULL,
    checksum BLOB NOT NULL,
    preimage BLOB NOT NULL
) STRICT""",
    "CREATE TABLE recency (id INTEGER PRIMARY KEY, tick INTEGER NOT NULL) STRICT",
    "CREATE INDEX recency_by_tick ON recency (tick)",
    "CREATE TRIGGER forget AFTER DELETE ON entry BEGIN DELETE FROM recency WHERE id = old.id; END",
)
"""Answers stand in `entry`; `recency` holds when each was used last, so that using one rewrites
sixteen bytes and not the answer."""


def find_path(path: str | Path) -> Path:
    """Give the whole path of a store; ~ is a home folder.

    Raises:
        ConfigError: Nobody has that home folder.
    """
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(expected=f"a store at {str(path)!r}", found=str(error)) from error


def prepare_file(path: Path) -> None:
    """Make the file of a store if there is none; refuse any other file and leave it as it is.

    Raises:
        ConfigError: It cannot be made or read, or belongs to something else or another version.
        RecordCorrupt: It is cut off.
    """
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise ConfigError(expected=f"SQLite {oldest} or later", found=sqlite3.sqlite_version)
    try:
        header = read_header(path)
        if header is None:
            make_file(path)
            header = read_header(path)
    except (OSError, ValueError) as error:
        # The second for a path with a zero byte.
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError(expected=f"a store at {str(path)!r}", found=why) from error
    check_header(path, header or b"")


def read_header(path: Path) -> bytes | None:
    """Read the first bytes of a regular file; None: nothing is there.

    Raises:
        ConfigError: Something else is there.
    """
    try:
        # Not opened before it is known to be a file: opening a pipe waits.
        if not stat.S_ISREG(path.stat().st_mode):
            raise ConfigError(expected=f"a file at {path}", found="something that is no file")
    except FileNotFoundError:
        return None
    with path.open("rb") as file:
        return file.read(HEADER_BYTES)


def check_header(path: Path, header: bytes) -> None:
    """Refuse what is no store of this version, by name."""
    if not header.startswith(MAGIC):
        raise refuse_foreign(path, "an empty file" if not header else "another kind of file")
    if len(header) < HEADER_BYTES:
        raise RecordCorrupt(
            expected=f"a whole store at {path}", found="the beginning of one", remedy=REMOVE
        )
    application = int.from_bytes(header[68:72], "big")
    if application != APPLICATION_ID:
        raise refuse_foreign(path, f"a database of another application ({application:#010x})")
    check_version(path, int.from_bytes(header[60:64], "big"))


def check_version(path: Path, version: int) -> None:
    """Refuse a store of another version."""
    if version != VERSION:
        raise ConfigError(
            expected=f"an output cache of version {VERSION} at {path}",
            found=f"version {version}",
            remedy="Name another file, or use the samebits that wrote it.",
        )


def refuse_foreign(path: Path, found: str) -> ConfigError:
    """Make the error for a file that is not ours."""
    return ConfigError(
        expected=f"an output cache at {path}",
        found=found,
        remedy="It was left as it is; name another file.",
    )


def make_file(path: Path) -> None:
    """Make an empty store under another name, then give it its own: nobody sees half of one.

    Raises:
        ConfigError: A journal of a store that is gone lies there, or there are no hard links.
        OSError: The file system refuses.
    """
    for ending in ("-wal", "-journal"):
        if os.path.lexists(f"{path}{ending}"):
            raise ConfigError(
                expected=f"no file {path}{ending} without {path}",
                found="one, left by a store that was removed",
                remedy="Remove it, too.",
            )
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".samebits.")
    os.close(handle)
    try:
        with translate(str(path)):
            write_tables(scratch)
        link_new(scratch, path)
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            with suppress(FileNotFoundError):
                os.unlink(scratch + ending)


def write_tables(scratch: str) -> None:
    """Write the tables of an empty store; the header stands in the file before any log is."""
    with closing(sqlite3.connect(scratch, isolation_level=None)) as connection:
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")
        for table in TABLES:
            connection.execute(table)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")


def link_new(scratch: str, path: Path) -> None:
    """Give a finished file its name; one that another process made meanwhile stays.

    Raises:
        ConfigError: The file system knows no hard links, so it would not lock well either.
    """
    try:
        os.link(scratch, path)
    except FileExistsError:
        return
    except PermissionError as error:
        raise ConfigError(
            expected=f"a file system with hard links under {path}",
            found=error.strerror or str(error),
            remedy="Keep the store on a local disk.",
        ) from error


def check_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a file whose tables are not those of this version.

    Raises:
        RecordCorrupt: They are others.
    """
    check_version(path, connection.execute("PRAGMA user_version").fetchone()[0])
    found = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\'"
    ).fetchall()
    if sorted(sql for (sql,) in found) != sorted(table.encode() for table in TABLES):
        raise RecordCorrupt(
            expected=f"the tables of an output cache in {path}", found="others", remedy=REMOVE
        )
