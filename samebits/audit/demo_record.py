"""What the demo found, as plain values: the reports read only this.

Imports no engine and no NumPy, so that a saved record can be drawn anywhere.
"""

from dataclasses import asdict, dataclass
from typing import Any

FORMAT = "samebits/demo/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that is varied while prompts and parameters stay."""

    key: str
    label: str
    """For people."""
    base: str
    """Label of the run it is compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One arithmetic under one change."""

    change: str
    """Key of the change."""
    num_outputs: int
    """Outputs compared."""
    num_logits_differ: int
    """Outputs with other logit bits at some step up to the first token that differs."""
    first_logits: int | None
    """Earliest step, from 0, at which logits differ."""
    num_outputs_differ: int
    first_token: int | None
    """Earliest token, from 0, that differs."""
    not_tested: str | None
    """Why there was nothing to test; the counts are 0 then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """One output that a change turned into another, as evidence for a reader."""

    change: str
    prompt: str
    before: str
    after: str
    token: int
    """The first token, from 0, that differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Rates seen on this machine; no part of any digest."""

    prefill_tokens_s: float
    """Prompt tokens a second, one prompt at a time."""
    decode_tokens_s: float
    """Output tokens a second after the first, one prompt at a time."""
    batched_tokens_s: float
    """Output tokens a second in the largest batch, its prefill included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What was seen of one arithmetic."""

    arithmetic: str
    kernels: str
    """Kernel set in force before any change: native, portable or numpy."""
    level: str | None
    """Instruction-set level of native kernels."""
    cells: tuple[Cell, ...]
    """One a change, in the record's order."""
    logits_digest: str
    """Digest over the logits of every step of every prompt, one prompt at a time."""
    weights_digest: str
    flip: Flip | None
    speed: Speed


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRecord:
    """The whole demo."""

    version: str
    """samebits version."""
    model: str
    """As asked for."""
    prompts: tuple[str, ...]
    max_tokens: int
    """Tokens generated for each prompt."""
    threads: int
    """Threads in force where a change names no other."""
    changes: tuple[Change, ...]
    subjects: tuple[Subject, ...]
    wall_s: float

    def value(self) -> dict[str, Any]:
        """Give the record as plain values, ready for canonical JSON."""
        return {"format": FORMAT, **asdict(self)}
