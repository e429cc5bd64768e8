"""Writes a record line by line, so that whatever stops an audit keeps what was seen.

One writer at a time holds the file. What a failed or interrupted write leaves behind is cut off
before the next line, so that the file always is a record, but for a last line that was torn.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from samebits.audit.observation import Observation
from samebits.audit.probe import Probe
from samebits.audit.record import AuditRecord, End, Header, NotTested, Opened, Resumed
from samebits.audit.record_chain import (
    HEADER,
    KINDS,
    NOTE,
    OBSERVATION,
    Chain,
    Rules,
    link_line,
    spell_line,
)
from samebits.audit.record_reader import read_open_record
from samebits.errors import ConfigError, InvariantBroken, RecordCorrupt, UnsupportedInput
from samebits.lock.facts import MachineFacts
from samebits.record.canonical import canonical_bytes
from samebits.record.mend import count_lone, mend
from samebits.record.own_file import create_file, hold, open_file
from samebits.record.typed import plain_value

SYNC_S = 1.0
"""Seconds between two times that the disk is told to keep what it has."""
NAMES = {kind: name for name, kind in KINDS.items()}

Item = Observation | Opened | NotTested | Probe | Resumed | End | Mapping[str, Any]


class RecordWriter:
    """A record that grows. Close it, or use it as a context manager."""

    def __init__(self, path: Path, file: int, chain: Chain, rules: Rules) -> None:
        self.path = path
        self.file = file
        self.chain = chain
        self.rules = rules
        self.synced_at = time.monotonic()

    @classmethod
    def create(cls, path: Path, header: Header) -> Self:
        """Begin a record.

        Raises:
            ConfigError: Something of that name exists, or the file system refuses; nothing is left.
            RecordCorrupt: A prompt's id stands twice.
        """
        rules = Rules(header)
        value = canonical_bytes(header.value())
        writer = cls(path, create_file(path), Chain(), rules)
        try:
            hold(writer.file, path)
            writer.write(HEADER, value, header)
        except BaseException:
            os.close(writer.file)
            path.unlink(missing_ok=True)
            raise
        return writer

    @classmethod
    def resume(
        cls, path: Path, *, machine: MachineFacts | None = None, started_at: str | None = None
    ) -> Self:
        """Go on with a record; a torn last line is cut off.

        Args:
            machine: This machine; recorded if it is not the one that was recorded last.
            started_at: ISO 8601 with zone.
        Raises:
            ConfigError: It cannot be opened, or another process is writing it.
            RecordCorrupt: It is damaged other than by a torn last line.
        """
        file = open_file(path)
        try:
            hold(file, path)
            record, chain = read_open_record(file, path)
            writer = cls(path, file, chain, Rules(record.header))
            changed = None if machine in (None, last_machine(record)) else machine
            writer.append(
                Resumed(attempt=chain.attempt + 1, machine=changed, started_at=started_at)
            )
        except BaseException:
            os.close(file)
            raise
        return writer

    def append(self, item: Item) -> None:
        """Add a line, whole or not at all.

        Lone surrogates and numbers that are not finite are mended.

        Args:
            item: What happened; a mapping is a note.
        Raises:
            ConfigError: The file system refuses, such as a full disk; all lines before are kept.
            InvariantBroken: It is out of place: another attempt, an unknown prompt, after an end.
        """
        try:
            self.rules.check(self.chain, item)
        except RecordCorrupt as error:
            raise InvariantBroken(
                expected=error.expected, found=error.found, remedy="This is a bug: report it."
            ) from error
        kind = NAMES.get(type(item), NOTE)
        self.write(kind, spell_value(kind, plain_value(item)), item)

    def write(self, kind: str, value: bytes, item: Any) -> None:
        """Write one line and tell the disk now and then."""
        link = link_line(self.chain.link, kind, value)
        line = spell_line(kind, link, value)
        try:
            self.cut()
            write_all(self.file, line, self.chain.size)
            # One assignment: an interrupt finds the chain before the line or after it.
            self.chain = self.chain.follow(link, len(line), item)
            if time.monotonic() - self.synced_at >= SYNC_S:
                self.sync()
        except OSError as error:
            raise self.refuse(error) from error

    def cut(self) -> None:
        """Cut off what an interrupted write left behind."""
        if os.fstat(self.file).st_size != self.chain.size:
            os.ftruncate(self.file, self.chain.size)

    def refuse(self, error: OSError) -> ConfigError:
        """Make the error for a failed write, with nothing left behind the last whole line."""
        try:
            self.cut()
            kept = f"{self.chain.num_lines} lines are kept"
        except OSError:
            kept = f"{self.chain.num_lines} lines are kept, and a torn one"
        return ConfigError(
            expected=f"{self.path} to be written",
            found=error.strerror or str(error),
            remedy=f"{kept}. Make room, then resume." if self.chain.num_lines else "",
        )

    def sync(self) -> None:
        """Have the disk keep what was written."""
        os.fsync(self.file)
        self.synced_at = time.monotonic()

    def close(self) -> None:
        """Have the disk keep everything and let go of the file; twice does nothing.

        Raises:
            ConfigError: The disk refuses.
        """
        if self.file < 0:
            return
        try:
            self.cut()
            self.sync()
        except OSError as error:
            raise self.refuse(error) from error
        finally:
            os.close(self.file)
            self.file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def spell_value(kind: str, value: Any) -> bytes:
    """Spell a line's value; one that canonical JSON cannot carry is mended first."""
    try:
        return canonical_bytes(value)
    except UnsupportedInput:
        # Rare, so that looking for it costs nothing in the common case.
        mended = mend(value)
        if kind == OBSERVATION and (num_lone := count_lone(value)):
            mended["replaced"] = num_lone
        return canonical_bytes(mended)


def last_machine(record: AuditRecord) -> MachineFacts:
    """Give the machine that the record's last attempt ran on."""
    machines = [resumed.machine for resumed in record.resumed if resumed.machine is not None]
    return machines[-1] if machines else record.header.machine


def write_all(file: int, data: bytes, offset: int) -> None:
    """Write bytes at a place; a short write goes on until the file system says why."""
    done = 0
    while done < len(data):
        done += os.pwrite(file, data[done:], offset + done)
