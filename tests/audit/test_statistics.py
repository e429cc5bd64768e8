"""Numbers of the audit, against brute force and against scipy."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from samebits.audit.statistics import (
    Classes,
    clopper_pearson,
    exchangeability_p,
    kaplan_meier,
    mcnemar_p,
    reject_false_discoveries,
    separation_p,
    smallest_p,
    smallest_visible_rate,
    two_level_errors,
)

counts = st.tuples(st.integers(0, 2), st.integers(0, 2))
some_blocks = st.lists(st.lists(counts, min_size=1, max_size=3), min_size=1, max_size=3)


def count_pairs(base: list[int], treated: list[int]) -> int:
    across = sum(one != other for one, other in product(base, treated))
    return 2 * across + sum(one != other for one, other in combinations(treated, 2))


def relabel_all(block: Classes) -> list[int]:
    groups = [number for number, (x, y) in enumerate(block) for _ in range(x + y)]
    places = range(len(groups))
    return [
        count_pairs([groups[i] for i in chosen], [groups[i] for i in places if i not in chosen])
        for chosen in combinations(places, sum(x for x, _ in block))
    ]


def brute_force(blocks: list[Classes]) -> tuple[float, float]:
    seen = sum(
        count_pairs(
            [i for i, (x, _) in enumerate(block) for _ in range(x)],
            [i for i, (_, y) in enumerate(block) for _ in range(y)],
        )
        for block in blocks
    )
    sums = [sum(values) for values in product(*map(relabel_all, blocks))]
    at_least = sum(value >= seen for value in sums) / len(sums)
    return at_least, sums.count(max(sums)) / len(sums)


@given(some_blocks)
@settings(max_examples=150, deadline=None)
def test_the_p_value_counts_every_relabelling(blocks: list[list[tuple[int, int]]]) -> None:
    p, least = brute_force(list(blocks))
    assert exchangeability_p(blocks) == pytest.approx(p, rel=1e-12)
    assert smallest_p(blocks) == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize(
    ("block", "p"),
    [
        ([(2, 0), (0, 2)], 1 / 3),
        ([(3, 0), (0, 3)], 1 / 10),
        ([(4, 0), (0, 4)], 1 / 35),
        ([(1, 0), (0, 2)], 1 / 3),
        ([(2, 0), (0, 1)], 1 / 3),
        ([(2, 0), (0, 1), (0, 1)], 1 / 6),
        ([(2, 1), (0, 1)], 1 / 2),
        ([(2, 2)], 1.0),
        ([(2, 0)], 1.0),
        ([(1, 1), (1, 1)], 1.0),
    ],
)
def test_one_block_gives_the_p_value_worked_out_by_hand(block: Classes, p: float) -> None:
    assert exchangeability_p([block]) == pytest.approx(p, rel=1e-14)


def test_a_single_change_of_state_in_the_course_of_calls_is_no_evidence() -> None:
    # Order of calls: base, treated, treated, base. The state changes after 1, 2 or 3 of them.
    for block in ([(1, 0), (1, 2)], [(1, 1), (1, 1)], [(1, 2), (1, 0)]):
        assert exchangeability_p([block] * 20) == 1.0


def test_prompts_multiply_and_equal_blocks_add_nothing() -> None:
    parted, equal = [(2, 0), (0, 2)], [(2, 2)]
    assert exchangeability_p([parted] * 3 + [equal] * 50) == pytest.approx(1 / 27, rel=1e-14)
    assert exchangeability_p([]) == 1.0


def test_hundreds_of_large_blocks_are_convolved_and_no_p_value_is_zero() -> None:
    mixed = [[(3, 1), (1, 2), (0, 1)], [(2, 0), (1, 3), (1, 1)], [(12, 0), (0, 12)]]
    assert 0 < exchangeability_p(mixed * 100) < 1e-300
    assert exchangeability_p([[(4, 0), (0, 4)]] * 1000) > 0


def test_p_values_are_uniform_at_worst_under_the_null() -> None:
    draw = np.random.default_rng(1)
    p_values = []
    for _ in range(2000):
        blocks = []
        for _ in range(6):
            base, treated = draw.integers(0, 3, 2), draw.integers(0, 3, 2)
            blocks.append([(int((base == k).sum()), int((treated == k).sum())) for k in range(3)])
        p_values.append(exchangeability_p(blocks))
    for level in (0.01, 0.05, 0.2, 0.5):
        num = sum(p <= level for p in p_values)
        assert num <= stats.binom.isf(1e-6, len(p_values), level)


@pytest.mark.parametrize(
    ("num", "of"), [(0, 1), (0, 16), (3, 16), (16, 16), (5, 1000), (999, 1000)]
)
def test_intervals_are_those_of_scipy(num: int, of: int) -> None:
    expected = stats.binomtest(num, of).proportion_ci(method="exact")
    assert clopper_pearson(num, of) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_nothing_counted_says_nothing() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)
    assert smallest_visible_rate(0) == 1.0


def test_the_smallest_visible_rate_is_missed_once_in_twenty() -> None:
    for of in (1, 11, 16, 100):
        assert (1 - smallest_visible_rate(of)) ** of == pytest.approx(0.05)
    assert smallest_visible_rate(1000) == pytest.approx(3 / 1000, rel=0.01)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.floats(0.001, 0.5))
def test_discoveries_are_those_of_scipy(p_values: list[float], level: float) -> None:
    adjusted = stats.false_discovery_control(p_values)
    rejected = reject_false_discoveries(p_values, level)
    for value, is_rejected in zip(adjusted, rejected, strict=True):
        if abs(value - level) > 1e-12:
            assert is_rejected == (value <= level)


def test_no_hypotheses_are_no_discoveries() -> None:
    assert reject_false_discoveries([], 0.05) == []


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemar_is_the_binomial_test(b: int, c: int) -> None:
    expected = stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert mcnemar_p(b, c) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("num", "of"), [(1, 16), (3, 16), (4, 8)])
def test_a_separation_is_the_extreme_of_the_rank_test(num: int, of: int) -> None:
    low, high = list(range(num)), list(range(num, of))
    expected = stats.mannwhitneyu(low, high, method="exact").pvalue
    assert separation_p(num, of) == pytest.approx(expected)


def test_the_two_errors_add_up_to_the_clustered_one() -> None:
    scores = [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    errors = two_level_errors(scores)
    means = [sum(row) / 3 for row in scores]
    clustered = float(np.var(means, ddof=1)) / 4
    assert errors.mean == pytest.approx(6 / 12)
    assert errors.sampling is not None and errors.rerun is not None
    assert errors.sampling**2 + errors.rerun**2 == pytest.approx(clustered)
    assert errors.rerun**2 == pytest.approx(float(np.mean(np.var(scores, axis=1, ddof=1))) / 12)


def test_repeating_a_steady_prompt_adds_no_certainty() -> None:
    once = two_level_errors([[1.0], [0.0], [1.0], [1.0]])
    often = two_level_errors([[1.0] * 9, [0.0] * 9, [1.0] * 9, [1.0] * 9])
    assert once.sampling == often.sampling
    assert (once.rerun, often.rerun) == (None, 0.0)


def test_ragged_repeats_and_single_prompts_have_the_errors_that_can_be_had() -> None:
    ragged = two_level_errors([[1.0, 0.0], [1.0], [0.0, 0.0, 0.0]])
    assert ragged.mean == pytest.approx(0.5)
    assert ragged.rerun is not None and ragged.rerun > 0
    assert two_level_errors([[1.0, 0.0]]).sampling is None


def test_the_rerun_error_is_that_of_simulated_reruns() -> None:
    draw = np.random.default_rng(2)
    chances = draw.random(50)
    means = [float((draw.random((50, 4)) < chances[:, None]).mean()) for _ in range(3000)]
    estimates = [
        two_level_errors((draw.random((50, 4)) < chances[:, None]).astype(float).tolist()).rerun
        for _ in range(200)
    ]
    assert np.mean([e for e in estimates if e is not None]) == pytest.approx(
        np.std(means), rel=0.06
    )


def test_survival_is_the_product_of_what_is_left() -> None:
    curve = kaplan_meier([2, 2, 5], [3, 9])
    assert curve.times == (0, 2, 5, 9)
    assert curve.alive == pytest.approx((1.0, 3 / 5, 3 / 5 * 1 / 2, 3 / 5 * 1 / 2))


def test_survival_without_events_stays_at_one() -> None:
    assert kaplan_meier([], [4, 4]) == ((0, 4), (1.0, 1.0))
    assert kaplan_meier([], [0, 0]) == ((0,), (1.0,))
    assert math.isclose(kaplan_meier([1], []).alive[-1], 0.0)
