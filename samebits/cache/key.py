"""The key of a request: a digest of all that its answer may depend on.

Everything counts that is not named in CONTROLS: a field that nobody here has heard of, too. What is
one request and what is two: docs/formats.md, "Output cache".
"""

import hashlib
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from samebits.errors import RecordCorrupt, UnsupportedInput
from samebits.record.canonical import LARGEST_NUMBER, canonical_bytes, parse_json

TAG = b"samebits/cache-key/v1"
"""The format of keys; another one never finds an entry of this."""
CONTROLS = frozenset({"samebits_cache"})
"""Top-level fields of a body that steer the cache alone: no part of the key, never sent on."""
LONG = re.compile(rb'"-?[1-9][0-9]{15,}"')
"""In canonical JSON: what may be an integer that is too long for a number, or a text like it."""
LENGTH = struct.Struct("<Q").pack
PARTS = ("surface", "namespace", "index", "identity", "body", "integers")


def frame(*parts: bytes) -> bytes:
    """Join parts, each after its length as u64 little-endian, so that no two lists collide."""
    return b"".join([LENGTH(len(part)) + part for part in parts])


def unframe(data: bytes) -> list[bytes]:
    """Take framed parts apart.

    Raises:
        RecordCorrupt: The lengths do not fit the data.
    """
    parts, at = [], 0
    while at < len(data):
        end = at + 8 + int.from_bytes(data[at : at + 8], "little")
        if end > len(data) or at + 8 > len(data):
            raise RecordCorrupt(expected="parts as long as they say", found="data that ends before")
        parts.append(data[at + 8 : end])
        at = end
    return parts


TAG_FRAME = frame(TAG)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What answers: make it once for a loaded model, not for each request.

    Raises:
        UnsupportedInput: A setting that canonical JSON cannot carry.
    """

    weights: str
    """Digest of the numbers themselves: a name or a path would let new weights pass as old ones."""
    tokenizer: str
    """Digest."""
    template: str | None
    """Digest of the chat template; None: the model has none."""
    setting: Mapping[str, Any]
    """All else that reaches the answer: arithmetic and its version, data type, batch shape, or the
    digest of a lock."""
    framed: bytes = field(init=False, compare=False, repr=False)
    """The canonical bytes, framed; made once."""
    has_long: bool = field(init=False, compare=False, repr=False)
    """Whether the setting may hold a long integer."""

    def __post_init__(self) -> None:
        names = ("weights", "tokenizer", "template", "setting")
        value = {name: getattr(self, name) for name in names}
        spelled = canonical_bytes(value)
        object.__setattr__(self, "framed", frame(spelled))
        object.__setattr__(self, "has_long", LONG.search(spelled) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One question to a cache."""

    surface: str
    """What kind of request it is, with a version: the same body means something else elsewhere."""
    body: Mapping[str, Any]
    """The whole effective request as JSON values, unknown fields included. `temperature` and `seed`
    at the top are what admission looks at."""
    identity: Identity
    index: int | None = None
    """Which sample of it: 0, 1, …; None: it has no more than one."""
    is_draw: bool = False
    """The caller asks for draw `index` by name: asked again, this one is meant, seed or no seed."""
    doubt: str = ""
    """Why equal requests may be answered otherwise; empty: they cannot."""


class Key(NamedTuple):
    """The digest that finds an entry, and what it is a digest of."""

    digest: bytes
    """32 bytes."""
    preimage: bytes
    """The framed parts, in the order of PARTS; kept with the entry, so that it can be checked."""


def make_key(request: Request, namespace: str = "") -> Key:
    """Make the key of a request.

    Args:
        namespace: who may share answers; the tenant of a server, never chosen by a request.
    Raises:
        UnsupportedInput: The body has no canonical form (NaN, a lone surrogate, another type), a
            name is no Unicode, or the index is no integer from 0.
    Source: docs/formats.md, "Output cache".
    """
    body, identity, index = strip_controls(request.body), request.identity, request.index
    if index is not None and (type(index) is not int or index < 0):
        raise UnsupportedInput(expected="a sample's index from 0", found=repr(index))
    spelled = canonical_bytes(body)
    preimage = (
        frame_head(request.surface, namespace, index)
        + identity.framed
        + frame(spelled, spell_integers(body, identity, spelled))
    )
    return Key(digest_preimage(preimage), preimage)


@lru_cache(maxsize=256)
def frame_head(surface: str, namespace: str, index: int | None) -> bytes:
    """Frame the parts that few requests have of their own."""
    draw = b"" if index is None else b"%d" % index
    return frame(encode(surface), encode(namespace), draw)


def encode(name: str) -> bytes:
    """Give a name as UTF-8.

    Raises:
        UnsupportedInput: A lone surrogate.
    """
    try:
        return name.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedInput(expected="a name in Unicode", found=ascii(name)) from error


def digest_preimage(preimage: bytes) -> bytes:
    """Digest the framed parts of a key under its tag."""
    return hashlib.sha256(TAG_FRAME + preimage).digest()


def strip_controls(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a body as it is sent on: without the fields that steer the cache alone."""
    if CONTROLS.isdisjoint(body):
        return body
    return {name: value for name, value in body.items() if name not in CONTROLS}


def spell_integers(body: Mapping[str, Any], identity: Identity, spelled: bytes) -> bytes:
    """List where long integers stand: canonical JSON spells them as texts, and texts differ."""
    if not (identity.has_long or LONG.search(spelled)):
        return b""
    places = [*find_long(body, ["body"]), *find_long(identity.setting, ["setting"])]
    return canonical_bytes(sorted(places))


def find_long(value: Any, path: list[str]) -> Iterator[list[str]]:
    """Yield the path of every integer that has no spelling as a number."""
    if isinstance(value, int) and abs(value) > LARGEST_NUMBER:
        yield path
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from find_long(item, [*path, name])
    elif isinstance(value, list | tuple):
        for place, item in enumerate(value):
            yield from find_long(item, [*path, str(place)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A request as an entry keeps it."""

    surface: str
    namespace: str
    index: int | None
    identity: Mapping[str, Any]
    body: Mapping[str, Any]
    """Long integers are texts."""


def read_preimage(preimage: bytes) -> Recorded:
    """Read what a key was made of.

    Raises:
        RecordCorrupt: It is no such thing.
    """
    parts = unframe(preimage)
    if len(parts) != len(PARTS):
        raise RecordCorrupt(expected=f"the parts {', '.join(PARTS)}", found=f"{len(parts)} parts")
    surface, namespace, index, identity, body, _ = parts
    try:
        return Recorded(
            surface=surface.decode(),
            namespace=namespace.decode(),
            index=int(index) if index else None,
            identity=parse_json(identity),
            body=parse_json(body),
        )
    except ValueError as error:
        raise RecordCorrupt(expected="parts of a key", found=str(error)) from error
