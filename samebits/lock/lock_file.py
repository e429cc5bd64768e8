"""Lock files: one line of canonical JSON under a digest.

Normative: docs/formats.md, "Lock file".
"""

import os
import stat
from pathlib import Path
from typing import Any

from samebits.errors import RecordCorrupt
from samebits.lock.contents import Lock
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.digest import tagged_digest
from samebits.record.typed import plain_value, read_typed

FORMAT = "samebits/lock/v1"
"""Names the format, and is the tag of its digest."""
LARGEST_BYTES = 16 << 20
KEYS = {"digest", "format", "identity"}


def lock_digest(lock: Lock) -> str:
    """Digest an environment: equal for two captures of an unchanged one."""
    return tagged_digest(FORMAT, canonical_bytes(plain_value(lock)))


def write_lock(lock: Lock) -> str:
    """Spell a lock as the text of its file."""
    identity = plain_value(lock)
    value = {"format": FORMAT, "digest": lock_digest(lock), "identity": identity}
    return canonical_bytes(value).decode() + "\n"


def read_lock(path: Path) -> Lock:
    """Read a lock file and check it against its digest.

    Raises:
        RecordCorrupt: It is no regular file, too long, damaged, edited, no lock, or one of another
            version.
    """
    return parse_lock(read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """Read a regular file of at most 16 MiB; never waits for a pipe."""
    try:
        # Without a writer, a named pipe would keep us waiting before it can be looked at.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb") as stream:
            status = os.fstat(stream.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise RecordCorrupt(expected="a lock file", found="no regular file")
            data = stream.read(LARGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or "no path"
        raise RecordCorrupt(expected="a lock file", found=found) from error
    if len(data) > LARGEST_BYTES:
        raise RecordCorrupt(expected=f"a lock file of at most {LARGEST_BYTES} bytes", found="more")
    return data


def parse_lock(data: bytes) -> Lock:
    """Read the bytes of a lock file.

    Raises:
        RecordCorrupt: As `read_lock`.
    """
    try:
        value = parse_json(data)
    except RecordCorrupt as error:
        raise RecordCorrupt(
            expected="a lock file: one line of JSON in UTF-8, each key once",
            found=f"{error.found:.200}",
        ) from error
    check_frame(value)
    lock: Lock = read_typed(Lock, value["identity"], "identity")
    if write_lock(lock).encode() != data:
        raise RecordCorrupt(
            expected="the one spelling that samebits lock writes", found="another spelling"
        )
    return lock


def check_frame(value: Any) -> None:
    """Check format, keys and digest; the format first, since another one may differ in the rest."""
    found = value.get("format") if isinstance(value, dict) else None
    if found != FORMAT:
        raise RecordCorrupt(
            expected=f"a lock file of format {FORMAT}",
            found=f"format {found!r:.80}" if found else "no lock file",
            remedy="Make a new lock with this version of samebits." if found else "",
        )
    if value.keys() != KEYS:
        names = ", ".join(sorted(map(repr, value.keys() ^ KEYS)))
        raise RecordCorrupt(
            expected=f"the keys {', '.join(sorted(KEYS))} in a lock file",
            found=f"missing or unknown: {names:.120}",
        )
    digest = tagged_digest(FORMAT, canonical_bytes(value["identity"]))
    if value["digest"] != digest:
        raise RecordCorrupt(
            expected=f"a lock file that nobody edited, with the digest {digest}",
            found=f"{value['digest']!r:.100}: it was damaged or edited",
            remedy="Make a new lock where the old one was made.",
        )
