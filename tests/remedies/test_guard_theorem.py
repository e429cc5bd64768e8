"""Same tokens under every condition whose drift is at most delta, if epsilon >= 2 * delta.

Logits are multiples of 1/8, so that no difference is rounded and delta is met exactly.
"""

from collections.abc import Sequence

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from samebits.remedies.guard import Escalate, Guard, LowestId, Priority, argmax, measure_drift

EIGHTHS = 8
F64 = NDArray[np.float64]
Row = list[int]


class Made:
    """An oracle whose logits are drawn from the ids alone, with many near-ties."""

    def __init__(self, seed: int, num_tokens: int) -> None:
        self.seed = seed
        self.num_tokens = num_tokens

    def decide(self, ids: Sequence[int]) -> F64:
        rng = np.random.default_rng([self.seed, *ids])
        return rng.integers(0, 6, self.num_tokens) / EIGHTHS

    def describe(self) -> str:
        return "made of the ids"


def run(guard: Guard, oracle: Made, delta: int, shift: int, condition: int) -> list[int]:
    """Generate under a condition that moves every logit by up to delta, and all by a shift."""
    rng = np.random.default_rng(condition)
    ids: list[int] = []
    for _ in range(12):
        moved = rng.integers(-delta, delta + 1, oracle.num_tokens) + shift
        ids.append(guard.decide(oracle.decide(ids) + moved / EIGHTHS, ids).token)
    return ids


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    num_tokens=st.integers(1, 9),
    delta=st.integers(0, 4),
    extra=st.integers(0, 3),
    shift=st.integers(-9, 9),
    conditions=st.lists(st.integers(0, 2**32), min_size=2, max_size=4),
)
def test_every_condition_within_delta_gives_the_same_tokens(
    seed: int, num_tokens: int, delta: int, extra: int, shift: int, conditions: list[int]
) -> None:
    oracle = Made(seed, num_tokens)
    guard = Guard(epsilon=(2 * delta + extra) / EIGHTHS, action=Escalate(oracle))
    canonical: list[int] = []
    for _ in range(12):
        canonical.append(argmax(oracle.decide(canonical)))
    for condition in conditions:
        assert run(guard, oracle, delta, shift, condition) == canonical


@given(
    canonical=st.lists(st.integers(0, 6), min_size=2, max_size=6),
    moves=st.lists(st.integers(-3, 3), min_size=6, max_size=6),
)
@example(canonical=[0, 4], moves=[2, -2, 0, 0, 0, 0])
@example(canonical=[4, 4], moves=[-3, 3, 0, 0, 0, 0])
def test_one_step_within_delta_chooses_as_the_oracle_and_never_outside(
    canonical: Row, moves: Row
) -> None:
    class One(Made):
        def decide(self, ids: Sequence[int]) -> F64:
            return np.array(canonical) / EIGHTHS

    logits = (np.array(canonical) + moves[: len(canonical)]) / EIGHTHS
    delta = measure_drift(logits, One(0, 0).decide([]))
    decision = Guard(epsilon=2 * delta, action=Escalate(One(0, 0))).decide(logits, [])
    assert decision.token == argmax(np.array(canonical, np.float64))
    assert not decision.outside


@given(
    canonical=st.lists(st.integers(0, 60), min_size=2, max_size=30),
    moves=st.lists(st.integers(-9, 9), min_size=30, max_size=30),
)
def test_no_drift_beyond_the_contenders_is_needed(canonical: Row, moves: Row) -> None:
    """Far tokens move much and lie far below: the measured drift is smaller, and still enough."""
    truth = np.array(canonical) / EIGHTHS
    logits = truth + np.array(moves[: len(truth)]) / EIGHTHS

    class Truth(Made):
        def decide(self, ids: Sequence[int]) -> F64:
            return truth

    delta = measure_drift(logits, truth)
    assert delta <= np.ptp(logits - truth) / 2
    guard = Guard(epsilon=2 * delta, action=Escalate(Truth(0, 0)))
    assert guard.decide(logits, []).token == argmax(truth)


def test_half_of_the_needed_epsilon_is_not_enough() -> None:
    """The bound is sharp: below 2 * delta two conditions differ, though neither fires."""
    truth, moved = np.array([0.0, 0.25]), np.array([0.5, -0.25])

    class Truth(Made):
        def decide(self, ids: Sequence[int]) -> F64:
            return truth

    assert measure_drift(moved, truth) == 0.5
    escalate = Escalate(Truth(0, 0))
    narrow, wide = Guard(epsilon=0.5, action=escalate), Guard(epsilon=1.0, action=escalate)
    assert narrow.decide(moved, []).token != narrow.decide(truth, []).token
    assert wide.decide(moved, []).token == wide.decide(truth, []).token == 1


def test_a_tie_break_differs_within_delta_for_every_epsilon() -> None:
    """Whatever epsilon, a gap that lies at it under one condition and above it under another."""
    for epsilon in (0.0, 0.125, 1.0, 8.0):
        canonical = np.array([0.0, epsilon])
        fired, clear = canonical, canonical + np.array([0.0, 0.125])
        for action in (LowestId(), Priority((0,))):
            guard = Guard(epsilon=epsilon, action=action)
            assert guard.decide(fired, []).token != guard.decide(clear, []).token
