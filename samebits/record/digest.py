"""SHA-256 under a tag, so that a digest of one kind is never taken for one of another."""

import hashlib
import re

STEP_DIGITS = 16
"""Hexadecimal digits that are kept of the digest of a step's logits."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}\Z")


def tagged_digest(tag: str, *parts: bytes | memoryview) -> str:
    """Digest a tag and parts, each preceded by its length, so that no two lists collide.

    Returns:
        "sha256:" and 64 hexadecimal digits, over u64 little-endian length and bytes of the tag,
        then of each part.
    Source: docs/formats.md, "Digests".
    """
    digest = hashlib.sha256()
    for part in (tag.encode(), *parts):
        view = memoryview(part)
        digest.update(view.nbytes.to_bytes(8, "little"))
        digest.update(view)
    return f"sha256:{digest.hexdigest()}"


def is_digest(value: object) -> bool:
    """Answer whether a value is a digest as `tagged_digest` spells it."""
    return isinstance(value, str) and DIGEST.match(value) is not None
