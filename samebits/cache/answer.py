"""An answer as bytes, and how it ended.

A body is replayed byte for byte; what it means is its surface's business.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.typed import plain_value, read_typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an answer ended: what admission judges it by."""

    finish_reasons: tuple[str, ...] = ("stop",)
    """One for each choice; empty or unknown: nobody knows that it is complete."""
    is_empty: bool = False
    """A choice has neither text nor tool call."""
    is_refusal: bool = False
    """The model declined; an apology in its place counts, where the caller can tell."""
    error: str = ""
    """Set: it is no answer but a failure, an error inside a 200 included."""


STOPPED = Ending()


class Answer(NamedTuple):
    """What a request gets, whole and, if it was a stream, in the pieces it came in."""

    body: bytes
    """The whole answer."""
    events: tuple[bytes, ...] = ()
    """The events of the stream, in order; empty if it was none, or if the body tells."""
    ending: Ending = STOPPED


def spell_ending(ending: Ending) -> bytes:
    """Spell an ending; what stands at its default is left out."""
    return canonical_bytes(plain_value(ending))


@lru_cache(maxsize=256)
def read_ending(data: bytes) -> Ending:
    """Read an ending back; nearly all are the same few.

    Raises:
        RecordCorrupt: It is none.
    """
    ending: Ending = read_typed(Ending, parse_json(data), "ending")
    return ending
