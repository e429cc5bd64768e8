"""Repeats of the base, and what they say of a score."""

from dataclasses import replace

import pytest

from samebits.audit.axes import BASE, with_call
from samebits.audit.blocks import index_observations
from samebits.audit.observation import Answer, Observation
from samebits.audit.prompts import AuditPrompt
from samebits.audit.results import Stability
from samebits.audit.stability import measure_stability
from tests.audit.seen import batch, observe, say


def answer(text: str) -> Answer:
    return Answer(text=text)


def measure(
    seen: list[Observation], expected: dict[str, str] | None = None, pattern: str | None = None
) -> Stability:
    prompts = [
        AuditPrompt(id=name, text="", answer=value) for name, value in (expected or {}).items()
    ]
    return measure_stability(index_observations(seen), BASE.key, prompts, pattern)


def repeats(prompt: str, *texts: str) -> list[Observation]:
    return [observe(BASE, prompt, answer(text), repeat=i) for i, text in enumerate(texts)]


def test_total_agreement_is_of_tokens_and_of_answers_apart() -> None:
    seen = [
        *repeats("p0", "it is 4", "it is 4"),
        *repeats("p1", "it is 4", "4"),
        *repeats("p2", "4", "5"),
    ]
    found = measure(seen, pattern=r"\d+")
    assert (found.tar_raw.num, found.tar_raw.of) == (1, 3)
    assert found.tar_answer is not None and (found.tar_answer.num, found.tar_answer.of) == (2, 3)
    assert (found.num_prompts, found.repeats) == (3, 2)


def test_equal_scores_with_other_failing_items_are_not_called_steady() -> None:
    expected = {"p0": "1", "p1": "1"}
    seen = [*repeats("p0", "1", "0"), *repeats("p1", "0", "1")]
    found = measure(seen, expected)
    assert found.mean_score == pytest.approx(0.5)
    assert found.pass_all is not None and found.pass_all.num == 0
    assert found.rerun_se is not None and found.rerun_se > 0
    assert found.sampling_se == 0.0


def test_steady_scores_have_no_rerun_error() -> None:
    seen = [*repeats("p0", "1", "1"), *repeats("p1", "0", "0")]
    found = measure(seen, {"p0": "1", "p1": "1"})
    assert (found.mean_score, found.rerun_se) == (0.5, 0.0)
    assert found.sampling_se == pytest.approx(0.5)
    assert found.pass_all is not None and (found.pass_all.num, found.pass_all.of) == (1, 2)


def test_without_expected_answers_there_is_no_score() -> None:
    found = measure(repeats("p0", "1", "1"))
    assert (found.mean_score, found.pass_all, found.tar_answer) == (None, None, None)


def test_pairs_of_repeats_have_the_interval_of_the_prompts() -> None:
    seen = [*repeats("p0", *"aaab"), *repeats("p1", *"cccc")]
    found = measure(seen)
    assert (found.noise_pairs.num, found.noise_pairs.of) == (3, 12)
    assert found.noise_pairs.high > 0.7


def test_outputs_are_counted_over_all_conditions_that_must_match() -> None:
    sampled = with_call(BASE, temperature=1.0, seed="42")
    cold = with_call(BASE, prefix="cold")
    seen = [
        observe(condition, "p0", say(token))
        for condition, token in ((BASE, 0), (batch(8).treated, 1), (sampled, 2), (cold, 3))
    ]
    assert measure([*seen, observe(BASE, "p1", say(0))]).unique_outputs == ((1, 1), (2, 1))


def test_missing_answers_are_left_out() -> None:
    lost = replace(answer(""), error="timed out")
    seen = [*repeats("p0", "a"), observe(BASE, "p0", lost, repeat=1), observe(BASE, "p1", lost)]
    found = measure(seen)
    assert (found.num_prompts, found.repeats, found.tar_raw.of) == (1, 1, 0)
