"""Reads a record and checks it against itself, line by line, over the bytes as they stand."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from samebits.audit.record import FORMAT, AuditRecord, Header
from samebits.audit.record_chain import (
    HEADER,
    KINDS,
    LINE,
    OBSERVATION,
    Chain,
    Rules,
    link_line,
)
from samebits.errors import ConfigError, RecordCorrupt
from samebits.record.canonical import parse_json, refuse_constant, unique_pairs
from samebits.record.typed import read_typed

DECODER = json.JSONDecoder(object_pairs_hook=unique_pairs, parse_constant=refuse_constant)
LONGEST_LINE = 1 << 28
"""Bytes; no line of ours comes near it, and a damaged file must not fill the memory."""


def read_record(path: Path) -> AuditRecord:
    """Read a record; a torn last line is left out and told by `is_torn`.

    Raises:
        ConfigError: It cannot be opened.
        RecordCorrupt: It is no record, of another version, or damaged: edited, cut in the middle,
            put in another order. The message names the line.
    """
    try:
        if not path.is_file():
            raise ConfigError(expected="a record", found=f"{path}, no file")
        with path.open("rb") as file:
            return read_lines(file, path)[0]
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or str(error)
        raise ConfigError(expected="a record", found=f"{path}: {found}") from error


def read_open_record(file: int, path: Path) -> tuple[AuditRecord, Chain]:
    """Read a record that is open, and say where its next line goes.

    Raises:
        RecordCorrupt: As `read_record`.
    """
    with os.fdopen(os.dup(file), "rb") as stream:
        return read_lines(stream, path)


def read_lines(file: BinaryIO, path: Path) -> tuple[AuditRecord, Chain]:
    """Read all lines."""
    reading = Reading(path)
    for line in iterate_lines(file, path):
        if not reading.take(line) and file.read(1):
            raise reading.corrupt("a line of a record", "none")
    return reading.finish(), reading.chain


def iterate_lines(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Give the lines with their ends; the last may lack it."""
    while line := file.readline(LONGEST_LINE):
        if len(line) == LONGEST_LINE:
            raise RecordCorrupt(expected=f"{path}: lines of a record", found="no end of a line")
        yield line


class Reading:
    """A record while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.chain = Chain()
        self.header: Header | None = None
        self.rules: Rules | None = None
        self.found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
        self.is_torn = False
        self.num_replaced = 0

    def take(self, line: bytes) -> bool:
        """Take a line; False if it is torn, which only the last may be."""
        match = LINE.fullmatch(line)
        if match is None:
            if self.header is None:
                raise self.refuse_start(line)
            self.is_torn = True
            return False
        kind, link, data = match[1].decode(), match[2].decode(), match[3]
        try:
            value = parse_value(data)
            if self.rules is None:
                check_format(kind, value)
            check_link(link, link_line(self.chain.link, kind, data), kind)
            item = self.keep(kind, value) if self.rules else self.begin(value)
        except RecordCorrupt as error:
            raise self.corrupt(error.expected, error.found) from error
        self.chain = self.chain.follow(link, len(line), item)
        return True

    def begin(self, value: dict[str, Any]) -> Header:
        """Take the first line."""
        del value["format"]
        header: Header = read_typed(Header, value, HEADER)
        self.header, self.rules = header, Rules(header)
        return header

    def keep(self, kind: str, value: dict[str, Any]) -> Any:
        """Check what a later line says and keep it."""
        if kind not in KINDS or self.rules is None:
            raise RecordCorrupt(expected=f"one of {', '.join(KINDS)}", found=kind)
        if kind == OBSERVATION and "replaced" in value:
            self.num_replaced += read_typed(int, value.pop("replaced"), "observation.replaced")
        item = read_typed(KINDS[kind], value, kind)
        self.rules.check(self.chain, item)
        self.found[kind].append(item)
        return item

    def refuse_start(self, line: bytes) -> RecordCorrupt:
        """Make the error for a first line that is none of ours."""
        if not line.endswith(b"\n"):
            return self.corrupt("a whole first line", "a torn one: nothing was recorded")
        return self.corrupt(f"format {FORMAT}", describe_start(line))

    def corrupt(self, expected: str, found: str) -> RecordCorrupt:
        """Make the error for the line being read."""
        number = self.chain.num_lines + 1
        return RecordCorrupt(expected=f"{self.path}, line {number}: {expected}", found=found)

    def finish(self) -> AuditRecord:
        """Give what was read."""
        if self.header is None:
            raise self.corrupt("a record", "an empty file")
        return AuditRecord(
            header=self.header,
            observations=tuple(self.found[OBSERVATION]),
            sessions=tuple(self.found["session"]),
            not_tested=tuple(self.found["not_tested"]),
            probes=tuple(self.found["probe"]),
            notes=tuple(self.found["note"]),
            resumed=tuple(self.found["resumed"]),
            ends=tuple(self.found["end"]),
            is_ended=self.chain.is_ended,
            digest=self.chain.link,
            is_torn=self.is_torn,
            num_replaced=self.num_replaced,
        )


def check_format(kind: str, value: dict[str, Any]) -> None:
    """Refuse a first line of another version before its link, which may be made otherwise."""
    found = value.get("format")
    if kind != HEADER:
        raise RecordCorrupt(expected="a header first", found=kind)
    if found != FORMAT:
        raise RecordCorrupt(expected=f"format {FORMAT}", found=repr(found)[:80])


def check_link(found: str, expected: str, kind: str) -> None:
    """Refuse a line that does not follow from those before it."""
    if found == expected:
        return
    what = "it was edited, or a line before it is missing or out of place"
    raise RecordCorrupt(
        expected=f"the link {expected}",
        found=f"{found}: " + ("a second header" if kind == HEADER else what),
    )


def parse_value(data: bytes) -> dict[str, Any]:
    """Read a line's value: an object without duplicate keys, NaN or lone surrogates."""
    if b"\\u" in data:
        # Only control characters are escaped so; what else is, is looked at with care.
        value: dict[str, Any] = parse_json(data)
        return value
    try:
        value = DECODER.decode(data.decode())
    except (ValueError, RecursionError) as error:
        raise RecordCorrupt(expected="one JSON value in UTF-8", found=str(error)) from error
    return value


def describe_start(line: bytes) -> str:
    """Say what a first line is that is none of ours: another version names its format."""
    try:
        value = json.loads(line)
        inner = value.get("value", value)
        found = value.get("format") or inner.get("format")
    except (ValueError, RecursionError, AttributeError):
        found = None
    return f"format {found!r}"[:80] if found else "no line of a record"
