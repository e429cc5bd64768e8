"""What a stable generation gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers
from torch import Tensor

from samebits.remedies.batch import Row
from samebits.remedies.bits import digest_bits
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


@dataclass(slots=True, eq=False)
class Trace:
    """What is kept of the steps of one answer."""

    steps: list[str] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)

    def add(self, logits: Tensor) -> None:
        """Read the logits (V,) of one step."""
        first, second = logits.double().topk(2).values.tolist()
        self.steps.append(digest_bits(logits))
        self.margins.append(first - second)

    def close(self, row: Row, stop_ids: frozenset[int]) -> Made:
        """Give what was made for one prompt."""
        return Made(
            token_ids=tuple(row.tokens),
            finish_reason="stop" if row.tokens[-1] in stop_ids else "length",
            steps=tuple(self.steps),
            margins=tuple(self.margins),
        )


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


def describe_machine() -> dict[str, Any]:
    """Describe what bits depend on besides the model."""
    return {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "level": torch.backends.cpu.get_cpu_capability().lower(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "onednn": torch.backends.mkldnn.enabled,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }
