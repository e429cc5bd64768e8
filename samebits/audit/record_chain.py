"""The lines of a record: their kinds, how each is linked to those before, which may follow which.

A line is {"kind":K,"link":L,"value":V} in canonical JSON. Its link digests the link before, the
kind and the bytes of the value, so that a reader checks bytes and never spells anything again.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from samebits.audit.condition import Condition
from samebits.audit.observation import Observation
from samebits.audit.probe import Probe
from samebits.audit.record import LINE_TAG, End, Header, NotTested, Opened, Resumed
from samebits.errors import RecordCorrupt
from samebits.record.canonical import parse_json
from samebits.record.digest import tagged_digest

HEADER = "header"
OBSERVATION = "observation"
NOTE = "note"
KINDS: Mapping[str, Any] = {
    "resumed": Resumed,
    "session": Opened,
    OBSERVATION: Observation,
    "not_tested": NotTested,
    "probe": Probe,
    NOTE: Mapping[str, Any],
    "end": End,
}
"""Kind to the type of its value; a header stands on the first line alone."""
LINE = re.compile(
    rb'\{"kind":"([a-z_]{1,32})","link":"(sha256:[0-9a-f]{64})","value":(\{.*\})\}\n', re.DOTALL
)


class Chain(NamedTuple):
    """Where a record stands after its last line."""

    link: str = ""
    num_lines: int = 0
    size: int = 0
    """Bytes."""
    attempt: int = 0
    is_ended: bool = False

    def follow(self, link: str, num_bytes: int, item: Any) -> "Chain":
        """Give the chain after one more line."""
        return Chain(
            link=link,
            num_lines=self.num_lines + 1,
            size=self.size + num_bytes,
            attempt=item.attempt if isinstance(item, Resumed) else self.attempt,
            is_ended=isinstance(item, End),
        )


def link_line(link: str, kind: str, value: bytes) -> str:
    """Digest a line; the first has the empty link before it."""
    return tagged_digest(LINE_TAG, link.encode(), kind.encode(), value)


def spell_line(kind: str, link: str, value: bytes) -> bytes:
    """Spell a line."""
    return b'{"kind":"%s","link":"%s","value":%s}\n' % (kind.encode(), link.encode(), value)


class Rules:
    """What may stand in the record that a header begins."""

    def __init__(self, header: Header) -> None:
        self.prompts = {prompt.id for prompt in header.prompts}
        self.conditions: set[str] = set()
        if len(self.prompts) != len(header.prompts):
            raise RecordCorrupt(expected="each prompt's id once", found="one twice")

    def check(self, chain: Chain, item: Any) -> None:
        """Refuse an item that cannot follow.

        Raises:
            RecordCorrupt: It is out of place; the message says why.
        """
        if isinstance(item, Observation):
            self.check_observation(item, chain)
        if chain.is_ended and not isinstance(item, Resumed):
            raise RecordCorrupt(
                expected="nothing but a resumption after an end", found=type(item).__name__
            )
        if isinstance(item, Resumed) and item.attempt != chain.attempt + 1:
            raise RecordCorrupt(
                expected=f"resumption {chain.attempt + 1}", found=f"resumption {item.attempt}"
            )
        if isinstance(item, Opened) and item.attempt != chain.attempt:
            raise wrong_attempt(chain, item.attempt)

    def check_observation(self, seen: Observation, chain: Chain) -> None:
        """Refuse an observation of a prompt, condition or attempt that is not the record's."""
        if seen.attempt != chain.attempt:
            raise wrong_attempt(chain, seen.attempt)
        if seen.prompt not in self.prompts:
            raise RecordCorrupt(expected="a prompt of the header", found=repr(seen.prompt))
        if seen.condition not in self.conditions:
            read_condition(seen.condition)
            self.conditions.add(seen.condition)


def wrong_attempt(chain: Chain, attempt: int) -> RecordCorrupt:
    """Make the error for an item of another attempt."""
    return RecordCorrupt(expected=f"attempt {chain.attempt}", found=f"attempt {attempt}")


def read_condition(key: str) -> Condition:
    """Read a condition from its key.

    Raises:
        RecordCorrupt: It is none, or not as it is spelled.
    """
    value = parse_json(key)
    condition = Condition.from_value(value) if isinstance(value, dict) else None
    if condition is None or condition.key != key:
        raise RecordCorrupt(expected="a condition's key", found=repr(key)[:200])
    return condition
