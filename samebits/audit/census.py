"""The near-tie census: how close the two best tokens are, and how far rounding moves them.

From both follows how many flips are to be expected. Normative: docs/audit.md, "Near ties".
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.audit.blocks import Index, present
from samebits.audit.evidence import Evidence, rate
from samebits.audit.observation import Answer
from samebits.audit.pairs import compare_answers, finest, spell_answer
from samebits.audit.results import Census, Outcome, Rate

EDGES = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Nats."""
Nats = NDArray[np.float64]


class Drift(NamedTuple):
    """How one axis moved the margins, and how often tokens parted under it."""

    axis: str
    changes: Nats
    """Signed change of the margin of the base's best token, at equal contexts."""
    observed: Rate


NO_DRIFT = Drift("", np.zeros(0), rate(0, 0))


def take_census(index: Index, base: str, drift: Drift) -> Census | None:
    """Hold the margins of the base's steps against the drift; None if no margins were reported.

    Args:
        base: Key of the base condition; the first answer of each prompt counts.
    """
    answers = [answer for answer in first_answers(index, base) if answer.margins]
    if not answers:
        return None
    margins = np.array([m for answer in answers for m in answer.margins or ()], dtype=float)
    margins = margins[~np.isnan(margins)]
    sizes = np.abs(drift.changes)
    p95 = float(np.quantile(sizes, 0.95)) if len(sizes) else 0.0
    places = np.searchsorted(EDGES, margins, side="right") - 1
    counts = np.bincount(np.maximum(places, 0), minlength=len(EDGES))
    return Census(
        num_steps=len(margins),
        edges=EDGES,
        counts=tuple(map(int, counts)),
        num_exact_ties=int(np.count_nonzero(margins == 0)),
        ties_to_lowest=count_lowest(answers),
        drift_median=float(np.median(sizes)) if len(sizes) else 0.0,
        drift_p95=p95,
        drift_axis=drift.axis,
        share_within=float(np.mean(margins <= p95)),
        expected_flips=1000 * share_overtaken(margins, drift.changes),
        observed_flips=drift.observed,
    )


def first_answers(index: Index, condition: str) -> Iterator[Answer]:
    """Give the first answer of each prompt: repeats of a prompt are no new steps."""
    for rounds in index.get(condition, {}).values():
        found = present(one for seen in rounds.values() for one in seen)
        if found:
            yield found[0]


def count_lowest(answers: Sequence[Answer]) -> int | None:
    """Count the exact ties that went to the lower id; None if ids are not known."""
    ties = [
        (token, second)
        for tops in list_tops(answers)
        for token, second, margin in tops
        if margin == 0
    ]
    num = 0
    for token, second in ties:
        if not isinstance(token, int) or not isinstance(second, int):
            return None
        num += token < second
    return num


def share_overtaken(margins: Nats, changes: Nats) -> float:
    """Give the share of all (step, change) in which the change overtakes the margin.

    That is the probability of a flip, were margin and change independent.
    """
    if not len(changes):
        return 0.0
    overtaken = np.searchsorted(np.sort(changes), -margins, side="left")
    return float(np.mean(overtaken)) / len(changes)


def measure_drift(axis: str, evidence: Iterable[Evidence]) -> Drift:
    """Collect the changes of one axis: one pair of answers for each contrast and prompt."""
    changes: list[float] = []
    num_parted = at_risk = 0
    for item in evidence:
        for one, other in list_pairs(item):
            pair = compare_answers(one, other)
            if pair is None or pair.num_equal is None:
                continue
            changes += filter(math.isfinite, list_changes(one, other, pair.num_equal))
            num_parted += pair.tokens_differ
            at_risk += pair.num_equal + pair.tokens_differ
    return Drift(axis, np.array(changes), rate(num_parted, at_risk))


def list_pairs(evidence: Evidence) -> Iterator[tuple[Answer, Answer]]:
    """Give the first base and the first treated answer of each prompt."""
    seen: set[str] = set()
    for block, _ in evidence.splits[Outcome.TOKENS]:
        if block.base and block.treated and block.prompt not in seen:
            seen.add(block.prompt)
            yield block.base[0], block.treated[0]


def list_changes(one: Answer, other: Answer, num_equal: int) -> Iterator[float]:
    """Give the change of the margin at each step whose two best tokens are the same two.

    Where the second took over, at the first token that differs, the margin has changed its sign.
    """
    ours, theirs = list_tops([one, other])
    for (top, second, margin), (new_top, new_second, new) in zip(
        ours[: num_equal + 1], theirs[: num_equal + 1], strict=False
    ):
        if top == new_top and (second == new_second or None in (second, new_second)):
            yield new - margin
        elif (top, second) == (new_second, new_top):
            yield -new - margin


Top = tuple[object, object, float]
"""Best token, second, and margin in nats."""


def list_tops(answers: Sequence[Answer]) -> list[list[Top]]:
    """Give the two best tokens of each step."""
    name = finest(answers)
    return [
        [
            (token, second, margin)
            for token, second, margin in zip(
                spell_answer(answer, name),
                answer.seconds or (None,) * len(answer.margins or ()),
                answer.margins or (),
                strict=False,
            )
        ]
        for answer in answers
    ]


def can_drift(evidence: Evidence) -> bool:
    """Answer whether a contrast asks one prompt, greedily: whether margins have one meaning."""
    calls = (evidence.contrast.base.call, evidence.contrast.treated.call)
    return not evidence.is_repeat and all(
        call.temperature == 0 and call.clock is None and not call.scoring for call in calls
    )
