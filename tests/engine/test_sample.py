"""Sampling counts integers: candidates, ties and draws are exact, and the request's alone."""

from collections import Counter
from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from samebits.engine import SamplingParams
from samebits.engine.sample import (
    adjust,
    best_ids,
    candidates,
    check_logits,
    choose,
    draw,
    keep_top_p,
    measure,
    pick,
)
from samebits.errors import UnsupportedInput
from samebits.numerics import reference

F32 = NDArray[np.float32]
LOG2_E = np.float32(1.4426950408889634)
LARGEST = 2**64 - 1


def row(*values: float) -> F32:
    return np.array(values, np.float32)


def weigh(logits: F32, temperature: float = 1.0) -> NDArray[np.int64]:
    return reference.softmax_weights(logits, np.float32(1.4426950408889634 / temperature))


def kept(logits: F32, **params: float) -> list[int]:
    wanted = SamplingParams(temperature=1.0, **params)  # type: ignore[arg-type]
    return [int(i) for i in candidates(logits, weigh(logits), wanted)]


def test_equal_steps_through_the_draws_count_out_the_weights_exactly() -> None:
    weights = np.array([1, 0, 2, 5, 8], np.int64)
    ids = np.flatnonzero(weights)
    counts = Counter(pick(weights, ids, (i << 64) // 16) for i in range(16))
    assert counts == {0: 1, 2: 2, 3: 5, 4: 8}


@given(st.lists(st.integers(1, 2**40), min_size=1, max_size=8), st.integers(0, LARGEST))
def test_a_pick_is_the_inverse_of_the_running_sum(weights: list[int], u: int) -> None:
    array = np.array(weights, np.int64)
    r = u * sum(weights) >> 64
    sums = np.cumsum(array).tolist()
    expected = next(i for i, total in enumerate(sums) if total > r)
    assert pick(array, np.arange(len(weights)), u) == expected


def test_the_extreme_draws_pick_the_first_and_the_last_candidate() -> None:
    weights = np.array([0, 3, 1, 0], np.int64)
    ids = np.flatnonzero(weights)
    assert (pick(weights, ids, 0), pick(weights, ids, LARGEST)) == (1, 2)


def test_greedy_takes_the_lowest_id_of_equal_logits() -> None:
    logits = row(1, 3, 2, 3, 3)
    chosen = choose(logits, SamplingParams(), reference, prompt=(0,), output=(), sample_index=0)
    assert chosen == 1
    assert best_ids(logits, 4).tolist() == [1, 3, 4, 2]


def test_minus_zero_and_zero_are_a_tie() -> None:
    assert best_ids(row(-0.0, 0.0, -1), 3).tolist() == [0, 1, 2]
    assert kept(row(-0.0, 0.0, 0.0), top_k=2) == [0, 1]


def test_top_k_breaks_ties_by_lowest_id_and_may_exceed_the_vocabulary() -> None:
    logits = row(1, 2, 2, 2, 0)
    assert kept(logits, top_k=1) == [1]
    assert kept(logits, top_k=2) == [1, 2]
    assert kept(logits, top_k=4) == [0, 1, 2, 3]
    assert kept(logits, top_k=10**9) == kept(logits, top_k=0) == [0, 1, 2, 3, 4]


def test_top_p_keeps_the_shortest_prefix_that_reaches_its_share_exactly() -> None:
    logits = row(0, 0, 0, 0)
    assert kept(logits, top_p=0.25) == [0]
    assert kept(logits, top_p=np.nextafter(0.25, 1).item()) == [0, 1]
    assert kept(logits, top_p=0.75) == [0, 1, 2]
    assert kept(logits, top_p=np.nextafter(1.0, 0).item()) == [0, 1, 2, 3]
    assert kept(logits, top_p=5e-324) == [0]
    assert kept(logits, top_p=1.0) == [0, 1, 2, 3]


@pytest.mark.parametrize("first_look", [2, 3, 64])
def test_how_far_top_p_looks_first_does_not_reach_its_result(
    first_look: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = np.random.default_rng(0).integers(-4, 4, 3000).astype(np.float32)
    logits /= np.float32(2)
    weights, everything = weigh(logits), np.arange(3000)
    ranked = sorted(everything.tolist(), key=lambda i: (-logits[i], i))
    sums = np.cumsum([int(weights[i]) for i in ranked])
    monkeypatch.setattr("samebits.engine.sample.FIRST_LOOK", first_look)
    for p in (1e-9, 0.1, 0.5, 0.9, 0.999999):
        needed = ceil(Fraction(p) * int(sums[-1]))
        length = next(i for i, total in enumerate(sums) if total >= needed) + 1
        found = keep_top_p(logits, weights, everything, p)
        assert found.tolist() == sorted(ranked[:length])


def test_min_p_compares_with_the_largest_weight_exactly() -> None:
    logits = row(0, -np.log(2), -np.log(2) - 1e-3, -9)
    half = Fraction(int(weigh(logits)[1]), 2**40)
    assert kept(logits, min_p=float(half)) == [0, 1]
    assert kept(logits, min_p=np.nextafter(float(half), 1).item()) == [0]
    assert kept(logits, min_p=1.0) == [0]
    assert kept(logits, min_p=0.0) == [0, 1, 2, 3]


LOGITS = st.lists(st.sampled_from([-3.0, -1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=12)


@settings(deadline=None)
@given(LOGITS, st.integers(0, 13), st.floats(0.01, 1), st.floats(0, 1))
def test_candidates_are_what_the_definition_says(
    values: list[float], top_k: int, top_p: float, min_p: float
) -> None:
    logits = row(*values)
    weights = [int(w) for w in weigh(logits)]
    ranked = sorted(range(len(values)), key=lambda i: (-values[i], i))[: top_k or None]
    needed, sums = ceil(Fraction(top_p) * sum(weights[i] for i in ranked)), 0
    left: list[int] = []
    for i in ranked:
        if sums < needed:
            left.append(i)
            sums += weights[i]
    floor = ceil(Fraction(min_p) * max(weights[i] for i in left))
    expected = sorted(i for i in left if weights[i] >= floor)
    assert kept(logits, top_k=top_k, top_p=top_p, min_p=min_p) == expected


@pytest.mark.parametrize("u", [0, 2**63, LARGEST])
def test_a_tiny_temperature_takes_the_best_and_a_huge_one_any(u: int) -> None:
    logits = row(1, 1.001, -5, 1.001)
    tiny = draw(logits, SamplingParams(temperature=1e-6), u, reference)
    assert tiny in (1, 3)
    huge = draw(logits, SamplingParams(temperature=1e30), u, reference)
    assert huge == u * 4 >> 64
    least = draw(logits, SamplingParams(temperature=1e-30), u, reference)
    assert least in (1, 3)


def test_huge_logits_of_any_spread_draw_the_best() -> None:
    logits = row(3e38, -3e38, 1e30, 0)
    for u in (0, LARGEST):
        assert draw(logits, SamplingParams(temperature=1.0), u, reference) == 0
        assert draw(logits, SamplingParams(temperature=1e-6), u, reference) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_logit_that_is_no_number_is_an_error_and_never_a_token(bad: float) -> None:
    with pytest.raises(UnsupportedInput, match="finite logits"):
        check_logits(row(0, bad, 1))


def test_penalties_follow_their_formulas_in_their_order() -> None:
    logits = row(2, -2, 1, 1, 0.5)
    params = SamplingParams(
        logit_bias={0: 1, 4: -1},
        repetition_penalty=2.0,
        presence_penalty=0.25,
        frequency_penalty=0.5,
    )
    z = adjust(logits, params, prompt=(0, 1), output=(2, 2, 4))
    # bias first: 3, -2, 1, 1, -0.5; then repetition: 1.5, -4, 0.5, 1, -1; then the output's.
    assert z.tolist() == [1.5, -4, 0.5 - 0.25 - 1, 1, -1 - 0.25 - 0.5]
    assert logits.tolist() == [2, -2, 1, 1, 0.5]


def test_presence_and_frequency_spare_the_prompt() -> None:
    params = SamplingParams(presence_penalty=1.0, frequency_penalty=1.0)
    assert adjust(row(1, 1), params, prompt=(0, 0), output=()).tolist() == [1, 1]
    assert adjust(row(1, 1), params, prompt=(0, 0), output=(1,)).tolist() == [1, -1]


def test_log_probabilities_are_of_the_raw_logits_best_first() -> None:
    logits = row(0, 2, 2, -1)
    found = measure(logits, 3, 2, reference)
    exact = logits.astype(np.float64) - np.log(np.exp(logits.astype(np.float64)).sum())
    assert [token for token, _ in found.top] == [1, 2]
    assert abs(found.logprob - exact[3]) < 1e-5
    assert found.token_id == 3
    assert measure(logits, 3, 0, reference).top == ()
    assert len(measure(logits, 3, 20, reference).top) == 4


def test_a_draw_depends_on_seed_index_and_position_and_not_on_the_split_of_the_text() -> None:
    logits = np.zeros(1000, np.float32)

    def chosen(seed: int, index: int, prompt: tuple[int, ...], output: tuple[int, ...]) -> int:
        params = SamplingParams(temperature=1.0, seed=seed)
        return choose(logits, params, reference, prompt=prompt, output=output, sample_index=index)

    first = chosen(7, 0, (1, 2), (3,))
    assert first == chosen(7, 0, (1, 2, 3), ())
    others = {chosen(8, 0, (1, 2), (3,)), chosen(7, 1, (1, 2), (3,)), chosen(7, 0, (1, 2), ())}
    assert len(others | {first}) == 4
