"""What a tally counts, keeps and says."""

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from samebits.remedies.guard import Decision, Escalate, Guard, Tally

CLEAR, NEAR = np.array([9.0, 0.0, 1.0]), np.array([0.0, 1.75, 2.0])


class Truth:
    def decide(self, ids: Sequence[int]) -> NDArray[np.float64]:
        return np.array([0.0, 2.0, 1.75])

    def describe(self) -> str:
        return "fixed logits"


GUARD = Guard(epsilon=0.5, action=Escalate(Truth()))


def fill(tally: Tally) -> None:
    for row, logits in ((0, CLEAR), (1, NEAR), (1, CLEAR)):
        tally.add(GUARD.decide(logits, [7, 7]), row)


def test_steps_are_counted_for_each_row_and_for_all() -> None:
    tally = Tally(0.5)
    fill(tally)
    assert (tally.counts().steps, tally.counts().fired, tally.counts().changed) == (3, 1, 1)
    assert (tally.counts(0).fired, tally.counts(1).fired, tally.counts(2).steps) == (0, 1, 0)


def test_what_a_fired_step_decided_is_kept() -> None:
    tally = Tally(0.5)
    fill(tally)
    assert tally.decisions(1) == [
        Decision(position=2, token=1, argmax=2, candidates=(1, 2), margins=(0.25, 0.0), drift=0.25)
    ]
    assert tally.decisions(0) == []


def test_a_tally_is_plain_values() -> None:
    tally = Tally(0.5)
    fill(tally)
    value = json.loads(json.dumps(tally.value()))
    assert value["rows"]["1"]["fired"] == 1
    assert value["fired"][0] == {
        "row": 1, "position": 2, "token": 1, "argmax": 2, "candidates": [1, 2],
        "margins": [0.25, 0.0], "drift": 0.25,
    }  # fmt: skip


def test_the_summary_says_that_epsilon_held() -> None:
    tally = Tally(0.5)
    fill(tally)
    assert tally.summary() == (
        "1 of 3 steps had tokens within 0.5 of the top; 1 took another than plain greedy search."
        " The oracle's logits were up to 0.25 away, at most half of epsilon."
    )


def test_the_summary_says_that_epsilon_was_too_small() -> None:
    guard = Guard(epsilon=0.3, action=Escalate(Truth()))
    tally = Tally(0.3)
    tally.add(guard.decide(NEAR, []))
    assert tally.summary().endswith("steps that did not fire may differ; widen it.")


def test_a_guard_that_asked_nobody_says_nothing_of_drift() -> None:
    tally = Tally(0.0)
    tally.add(Guard(epsilon=0).decide(CLEAR, []))
    assert tally.summary() == (
        "0 of 1 steps had tokens within 0 of the top; 0 took another than plain greedy search."
    )


def test_all_steps_are_counted_though_the_oldest_are_no_longer_kept() -> None:
    tally = Tally(0.5, keep=2)
    for place in range(5):
        tally.add(GUARD.decide(NEAR, [0] * place))
    assert tally.counts().fired == 5
    assert [decision.position for decision in tally.decisions()] == [3, 4]


def test_threads_may_share_a_tally() -> None:
    tally = Tally(0.5)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fill, [tally] * 400))
    assert tally.counts().steps == 400 * 3
