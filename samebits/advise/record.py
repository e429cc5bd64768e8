"""The record of an advice: what was asked, every answer under every remedy, and what it cost.

One canonical JSON object with a digest of itself. It is written anew after each remedy, so that an
interrupted run keeps what it has. Normative: docs/formats.md, "Advice record".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.errors import RecordCorrupt
from samebits.lock.facts import MachineFacts
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.digest import tagged_digest
from samebits.record.mend import mend
from samebits.record.typed import plain_value, read_typed

FORMAT = "samebits/advice/v1"
LARGEST_BYTES = 512 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One answer and the arrangement it was given in."""

    arrangement: str
    prompt: str
    """Id."""
    answer: Answer
    """Its elapsed_s is this answer's part of the time that its group took."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """An arrangement that was tried, from ladder.py."""

    key: str
    batch: int
    """Requests that came together."""
    is_company: bool
    """Whether only the company differs from the first, not threads or instruction set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What one remedy gave."""

    rung: str
    arrangements: tuple[Tried, ...] = ()
    """In the order in which they were tried."""
    sightings: tuple[Sighting, ...] = ()
    in_force: Mapping[str, Any] = field(default_factory=dict)
    """As the process reported it: dtype, threads, calibrated epsilon, steps that fired …"""
    not_tried: str = ""
    """Why nothing, or not all of it, could be tried; empty if all was."""
    open_s: float = 0.0
    """Seconds until the first request could be asked: loading, checks, calibration."""
    peak_bytes: int | None = None
    """Largest resident memory of the process; None where the system does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceRecord:
    """A whole record."""

    version: str
    """samebits version that began it."""
    asked: Mapping[str, Any]
    """Every option that reaches what is tried, by name."""
    target: str
    machine: MachineFacts
    prompts: tuple[AuditPrompt, ...]
    trials: tuple[Trial, ...] = ()

    @property
    def digest(self) -> str:
        """Digest everything."""
        return tagged_digest(FORMAT, canonical_bytes(self.value()))

    def value(self) -> dict[str, Any]:
        """Give the record as plain values, without what a record cannot carry."""
        value: dict[str, Any] = mend(plain_value(self))
        return value


def write_advice(record: AdviceRecord) -> str:
    """Spell a record, one line."""
    whole = {"format": FORMAT, "digest": record.digest, "advice": record.value()}
    return canonical_bytes(whole).decode() + "\n"


def read_advice(data: bytes, name: str) -> AdviceRecord:
    """Read what `write_advice` spelled.

    Raises:
        RecordCorrupt: It is something else, damaged, or of another version.
    """
    if len(data) > LARGEST_BYTES:
        raise RecordCorrupt(expected=f"at most {LARGEST_BYTES} bytes in {name}", found="more")
    try:
        value = parse_json(data.decode())
    except UnicodeDecodeError as error:
        raise RecordCorrupt(expected=f"UTF-8 in {name}", found=str(error)) from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        found = value.get("format") if isinstance(value, dict) else type(value).__name__
        raise RecordCorrupt(expected=f"{FORMAT} in {name}", found=repr(found)[:80])
    if set(value) != {"format", "digest", "advice"}:
        raise RecordCorrupt(
            expected=f"format, digest and advice in {name}", found=", ".join(sorted(value))
        )
    record: AdviceRecord = read_typed(AdviceRecord, value["advice"], name)
    if record.digest != value["digest"]:
        raise RecordCorrupt(
            expected=f"{name} as it was written",
            found="another digest",
            remedy="It was changed or damaged; make it again.",
        )
    return record
