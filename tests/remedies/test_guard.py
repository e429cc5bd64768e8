"""The rule itself, on rows of NumPy: candidates, actions, and what each can and cannot settle."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samebits.errors import ConfigError, SamebitsError, UnsupportedInput
from samebits.remedies.guard import (
    Calibration,
    Canonical,
    Escalate,
    Guard,
    LowestId,
    Priority,
    argmax,
    candidates,
    measure_drift,
)

F32 = NDArray[np.float32]


def row(*logits: float) -> F32:
    return np.array(logits, np.float32)


class Fixed:
    """An oracle that knows one sequence."""

    def __init__(self, *logits: float) -> None:
        self.logits = row(*logits)
        self.asked: list[tuple[int, ...]] = []

    def decide(self, ids: Sequence[int]) -> F32:
        self.asked.append(tuple(ids))
        return self.logits

    def describe(self) -> str:
        return "fixed logits"


def test_all_tokens_within_epsilon_are_candidates_not_only_two() -> None:
    assert candidates(row(1.0, 2.0, 1.5, 1.75, 0.0), 0.5).tolist() == [1, 2, 3]


def test_a_token_exactly_epsilon_below_the_top_is_a_candidate() -> None:
    logits = row(1.0, 0.75, np.nextafter(np.float32(0.75), np.float32(0)))
    assert candidates(logits, 0.25).tolist() == [0, 1]


def test_a_distance_that_binary32_would_round_up_is_not_missed() -> None:
    top, below = np.float32(1.0), np.float32(-(2.0**-30))
    assert np.float32(top - below) == 1.0
    assert candidates(np.array([top, below]), 1.0).tolist() == [0]
    assert candidates(np.array([top, below]), 1.0 + 2.0**-30).tolist() == [0, 1]


def test_epsilon_zero_finds_exact_ties_and_gives_the_lowest_id() -> None:
    guard = Guard(epsilon=0)
    tied = guard.decide(row(0.0, 3.0, 1.0, 3.0), [5])
    assert (tied.token, tied.argmax, tied.candidates) == (1, 1, (1, 3))
    plain = guard.decide(row(0.0, 3.0, 1.0, np.nextafter(np.float32(3), np.float32(4))), [5])
    assert (plain.token, plain.fired) == (3, False)


def test_epsilon_zero_is_plain_argmax_on_random_rows() -> None:
    rows = np.random.default_rng(0).integers(0, 4, (50, 8)).astype(np.float16)
    for logits in rows:
        assert Guard(epsilon=0).decide(logits, []).token == int(np.argmax(logits))


def test_margins_are_the_distances_from_the_top_in_order_of_id() -> None:
    decision = Guard(epsilon=0.5).decide(row(1.5, 0.0, 2.0, 1.75), [1, 2, 3])
    assert decision.candidates == (0, 2, 3)
    assert decision.margins == (0.5, 0.0, 0.25)
    assert decision.position == 3
    assert decision.changed


def test_temperature_penalties_and_softmax_have_no_say() -> None:
    """A 16-bit log-softmax makes a tie that the logits did not have (case C3)."""
    logits = np.zeros(4096, np.float16)
    logits[2:4] = 0.5, 0.501
    exact = logits.astype(np.float64)
    logprobs = (exact - np.log(np.exp(exact).sum())).astype(np.float16)
    assert logprobs[2] == logprobs[3]
    assert argmax(logprobs) == 2
    assert argmax(logits) == 3
    assert Guard(epsilon=0).decide(logits, []).token == 3


@pytest.mark.parametrize(
    "epsilon",
    [-1e-9, float("nan"), float("inf"), True, None, "0.5", pytest.param(10**400, id="1e400")],
)
def test_an_epsilon_that_is_no_distance_is_refused(epsilon: Any) -> None:
    with pytest.raises(ConfigError, match="finite and at least 0"):
        Guard(epsilon=epsilon)


@pytest.mark.parametrize(
    "logits",
    [row(1, float("nan")), row(1, float("inf")), row(1, float("-inf")), np.zeros((2, 2)),
     np.zeros(0), np.zeros(3, np.int64)],
)  # fmt: skip
def test_rows_that_are_no_raw_logits_are_refused(logits: NDArray[Any]) -> None:
    with pytest.raises(UnsupportedInput):
        Guard(epsilon=0.1).decide(logits, [])


def test_a_priority_list_decides_by_its_order() -> None:
    guard = Guard(epsilon=0.5, action=Priority((3, 1)))
    assert guard.decide(row(0.0, 2.0, 0.0, 1.75), []).token == 3
    assert guard.decide(row(0.0, 2.0, 0.0, 1.0), []).token == 1


def test_a_priority_list_without_a_candidate_falls_back_to_the_lowest_id() -> None:
    guard = Guard(epsilon=0.5, action=Priority((3,)))
    assert guard.decide(row(0.0, 2.0, 1.75, -1.0), []).token == 1
    assert guard.describe()["action"]["else"] == "lowest-id"


def test_a_priority_list_leaves_a_clear_step_alone() -> None:
    assert Guard(epsilon=0.5, action=Priority((3,))).decide(row(9, 0, 0, 0), []).token == 0


@pytest.mark.parametrize("ids", [(), (1, 1), (-1,)])
def test_a_priority_list_that_is_none_is_refused(ids: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError):
        Priority(ids)


@pytest.mark.parametrize("ids", [(1.5,), (True,), ("7",), (3, 3.0)])
def test_a_priority_list_of_what_are_no_ids_is_refused(ids: tuple[Any, ...]) -> None:
    with pytest.raises(ConfigError, match="token ids"):
        Priority(ids)


def test_an_action_that_is_none_and_an_oracle_that_is_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="an action"):
        Guard(epsilon=0.5, action=LowestId)  # type: ignore[arg-type]  # the class, not one of it
    with pytest.raises(ConfigError, match="an action"):
        Guard(epsilon=0.5, action="escalate")  # type: ignore[arg-type]
    for oracle in (None, Fixed):
        with pytest.raises(ConfigError, match="an oracle"):
            Escalate(oracle)  # type: ignore[arg-type]


def test_a_priority_list_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(ConfigError, match="ids below 2"):
        Guard(epsilon=1, action=Priority((2,))).decide(row(0, 0), [])


def test_an_oracle_is_asked_only_where_the_guard_fires_and_sees_the_ids() -> None:
    oracle = Fixed(0.0, 5.0)
    guard = Guard(epsilon=0.5, action=Escalate(oracle))
    assert guard.decide(row(9.0, 0.0), [7, 8]).token == 0
    assert oracle.asked == []
    assert guard.decide(row(1.0, 0.9), [7, 8]).token == 1
    assert oracle.asked == [(7, 8)]


def test_an_oracle_decides_among_three_candidates() -> None:
    guard = Guard(epsilon=0.5, action=Escalate(Fixed(1.0, 1.2, 1.3, 0.0)))
    decision = guard.decide(row(1.3, 1.2, 1.1, 0.0), [])
    assert decision.candidates == (0, 1, 2)
    assert (decision.token, decision.changed, decision.outside) == (2, True, False)


def test_an_oracle_may_choose_what_was_no_candidate_and_this_shows() -> None:
    decision = Guard(epsilon=0.1, action=Escalate(Fixed(0, 0, 9))).decide(row(1, 1, 0), [])
    assert (decision.token, decision.outside) == (2, True)


def test_ties_of_an_oracle_go_to_the_lowest_id() -> None:
    decision = Guard(epsilon=1, action=Escalate(Fixed(0, 2, 2))).decide(row(0, 0, 0.5), [])
    assert decision.token == 1


def test_an_oracle_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(UnsupportedInput, match="2 logits from the oracle"):
        Guard(epsilon=1, action=Escalate(Fixed(0, 1, 2))).decide(row(0, 0), [])


def test_an_oracle_that_overflows_is_refused() -> None:
    with pytest.raises(UnsupportedInput, match="finite"):
        Guard(epsilon=1, action=Escalate(Fixed(0, float("nan")))).decide(row(0, 0), [])


def test_keys_and_values_of_an_oracle_reach_the_decision() -> None:
    class Repairing(Fixed):
        def recompute(self, ids: Sequence[int]) -> Canonical:
            return Canonical(self.decide(ids), (("keys", "values"),))

    decision = Guard(epsilon=1, action=Escalate(Repairing(0, 1))).decide(row(0, 0), [4])
    assert decision.keys_values == (("keys", "values"),)
    assert "keys_values" not in decision.value()


def test_an_exact_tie_that_two_paths_break_differently_is_settled_by_the_lowest_id() -> None:
    """Equal bits, other rule: what a tie-break is for."""
    logits = row(1.0, 4.0, 4.0)
    first, last = int(logits.argmax()), len(logits) - 1 - int(logits[::-1].argmax())
    assert first != last
    assert Guard(epsilon=0).decide(logits, []).token == first


# Case E4: the cold run has an exact tie, the warm run a gap of 0.125 the other way.
COLD, WARM, TRUTH = row(5.0, 5.0, 1.0), row(4.9375, 5.0625, 1.0), (4.99, 5.01, 1.0)


def test_e4_a_tie_break_does_not_help_where_the_values_moved() -> None:
    for action in (LowestId(), Priority((0, 1))):
        guard = Guard(epsilon=0.0625, action=action)
        cold, warm = guard.decide(COLD, []), guard.decide(WARM, [])
        assert (cold.fired, warm.fired) == (True, False)
        assert (cold.token, warm.token) == (0, 1)


def test_e4_escalation_gives_cold_and_warm_the_same_token() -> None:
    guard = Guard(epsilon=0.125, action=Escalate(Fixed(*TRUTH)))
    cold, warm = guard.decide(COLD, []), guard.decide(WARM, [])
    assert cold.fired
    assert cold.token == warm.token == 1
    assert cold.changed


def test_a_flip_at_the_boundary_is_made_by_a_tie_break_and_not_by_escalation() -> None:
    """Plain argmax agrees under both conditions; the lowest id makes them differ."""
    one, other = row(4.0, 5.0), row(4.0, np.nextafter(np.float32(5), np.float32(6)))
    assert argmax(one) == argmax(other) == 1
    for action in (LowestId(), Priority((0,))):
        guard = Guard(epsilon=1.0, action=action)
        assert guard.decide(one, []).token == 0
        assert guard.decide(other, []).token == 1
    guard = Guard(epsilon=1.0, action=Escalate(Fixed(4.0, 5.0)))
    assert guard.decide(one, []).token == guard.decide(other, []).token == 1


def test_a_guard_says_where_its_epsilon_comes_from() -> None:
    assert Guard(epsilon=0.1).describe()["origin"] == "given"
    measured = Calibration(delta=0.25, steps=40, source="alone against batches", safety=1.5)
    guard = Guard.calibrated(measured, LowestId())
    assert guard.epsilon == 0.75
    assert guard.origin == (
        "2 × 0.25 × 1.5, the largest drift seen in 40 steps (alone against batches);"
        " measured, not proven"
    )
    assert guard.describe()["calibration"]["steps"] == 40


def test_an_epsilon_other_than_the_calibrated_is_refused() -> None:
    with pytest.raises(ConfigError, match="the calibrated epsilon"):
        Guard(epsilon=0.4, calibration=Calibration(delta=0.2, steps=1, source="x"))


@pytest.mark.parametrize(
    "wrong",
    [{"delta": -1.0}, {"delta": float("nan")}, {"steps": 0}, {"safety": 0.5},
     {"safety": float("inf")}],
)  # fmt: skip
def test_a_calibration_that_measured_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(SamebitsError):
        replace(Calibration(delta=0.1, steps=1, source="x"), **wrong)


def test_a_common_shift_is_no_drift() -> None:
    assert measure_drift(row(1, 2, 3), row(11, 12, 13)) == 0
    assert measure_drift(row(1, 2, 3.5), row(1, 2.25, 3)) == 0.375


def test_drift_of_tokens_that_cannot_become_the_top_does_not_count() -> None:
    truth = np.arange(40) / 4
    moved = truth.copy()
    moved[[0, 39]] += 5, 0.25
    assert measure_drift(moved, truth) == 0.125
    moved[19] -= 1
    assert measure_drift(moved, truth) == 0.625


def test_drift_of_the_sixteen_greatest_counts_though_they_are_no_rivals() -> None:
    truth = np.arange(40) * 4.0
    for place, drift in ((24, 0.5), (23, 0.0)):
        moved = truth.copy()
        moved[place] += 1
        assert measure_drift(moved, truth) == drift


def test_drift_of_two_vocabularies_is_refused() -> None:
    with pytest.raises(UnsupportedInput, match="one vocabulary"):
        measure_drift(row(1, 2), row(1, 2, 3))
