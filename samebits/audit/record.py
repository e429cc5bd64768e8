"""An audit's record: what was asked, what was seen, and how it ended, as plain values.

record_writer.py writes it line by line, record_reader.py reads it, record_chain.py says which lines
may follow which. Normative: docs/formats.md, "Audit record".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from samebits.audit.condition import Process
from samebits.audit.observation import Observation
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import TargetFacts
from samebits.lock.facts import MachineFacts
from samebits.record.canonical import canonical_bytes
from samebits.record.digest import tagged_digest
from samebits.record.mend import mend
from samebits.record.typed import plain_value

FORMAT = "samebits/audit/v1"
LINE_TAG = "samebits/audit-line/v1"
IDENTITY_TAG = "samebits/audit-identity/v1"


class Why(StrEnum):
    """Why an audit ended."""

    COMPLETE = "complete"
    BUDGET = "budget"
    INTERRUPTED = "interrupted"
    TARGET = "target"
    """The target failed; the message says how."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The first line."""

    version: str
    """samebits version that began the record."""
    nonce: str
    """Random, drawn once an audit: marks of cold prefixes and neighbours are made of it."""
    asked: Mapping[str, Any]
    """Every option, by name, as plain values: model, arithmetic, max_tokens, need, budget,
    answer_pattern and so on."""
    target: TargetFacts
    """As the first session found it: what is in force."""
    machine: MachineFacts
    prompts: tuple[AuditPrompt, ...]
    axes: tuple[str, ...]
    """Keys of the axes planned."""
    started_at: str | None = None
    """ISO 8601 with zone; chained like everything else, but no part of the identity."""

    @property
    def identity(self) -> str:
        """Digest all but nonce and started_at: equal for the same question on the same machine."""
        value = self.value()
        del value["nonce"], value["started_at"]
        return tagged_digest(IDENTITY_TAG, canonical_bytes(value))

    def value(self) -> dict[str, Any]:
        """Give the header as plain values, without what a record cannot carry."""
        value: dict[str, Any] = mend(plain_value(self, whole=True))
        return {"format": FORMAT, **value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A session was opened."""

    number: int
    """As observations name it."""
    attempt: int
    process: Process
    facts: TargetFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTested:
    """A contrast for which no calls were made."""

    axis: str
    level: str
    """Empty: all levels."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """The audit went on after a stop."""

    attempt: int
    """1 is the first resumption."""
    machine: MachineFacts | None = None
    """None: as before."""
    started_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The audit stopped. Durations and counts are of this attempt."""

    why: Why
    message: str = ""
    own_s: float = 0.0
    """Seconds not spent waiting for the target."""
    target_s: float = 0.0
    calls: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """A whole record."""

    header: Header
    observations: tuple[Observation, ...] = ()
    """In the order in which they were made, as are all below."""
    sessions: tuple[Opened, ...] = ()
    not_tested: tuple[NotTested, ...] = ()
    probes: tuple[Probe, ...] = ()
    notes: tuple[Mapping[str, Any], ...] = ()
    """Free keys, such as a positive control."""
    resumed: tuple[Resumed, ...] = ()
    ends: tuple[End, ...] = ()
    """One an attempt that was not killed."""
    is_ended: bool = False
    """Whether an end is the last line."""
    digest: str = ""
    """The last link: it holds every line."""
    is_torn: bool = False
    """Whether a torn last line was left out."""
    num_replaced: int = 0
    """Lone surrogates in answers that were replaced on writing."""

    @property
    def attempt(self) -> int:
        """How often the audit was resumed."""
        return len(self.resumed)
