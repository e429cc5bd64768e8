"""Digests of different kinds, or of differently cut parts, never meet."""

import hashlib

from samebits.record.digest import is_digest, tagged_digest


def test_a_digest_is_sha256_over_lengths_and_bytes() -> None:
    framed = b"\x01\0\0\0\0\0\0\0t" + b"\x02\0\0\0\0\0\0\0ab" + b"\0" * 8
    assert tagged_digest("t", b"ab", b"") == f"sha256:{hashlib.sha256(framed).hexdigest()}"


def test_tags_and_cuts_are_told_apart() -> None:
    digests = [
        tagged_digest("t", b"ab"),
        tagged_digest("u", b"ab"),
        tagged_digest("t", b"a", b"b"),
        tagged_digest("t", b"ab", b""),
        tagged_digest("ta", b"b"),
        tagged_digest("t"),
    ]
    assert len(set(digests)) == len(digests)
    assert all(map(is_digest, digests))


def test_other_spellings_are_no_digests() -> None:
    good = tagged_digest("t")
    for bad in (good.upper(), good[:-1], good + "0", good + "\n", good.removeprefix("sha256:"), 7):
        assert not is_digest(bad)
