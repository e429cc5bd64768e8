"""Measures how far batches, padding and the cache move a model's logits from an oracle's.

Teacher-forced: every condition reads the tokens that the oracle chose, so that all compare at equal
ids however many steps in.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from samebits.errors import ConfigError, UnsupportedInput
from samebits.remedies.guard.actions import Oracle
from samebits.remedies.guard.calibration import SAFETY, Calibration, check_safety, measure_drift
from samebits.remedies.guard.candidates import Logits, argmax
from samebits.remedies.guard.oracles import check_evaluating, to_numpy
from samebits.remedies.guard.rows import check_batch, lay_out
from samebits.remedies.reader import Ids, Reader

SHARES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How prompts are read together; the prompts are each other's companions.

    Raises:
        ConfigError: No row, or less than no padding.
    """

    num_rows: int = 1
    padding: int = 0
    """Tokens to the left of the longest row; shorter ones have more."""
    kv_cache: bool = True

    def __post_init__(self) -> None:
        if self.num_rows < 1 or self.padding < 0:
            raise ConfigError(
                expected="num_rows of at least 1 and padding of at least 0",
                found=f"{self.num_rows} and {self.padding}",
            )

    def __str__(self) -> str:
        """Name the condition."""
        cache = "" if self.kv_cache else ", no cache"
        return f"batch of {self.num_rows}, padding {self.padding}{cache}"


SHAPES = (Shape(), Shape(padding=7), Shape(num_rows=4), Shape(num_rows=16, padding=3))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Course:
    """A prompt as the oracle continues it."""

    prompt: Ids
    tokens: Ids
    logits: tuple[Logits, ...]
    """One (V,) before each token."""


def calibrate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    oracle: Oracle,
    *,
    shapes: Sequence[Shape] = SHAPES,
    max_tokens: int = 24,
    safety: float = SAFETY,
    progress: Callable[[int, int], None] | None = None,
) -> Calibration:
    """Measure the drift of a model from an oracle, and derive an epsilon.

    What comes out is the largest drift that was seen, not a bound that was proven: measure with
    prompts, lengths and batches like those to come. Holds max_tokens × V logits a prompt.

    Args:
        model: A causal language model of transformers, in evaluation mode.
        prompts: Token ids. A batch larger than their number takes some twice.
        oracle: The one that the guard will escalate to.
        safety: Epsilon is 2 · delta · safety.
        progress: Told after every prompt that the oracle continued, and after every batch, how many
            of both are done, and how many there are.
    Raises:
        ConfigError: Training mode, max_tokens below 1, or safety below 1.
        UnsupportedInput: No prompts or shapes, an empty prompt, or logits that are not finite.
    """
    check_evaluating(model)
    check_batch(prompts, max_tokens)
    check_safety(safety)
    if not shapes:
        raise UnsupportedInput(expected="shapes to measure", found="none")
    total = len(prompts) + sum(-(-len(prompts) // shape.num_rows) for shape in shapes)
    tell = progress or (lambda _done, _total: None)
    courses = []
    for prompt in prompts:
        courses.append(follow(oracle, tuple(prompt), max_tokens))
        tell(len(courses), total)
    drifts: list[float] = []
    batches = [(shape, batch) for shape in shapes for batch in group(courses, shape.num_rows)]
    for done, (shape, batch) in enumerate(batches, len(prompts) + 1):
        drifts += measure(model, batch, shape)
        tell(done, total)
    return Calibration(
        delta=max(drifts),
        steps=len(drifts),
        source=f"{len(prompts)} prompts against {oracle.describe()}",
        safety=safety,
        conditions=tuple(map(str, shapes)),
        quantiles=tuple((share, float(np.quantile(drifts, share))) for share in SHARES),
    )


def follow(oracle: Oracle, prompt: Ids, max_tokens: int) -> Course:
    """Continue a prompt by the oracle alone."""
    ids, logits = list(prompt), []
    for _ in range(max_tokens):
        logits.append(oracle.decide(ids))
        ids.append(argmax(logits[-1]))
    return Course(prompt=prompt, tokens=tuple(ids[len(prompt) :]), logits=tuple(logits))


def group(courses: Sequence[Course], num_rows: int) -> Iterator[list[Course]]:
    """Put all into batches of one size; the first ones fill the last batch."""
    for start in range(0, len(courses), num_rows):
        yield [courses[at % len(courses)] for at in range(start, start + num_rows)]


def measure(model: Any, batch: Sequence[Course], shape: Shape) -> Iterator[float]:
    """Give the drift of every row and step of one batch that reads the oracle's tokens."""
    prompts = [course.prompt for course in batch]
    reader = Reader(model, lay_out(prompts, padding=shape.padding, kv_cache=shape.kv_cache))
    tokens = torch.tensor([course.tokens for course in batch], device=reader.device)
    with torch.no_grad():
        for step in range(tokens.shape[1]):
            fed = reader.read_prompt() if step == 0 else reader.feed(tokens[:, step - 1 : step])
            for row, course in zip(fed, batch, strict=True):
                yield measure_drift(to_numpy(row), course.logits[step])
