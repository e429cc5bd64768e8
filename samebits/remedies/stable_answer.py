"""What a stable generation gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from samebits.remedies.selftest import SelfTest


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What was computed for one prompt."""

    token_ids: tuple[int, ...]
    """The one that ended the answer is the last."""
    finish_reason: str
    """stop or length."""
    steps: tuple[str, ...]
    """Bits of each step: the first 16 hexadecimal digits of the SHA-256 of its raw logits."""
    margins: tuple[float, ...]
    """Of each step, the largest logit minus the second largest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StableAnswer(Made):
    """The answer to one prompt."""

    text: str | None
    """Without special tokens; None without a tokenizer."""
    num_prompt_tokens: int
    is_cached: bool = field(default=False, compare=False)
    """Whether it came from a cache of answers and was not computed by this call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StableFacts:
    """What is in force in a stable model, and what was found on the way."""

    shape: str
    rows: int
    """Of a batch; 1 if read alone."""
    buckets: tuple[int, ...]
    """Empty if read alone."""
    dtype: str
    """Of the weights."""
    precision: Mapping[str, str]
    """Part to dtype of its computation, "all" being the whole model; empty: as the weights."""
    guard: str
    """Its class; empty without one."""
    attention: str
    device: str
    machine: Mapping[str, Any]
    """Versions of torch and transformers, threads, and the level of the instruction set."""
    selftests: tuple[SelfTest, ...] = ()
    """One for each bucket used so far."""
    unusable: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Bucket to the rows that never hold a prompt, as the self-test found other bits there."""
