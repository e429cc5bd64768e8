"""An entry of a store, and the checksum by which it is known to be what was written."""

import hashlib
import struct
from typing import Any, NamedTuple

from samebits.cache.key import frame

CHECK_TAG = frame(b"samebits/cache-entry/v1")
LENGTHS = struct.Struct("<Q32sQqQ")
"""Length and key, length of the time and the time, length of the ending."""
LENGTH = struct.Struct("<Q")


class Entry(NamedTuple):
    """What is kept for a key, all of it under the checksum."""

    created_ms: int
    """Milliseconds since 1970, by the clock of the machine."""
    ending: bytes
    answer: bytes
    events: bytes
    """Framed (key.py)."""


class Labels(NamedTuple):
    """What entries are chosen by when they are listed or purged; the key holds the same."""

    namespace: str
    surface: str
    weights: str


class TooLarge(Exception):
    """An entry would take too much of the store."""


class DamagedEntry(Exception):
    """An entry is not what was written."""


def digest_entry(key: bytes, entry: Entry) -> bytes:
    """Digest an entry and the key it was written under.

    The tagged digest of docs/formats.md, spelt out for speed: every hit waits for it.
    """
    created_ms, ending, answer, events = entry
    return hashlib.sha256(
        b"".join(
            (
                CHECK_TAG,
                LENGTHS.pack(32, key, 8, created_ms, len(ending)),
                ending,
                LENGTH.pack(len(answer)),
                answer,
                LENGTH.pack(len(events)),
                events,
            )
        )
    ).digest()


def check_entry(key: bytes, parts: tuple[Any, ...], checksum: object) -> Entry:
    """Give the parts of a row as an entry, if they are what was written under the key.

    Raises:
        DamagedEntry: They are not.
    """
    try:
        entry = Entry(*parts)
        found = digest_entry(key, entry)
    except (TypeError, struct.error) as error:
        # Damage may turn a number into bytes, and bytes into nothing.
        raise DamagedEntry from error
    if found != checksum:
        raise DamagedEntry
    return entry
