"""What a replay without a recording is told: the nearest recording, and what differs, by field.

Only recordings of the same surface and namespace are looked at: nobody learns of another tenant's.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from samebits.cache.key import Recorded, read_preimage
from samebits.cache.shelf import Asked
from samebits.errors import NotCached, SamebitsError
from samebits.record.canonical import canonical_bytes

LOOKED_AT = 10_000
"""Newest recordings among which the nearest is sought."""
SHOWN = 5
"""Fields that a message names."""
SHOWN_CHARS = 60
AROUND_CHARS = 20
"""Of long texts: shown before the first character that differs."""
ABSENT = "absent"


class Difference(NamedTuple):
    """One field that is not as it was recorded."""

    field: str
    recorded: str
    """Canonical JSON, or `absent`; a long text from shortly before where it differs."""
    asked: str


class Recordings(Protocol):
    """Where recordings are read."""

    def preimages(self, *, surface: str, namespace: str, most: int) -> Iterable[bytes]:
        """Yield what keys were made of, the newest first."""
        ...


def refuse_uncached(asked: Asked, recordings: Recordings) -> NotCached:
    """Make the error for a request that has no recording."""
    remedy = "Record it first: ask once without only_if_cached."
    if asked.refusal:
        return NotCached(
            expected="a request that a cache may answer", found=f"one refused: {asked.refusal}"
        )
    nearest = find_nearest(read_preimage(asked.key.preimage), recordings)
    if nearest is None:
        return NotCached(
            expected="a recording of this request", found="no recording to compare", remedy=remedy
        )
    shown = "; ".join(f"{d.field}: recorded {d.recorded}, asked {d.asked}" for d in nearest[:SHOWN])
    more = f"; and {len(nearest) - SHOWN} more" if len(nearest) > SHOWN else ""
    what = shown or "nothing: an entry that is damaged or too old"
    return NotCached(
        expected="a recording of this request",
        found=f"none; from the nearest differs {what}{more}",
        remedy=remedy,
        differences=nearest,
    )


def find_nearest(asked: Recorded, recordings: Recordings) -> tuple[Difference, ...] | None:
    """Find the recording with the fewest fields that differ, of these the newest.

    Returns:
        The fields that differ, in order of name; None: there is no recording, or none can be read.
    """
    wanted = dict(flatten_request(asked))
    best: tuple[Difference, ...] | None = None
    try:
        for preimage in recordings.preimages(
            surface=asked.surface, namespace=asked.namespace, most=LOOKED_AT
        ):
            found = compare(dict(flatten_request(read_preimage(preimage))), wanted)
            if best is None or len(found) < len(best):
                best = found
    except SamebitsError:
        # A store that cannot be read has no nearest recording to show; the refusal stands.
        return best
    return best


def flatten_request(request: Recorded) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a request with its path."""
    yield from flatten(request.body, "body")
    yield from flatten(request.identity, "identity")
    yield "index", request.index


def flatten(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield every leaf of a value; lists of scalars, such as token ids, are leaves."""
    if isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from flatten(item, f"{path}.{name}")
    elif isinstance(value, list) and any(isinstance(item, list | dict) for item in value):
        for place, item in enumerate(value):
            yield from flatten(item, f"{path}[{place}]")
    else:
        yield path, value


def compare(recorded: Mapping[str, Any], asked: Mapping[str, Any]) -> tuple[Difference, ...]:
    """List the fields that differ."""
    differences = []
    for field in sorted(recorded.keys() | asked.keys()):
        before = spell(recorded, field)
        now = spell(asked, field)
        if before != now:
            differences.append(Difference(field, *shorten(before, now)))
    return tuple(differences)


def spell(fields: Mapping[str, Any], field: str) -> str:
    """Spell a leaf."""
    return canonical_bytes(fields[field]).decode() if field in fields else ABSENT


def shorten(a: str, b: str) -> tuple[str, str]:
    """Cut two long texts to where they differ."""
    same = next(
        (i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b))
    )
    start = max(0, same - AROUND_CHARS) if max(len(a), len(b)) > SHOWN_CHARS else 0
    return cut(a, start), cut(b, start)


def cut(text: str, start: int) -> str:
    """Show a part of a text, with dots where it goes on."""
    end = start + SHOWN_CHARS
    return f"{'…' if start else ''}{text[start:end]}{'…' if len(text) > end else ''}"
