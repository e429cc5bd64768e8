"""From a record to an analysis: verdicts of axes and of the whole, exit codes, notes."""

from dataclasses import replace
from typing import Any

import pytest

from samebits.audit.analyse import analyse
from samebits.audit.axes import AXES, BASE, Contrast
from samebits.audit.condition import Condition
from samebits.audit.notes import Note, Reason
from samebits.audit.observation import Answer
from samebits.audit.planned import note_of
from samebits.audit.record import NotTested, Why
from samebits.audit.results import Analysis, AxisResult, Verdict
from samebits.errors import ConfigError, RecordCorrupt
from tests.audit.seen import FACTS, PROMPTS, REPEAT, Give, audit, batch, make_record, say

BATCHES = (REPEAT, batch(2), batch(8))


def steady(_condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
    return say(prompt)


def contrasts_of(*keys: str) -> list[Contrast]:
    return [c for axis in AXES if axis.key in keys for c in axis.contrasts(FACTS, BASE)]


def run(give: Give, *keys: str, need: str = "bits", **changes: Any) -> Analysis:
    keys = keys or ("repeat", "batch")
    return analyse(make_record(audit(contrasts_of(*keys), give), axes=keys, **changes), need=need)


def axis(analysis: Analysis, key: str) -> AxisResult:
    return next(axis for axis in analysis.axes if axis.key == key)


def from_batch(start: int, *, tokens: bool = True, prompts: int = 16) -> Give:
    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        is_moved = condition.call.batch >= start and prompt >= 16 - prompts
        return say(prompt + 100 * (is_moved and tokens), bits=int(is_moved))

    return give


def test_identical_data_is_stable() -> None:
    found = run(steady)
    assert (found.verdict, found.exit_code) == (Verdict.NO_EFFECT, 0)
    assert found.heat["batch"] == dict.fromkeys(PROMPTS, "same")
    assert (found.is_complete, found.ended, found.own_s, found.target_s) == (
        True,
        "complete",
        1.0,
        2.0,
    )
    assert found.stability.unique_outputs == ((1, 16),)
    assert found.survival == () and found.census is None


def test_the_analysis_is_a_function_of_the_record() -> None:
    record = make_record(audit(BATCHES, from_batch(8)))
    assert analyse(record) == analyse(record)


def test_the_threshold_lies_between_the_last_clear_level_and_the_first_found() -> None:
    found = run(from_batch(8))
    assert axis(found, "batch").threshold == ("2", "8")
    assert (found.verdict, found.exit_code) == (Verdict.CHANGES_TOKENS, 1)
    assert axis(run(from_batch(2)), "batch").threshold == ("1", "2")
    assert axis(run(steady), "batch").threshold is None


def test_levels_asked_later_narrow_the_threshold_down() -> None:
    seen = audit((*BATCHES, batch(4), batch(6)), from_batch(5))
    record = make_record(seen, notes=[note_of(batch(4)), note_of(batch(6))])
    assert axis(analyse(record), "batch").threshold == ("4", "6")


def test_bits_alone_decide_by_what_is_needed() -> None:
    give = from_batch(8, tokens=False)
    assert run(give).exit_code == 1
    found = run(give, need="tokens")
    assert (found.verdict, found.exit_code) == (Verdict.MOVES_BITS, 0)
    assert set(found.heat["batch"].values()) == {"bits"}


def test_an_effect_on_long_prompts_names_their_length() -> None:
    (two, eight) = axis(run(from_batch(8, prompts=4)), "batch").levels
    assert (two.only_if, eight.only_if) == ("", "prompts of 13 characters or more")
    assert eight.affected == PROMPTS[12:]


def test_repeats_that_differ_are_explained_by_nothing() -> None:
    calls = iter(range(10**6))

    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        return say(next(calls) if prompt < 2 else prompt + 100 * (condition.call.batch == 8))

    found = run(give)
    assert (found.verdict, found.exit_code) == (Verdict.NOT_EXPLAINED, 1)
    assert axis(found, "batch").verdict is Verdict.CHANGES_TOKENS
    assert [curve.axis for curve in found.survival] == ["repeat", "batch"]


@pytest.mark.parametrize("is_token", [True, False])
def test_one_stray_answer_under_any_condition_is_no_stability(is_token: bool) -> None:
    def give(condition: Condition, prompt: int, _round: int, repeat: int) -> Answer:
        is_stray = condition.call.batch == 8 and prompt == 3 and repeat == 1
        return say(prompt + 100 * (is_stray and is_token), bits=int(is_stray))

    found = run(give)
    assert (found.verdict, found.exit_code) == (Verdict.NOT_EXPLAINED, 1)
    assert axis(found, "repeat").verdict is axis(found, "batch").verdict is Verdict.NO_EFFECT
    assert run(give, need="tokens").exit_code == int(is_token)


def test_targets_without_bits_are_never_stable_in_bits() -> None:
    give = lambda _c, prompt, _n, _r: say(prompt, bits=None)  # noqa: E731
    found = run(give)
    assert (found.verdict, found.exit_code) == (Verdict.NO_EFFECT, 3)
    assert Note.BITS_NOT_VISIBLE in axis(found, "batch").notes
    assert run(give, need="tokens").exit_code == 0


def test_one_contrast_without_bits_is_judged_by_tokens() -> None:
    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        return say(prompt, bits=None if condition.call.logprobs == 0 else 0)

    assert run(give, "repeat", "logprobs").exit_code == 0


def test_too_few_prompts_cannot_tell() -> None:
    seen = [one for one in audit(BATCHES, steady) if one.prompt in PROMPTS[:5]]
    found = analyse(make_record(seen))
    assert (found.verdict, found.exit_code) == (Verdict.CANNOT_TELL, 3)
    assert analyse(make_record(seen, asked={"detect": 0.5})).exit_code == 0


def test_what_was_refused_is_not_tested_and_never_clear() -> None:
    refused = [
        NotTested(axis="padding", level="1", reason="an endpoint has no field for padding"),
        NotTested(axis="padding", level="16", reason="an endpoint has no field for padding"),
        NotTested(axis="compile", level="", reason="nothing to choose from"),
    ]
    seen = audit(BATCHES, steady)
    found = analyse(
        make_record(seen, axes=("repeat", "batch", "padding", "compile"), not_tested=refused)
    )
    padding, compiling = axis(found, "padding"), axis(found, "compile")
    assert (padding.verdict, padding.reason) == (Verdict.NOT_TESTED, refused[0].reason)
    assert [level.level for level in padding.levels] == ["1", "16"]
    assert (compiling.verdict, compiling.reason) == (Verdict.NOT_TESTED, "nothing to choose from")
    assert found.exit_code == 0
    assert "padding" not in found.heat


def test_an_audit_cut_short_lists_what_it_did_not_reach() -> None:
    seen = audit((REPEAT, batch(2)), steady)
    budget = analyse(make_record(seen, why=Why.BUDGET))
    assert axis(budget, "batch").levels[1].reason == Reason.NO_CALLS
    assert (budget.is_complete, budget.ended, budget.exit_code) == (False, "budget", 0)
    killed = analyse(make_record(seen, why=None))
    assert (killed.is_complete, killed.ended, killed.exit_code) == (False, "", 3)
    for why in (Why.INTERRUPTED, Why.TARGET):
        assert analyse(make_record(seen, why=why)).exit_code == 3


def test_an_empty_record_cannot_tell() -> None:
    found = analyse(make_record([], why=Why.TARGET))
    assert (found.verdict, found.exit_code) == (Verdict.CANNOT_TELL, 3)
    assert {axis.verdict for axis in found.axes} == {Verdict.NOT_TESTED}


def test_agreement_says_nothing_if_another_prompt_gives_the_same_answer() -> None:
    blind = run(steady, notes=[{"name": "positive control", "differs": False}])
    assert (blind.positive_control, blind.verdict, blind.exit_code) == (
        "same",
        Verdict.CANNOT_TELL,
        3,
    )
    assert run(steady, notes=[{"name": "positive control", "differs": True}]).exit_code == 0
    assert run(steady).positive_control == "not made"


def test_a_clock_in_the_prompt_is_named() -> None:
    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        clock = condition.call.clock
        return say(prompt + 100 * (clock == "2031-11-05T06:30:00"), prompt_text=f"it is {clock}")

    template = axis(run(give, "repeat", "template"), "template")
    assert template.verdict is Verdict.CHANGES_TOKENS
    assert template.notes == (Note.PROMPT_CLOCK,)


def test_a_fingerprint_that_stays_while_the_text_changes_is_not_trusted() -> None:
    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        return say(prompt + 100 * (condition.call.batch == 8), fingerprint="fp_1")

    found = run(give)
    assert axis(found, "batch").notes == (Note.FINGERPRINT,)
    assert axis(found, "repeat").notes == ()


def test_samples_that_differ_at_temperature_zero_are_noted() -> None:
    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        others = ("1 2 9",) if condition.call.n > 1 else ()
        return say(prompt, others=others)

    assert axis(run(give, "repeat", "n"), "n").notes == (Note.SAMPLES_DIFFER,)


@pytest.mark.parametrize(
    ("token", "verdict", "notes"),
    [
        (lambda seed, _call: {"42": 1, "43": 2, "0": 3}.get(seed), Verdict.NO_EFFECT, ()),
        (lambda _seed, call: call, Verdict.CHANGES_TOKENS, (Note.SEED_IGNORED,)),
        (
            lambda seed, call: call if seed == "0" else {"42": 1, "43": 2}.get(seed),
            Verdict.CHANGES_TOKENS,
            (Note.SEED_ZERO_DROPPED,),
        ),
        (
            lambda _seed, _call: 1,
            Verdict.NO_EFFECT,
            (Note.SEED_NO_EFFECT, Note.SEED_OMITTED_CONSTANT, Note.SEED_NULL_CONSTANT),
        ),
    ],
)
def test_the_four_cells_of_seeds_are_told_apart(token: Any, verdict: Verdict, notes: Any) -> None:
    calls = iter(range(1000, 10**6))

    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        if condition.call.temperature == 0:
            return say(prompt)
        drawn = token(condition.call.seed, next(calls))
        return say(next(calls) if drawn is None else drawn, bits=0)

    seeds = axis(run(give, "repeat", "seed"), "seed")
    assert seeds.verdict is verdict
    assert [note for note in seeds.notes if note in notes] == list(notes)
    assert len(seeds.notes) == len(notes) + (Note.SEED_ZERO_DROPPED in seeds.notes) * (
        Note.SEED_ZERO_DROPPED not in notes
    )


def test_the_drift_is_that_of_the_axis_that_changes_most_tokens() -> None:
    def give(condition: Condition, prompt: int, _round: int, _repeat: int) -> Answer:
        is_big = condition.call.batch == 8
        change = 0.5 * is_big + 0.1 * condition.call.stream
        is_flipped = is_big and prompt < 3
        answer = say(prompt + 100 * is_flipped, bits=int(10 * change))
        return replace(
            answer,
            margins=(1.0 + change, 2.0 - change, 0.3 if not is_flipped else 0.2),
            seconds=(9, 9, prompt if is_flipped else prompt + 100),
        )

    found = run(give, "repeat", "batch", "stream")
    census = found.census
    assert census is not None
    assert (census.drift_axis, census.num_steps) == ("batch", 48)
    assert census.drift_median == pytest.approx(0.5)
    assert (census.observed_flips.num, census.observed_flips.of) == (3, 48)
    assert census.expected_flips == pytest.approx(1000 * (1 / 3) * (19 / 48))


def test_missing_answers_are_told_and_are_no_differences() -> None:
    def give(condition: Condition, prompt: int, _round: int, repeat: int) -> Answer:
        is_lost = condition.call.batch == 8 and prompt == 0
        return Answer(error="timed out") if is_lost else say(prompt)

    found = run(give)
    assert found.verdict is Verdict.NO_EFFECT
    assert found.num_missing == 2
    assert found.heat["batch"][PROMPTS[0]] == "same"
    lost = run(lambda c, p, _n, _r: Answer(error="x") if c != BASE else say(p))
    assert set(lost.heat["batch"].values()) == {"missing"}
    assert axis(lost, "batch").reason == Reason.MISSING


def test_records_of_another_version_are_refused() -> None:
    with pytest.raises(RecordCorrupt, match="known axes"):
        analyse(make_record([], axes=("phase of the moon",)))


def test_another_need_is_refused() -> None:
    with pytest.raises(ConfigError, match="bits, tokens"):
        analyse(make_record([]), need="letters")


@pytest.mark.parametrize("number", [3, 10**30, -1])
def test_more_rounds_than_are_paid_for_are_refused_at_once(number: int) -> None:
    seen = audit(contrasts_of("repeat"), steady)
    with pytest.raises(RecordCorrupt, match=f"round {number}"):
        analyse(make_record([*seen, replace(seen[0], round=number)]))


@pytest.mark.parametrize("detect", ["0.25", None, True, float("nan"), 0, 1, []])
def test_a_detect_that_is_no_share_is_refused(detect: Any) -> None:
    record = make_record(audit(contrasts_of("repeat"), steady), axes=("repeat",))
    header = replace(record.header, asked={**record.header.asked, "detect": detect})
    with pytest.raises(RecordCorrupt, match="detect between 0 and 1"):
        analyse(replace(record, header=header))


@pytest.mark.parametrize("pattern", [7, ["x"], True])
def test_a_pattern_that_is_no_text_is_refused(pattern: Any) -> None:
    record = make_record([])
    header = replace(record.header, asked={"answer_pattern": pattern})
    with pytest.raises(RecordCorrupt, match="answer_pattern"):
        analyse(replace(record, header=header))
