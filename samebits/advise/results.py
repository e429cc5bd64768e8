"""What an advice says, as plain values: reports read only this.

Made from a record by weigh.py, and by nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from samebits.advise.ladder import Basis
from samebits.audit.results import Rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """Prompts whose answer was not the one they got alone, in any arrangement of a kind."""

    tokens: Rate
    bits: Rate | None
    """None: the bits of steps were not visible."""

    def of(self, need: str) -> Rate | None:
        """Give what counts for a need, tokens or bits."""
        return self.tokens if need == "tokens" else self.bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a remedy takes, on this machine in this run."""

    tokens_s: float | None
    """Output tokens a second in the largest company."""
    token_s: float | None
    """Seconds for each output token of a request that is alone, its prompt included."""
    peak_bytes: int | None
    open_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RungResult:
    """One row of the table."""

    key: str
    basis: Basis
    company: Moved | None
    """None: not tried."""
    elsewhere: Moved | None
    """Under other threads or a lower instruction set; None: not tried, or the remedy pins them."""
    is_pinned: bool
    other_answers: Rate | None
    """Prompts whose tokens, alone, are others than with no remedy, alone."""
    cost: Cost
    num_missing: int
    not_tried: str
    in_force: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A recommendation."""

    rung: str | None
    """None: no remedy that was tried will do."""
    is_shown: bool
    """Whether this run rules out a rate above the one that is asked for."""
    bound: float
    """Share of prompts, at most, with 95 % confidence, that still differ; 1 if nothing is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """Everything that a report says."""

    target: str
    need: str
    rate: float
    rows: tuple[RungResult, ...]
    here: Choice
    """For one machine and setting, in any company."""
    anywhere: Choice
    """Under other threads and instruction sets besides."""
    num_prompts: int
    prompts_needed: int
    """Clean prompts that would show the rate asked for."""
    batches: tuple[int, ...]
    max_tokens: int
    is_complete: bool
    record_digest: str
    header: Mapping[str, Any]
    """The record without its trials."""
