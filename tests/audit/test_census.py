"""The near-tie census."""

import numpy as np
import pytest

from samebits.audit.axes import BASE
from samebits.audit.blocks import index_observations
from samebits.audit.census import (
    EDGES,
    NO_DRIFT,
    Drift,
    measure_drift,
    share_overtaken,
    take_census,
)
from samebits.audit.evidence import gather, rate
from samebits.audit.observation import Answer, Observation
from tests.audit.seen import batch, observe


def margins(
    *values: float, ids: tuple[int, ...] = (5, 5, 5), seconds: tuple[int, ...] = (7, 7, 7)
) -> Answer:
    return Answer(token_ids=ids, margins=values, seconds=seconds)


def drift_of(base: Answer, treated: Answer) -> Drift:
    eight = batch(8)
    seen = [observe(BASE, "p0", base), observe(eight.treated, "p0", treated)]
    return measure_drift("batch", [gather(eight, index_observations(seen))])


def count(*answers: Answer) -> list[Observation]:
    return [observe(BASE, f"p{i}", answer) for i, answer in enumerate(answers)]


def test_margins_are_counted_between_the_edges() -> None:
    census = take_census(index_observations(count(margins(0.0, 0.0015, 99.0))), "{}", NO_DRIFT)
    assert census is not None
    assert len(census.counts) == len(census.edges) == len(EDGES)
    assert census.counts[0] == census.counts[1] == census.counts[-1] == 1
    assert (census.num_steps, census.num_exact_ties, sum(census.counts)) == (3, 1, 3)


def test_repeats_of_a_prompt_are_no_new_steps() -> None:
    seen = [observe(BASE, "p0", margins(1.0, 2.0, 3.0), repeat=repeat) for repeat in range(2)]
    census = take_census(index_observations(seen), "{}", NO_DRIFT)
    assert census is not None and census.num_steps == 3


def test_exact_ties_are_told_by_whom_they_went_to() -> None:
    answer = margins(0.0, 0.0, 1.0, ids=(5, 9, 5), seconds=(7, 7, 7))
    census = take_census(index_observations(count(answer)), "{}", NO_DRIFT)
    assert census is not None and (census.num_exact_ties, census.ties_to_lowest) == (2, 1)


def test_without_ids_nobody_says_whom_ties_went_to() -> None:
    answer = Answer(tokens=("a", "b"), margins=(0.0, 1.0), seconds=("c", "d"))
    census = take_census(index_observations(count(answer)), "{}", NO_DRIFT)
    assert census is not None and census.ties_to_lowest is None


def test_no_margins_are_no_census() -> None:
    assert take_census(index_observations(count(Answer(token_ids=(1,)))), "{}", NO_DRIFT) is None


def test_the_drift_ends_with_the_first_token_that_differs() -> None:
    base = margins(1.0, 0.2, 3.0)
    treated = margins(1.1, 0.3, 9.0, ids=(5, 7, 5), seconds=(7, 5, 7))
    drift = drift_of(base, treated)
    assert drift.changes.tolist() == pytest.approx([0.1, -0.5])
    assert (drift.observed.num, drift.observed.of) == (1, 2)


def test_other_candidates_are_no_change_of_the_margin() -> None:
    drift = drift_of(margins(1.0, 1.0, 1.0), margins(1.5, 1.5, 1.5, seconds=(7, 8, 7)))
    assert drift.changes.tolist() == [0.5, 0.5]
    assert (drift.observed.num, drift.observed.of) == (0, 3)


def test_a_change_flips_a_step_only_if_it_overtakes_the_margin() -> None:
    steps, changes = np.array([0.0, 0.1, 1.0]), np.array([-0.2, -0.1, 0.3, 0.0])
    brute = np.mean([[m + c < 0 for c in changes] for m in steps])
    assert share_overtaken(steps, changes) == pytest.approx(brute)


def test_expected_flips_are_what_independent_drift_would_do() -> None:
    draw = np.random.default_rng(3)
    drift = Drift("batch", draw.normal(0, 0.3, 4000), rate(1, 10))
    values = draw.exponential(1.0, 4000)
    answer = Answer(token_ids=(1,) * 4000, margins=tuple(values), seconds=(2,) * 4000)
    census = take_census(index_observations(count(answer)), "{}", drift)
    flips = np.mean(values + draw.normal(0, 0.3, (50, 4000)) < 0)
    assert census is not None
    assert census.expected_flips == pytest.approx(1000 * flips, rel=0.05)
    assert census.drift_p95 == pytest.approx(1.96 * 0.3, rel=0.06)
    assert census.share_within == pytest.approx(np.mean(values <= census.drift_p95))


def test_numbers_that_are_not_finite_are_left_out() -> None:
    drift = drift_of(margins(float("inf"), 1.0, 1.0), margins(float("inf"), 2.0, 2.0))
    assert drift.changes.tolist() == [1.0, 1.0]
    odd = margins(float("nan"), float("inf"), 1.0)
    census = take_census(index_observations(count(odd)), "{}", drift)
    assert census is not None and census.num_steps == 2
