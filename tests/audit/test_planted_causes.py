"""Causes planted in a scripted model are found and named, and what is innocent is cleared."""

import pytest

from samebits.audit.analyse import analyse
from samebits.audit.axes import AXES
from samebits.audit.results import Analysis, AxisResult, Verdict
from samebits.audit.targets.stub import Stub
from samebits.audit.targets.stub_causes import FACTORS, Cause, Script
from tests.audit.audit_journal import make_options, make_prompts, run

NAMES = {
    "instance": "restart",
    "first": "first-call",
    "stagger_ms": "stagger",
    "chunk_tokens": "chunk",
    "kv_cache": "kv-cache",
    "neighbour_seed": "neighbour-seed",
    "clock": "template",
    "pick": "ties",
}
"""Factor to its axis, where they have other names."""
CAUSES = tuple(factor for factor in FACTORS if factor not in ("noise", "session"))
SEEDS = range(8)


def audit(*causes: Cause, options: object = None, **script: object) -> Analysis:
    stub = Stub(Script(causes=causes, **script))  # type: ignore[arg-type]
    chosen = options or make_options(max_tokens=8)
    return analyse(run(stub, chosen).record(), need="bits")  # type: ignore[arg-type]


def axis_of(analysis: Analysis, key: str) -> AxisResult:
    return next(axis for axis in analysis.axes if axis.key == key)


def affected(analysis: Analysis) -> dict[str, Verdict]:
    return {a.key: a.verdict for a in analysis.axes if a.verdict is not Verdict.NO_EFFECT}


def name_of(factor: str) -> str:
    return NAMES.get(factor, factor)


def expected(factor: str) -> Verdict:
    # Scoring gives the prompt's own tokens, which nothing changes.
    return Verdict.MOVES_BITS if factor == "scoring" else Verdict.CHANGES_TOKENS


@pytest.mark.parametrize("factor", CAUSES)
def test_a_planted_cause_is_named_and_every_other_axis_cleared(factor: str) -> None:
    analysis = audit(Cause(factor=factor), seed=CAUSES.index(factor))
    assert affected(analysis) == {name_of(factor): expected(factor)}
    assert analysis.exit_code == 1
    assert analysis.verdict is expected(factor)


@pytest.mark.parametrize("seed", SEEDS)
def test_causes_are_named_whatever_the_model(seed: int) -> None:
    factor = CAUSES[(7 * seed + 5) % len(CAUSES)]
    assert affected(audit(Cause(factor=factor), seed=1000 + seed)) == {
        name_of(factor): expected(factor)
    }


def test_every_axis_but_those_of_repeats_and_seeds_has_a_cause_to_plant() -> None:
    assert {name_of(factor) for factor in CAUSES} | {"repeat", "seed"} == {a.key for a in AXES}


@pytest.mark.parametrize("seed", range(3))
def test_without_a_cause_every_axis_is_clear(seed: int) -> None:
    analysis = audit(seed=seed)
    assert affected(analysis) == {}
    assert (analysis.verdict, analysis.exit_code) == (Verdict.NO_EFFECT, 0)
    assert analysis.positive_control == "differs"


@pytest.mark.parametrize(
    "factors", [("batch", "kv_cache"), ("prefix", "stream"), ("dtype", "concurrency")]
)
def test_two_causes_at_once_are_both_named(factors: tuple[str, str]) -> None:
    analysis = audit(*(Cause(factor=factor) for factor in factors))
    assert affected(analysis) == {name_of(f): Verdict.CHANGES_TOKENS for f in factors}


def test_a_small_cause_moves_bits_and_is_not_said_to_change_tokens() -> None:
    analysis = audit(Cause(factor="attention", size=1e-5))
    assert affected(analysis) == {"attention": Verdict.MOVES_BITS}
    assert analysis.exit_code == 1


def test_bits_that_move_are_no_reason_to_fail_where_tokens_are_needed() -> None:
    stub = Stub(Script(causes=(Cause(factor="attention", size=1e-5),)))
    record = run(stub, make_options(max_tokens=8)).record()
    assert analyse(record, need="tokens").exit_code == 0


@pytest.mark.parametrize("chance", [1.0, 0.3])
def test_hidden_noise_is_not_explained_by_what_was_changed(chance: float) -> None:
    axes = ("repeat", "batch", "stream", "threads", "prefix")
    analysis = audit(
        Cause(factor="noise", chance=chance), options=make_options(axes=axes, max_tokens=8)
    )
    assert (analysis.verdict, analysis.exit_code) == (Verdict.NOT_EXPLAINED, 1)
    found = {Verdict.CHANGES_TOKENS, Verdict.MOVES_BITS}
    assert not {axis.verdict for axis in analysis.axes if axis.key != "repeat"} & found


def test_a_cause_is_named_through_noise() -> None:
    axes = ("repeat", "batch", "stream", "chunk")
    analysis = audit(
        Cause(factor="batch", size=2.0),
        Cause(factor="noise", chance=0.1),
        options=make_options(axes=axes, prompts=make_prompts(24)),
    )
    assert analysis.verdict is Verdict.NOT_EXPLAINED
    assert axis_of(analysis, "batch").verdict is Verdict.CHANGES_TOKENS
    for key in ("stream", "chunk"):
        assert axis_of(analysis, key).verdict in (Verdict.NO_EFFECT, Verdict.CANNOT_TELL)


@pytest.mark.parametrize("least", [2, 3, 5, 7, 8, 13, 16])
def test_the_load_from_which_a_cause_acts_is_found_to_the_unit(least: int) -> None:
    analysis = audit(
        Cause(factor="concurrency", at_least=least),
        options=make_options(axes=("repeat", "concurrency")),
    )
    found = axis_of(analysis, "concurrency")
    assert found.verdict is Verdict.CHANGES_TOKENS
    assert found.threshold == (str(least - 1) if least > 2 else "1", str(least))


@pytest.mark.parametrize("least", [3, 6])
def test_the_batch_from_which_a_cause_acts_is_found_to_the_unit(least: int) -> None:
    analysis = audit(
        Cause(factor="batch", at_least=least), options=make_options(axes=("repeat", "batch"))
    )
    assert axis_of(analysis, "batch").threshold == (str(least - 1), str(least))


def test_load_that_acts_only_now_and_then_is_named() -> None:
    analysis = audit(
        Cause(factor="concurrency", at_least=8, chance=0.5),
        options=make_options(axes=("repeat", "concurrency", "stream")),
    )
    assert affected(analysis) == {"concurrency": Verdict.CHANGES_TOKENS}


def test_a_cause_that_acts_on_long_prompts_only_is_named_with_their_length() -> None:
    options = make_options(axes=("repeat", "stream"), prompts=make_prompts(20), max_tokens=24)
    length = max(len((prompt.text or "").split()) for prompt in options.prompts) - 8
    analysis = audit(Cause(factor="stream", size=3.0, prompt_tokens=length), options=options)
    (level,) = axis_of(analysis, "stream").levels
    assert level.verdict is Verdict.CHANGES_TOKENS
    assert level.only_if == f"prompts of {length} tokens or more"


def test_a_first_use_that_differs_is_named_and_no_repeat_is_blamed() -> None:
    analysis = audit(
        Cause(factor="first"), options=make_options(axes=("repeat", "restart", "first-call"))
    )
    assert affected(analysis) == {"first-call": Verdict.CHANGES_TOKENS}


def test_processes_that_all_differ_are_named_as_restarts_and_nothing_else() -> None:
    analysis = audit(
        Cause(factor="session"),
        options=make_options(axes=("repeat", "batch", "threads", "dtype", "restart")),
    )
    found = affected(analysis)
    assert found.pop("restart") is Verdict.CHANGES_TOKENS
    assert found == {"threads": Verdict.CANNOT_TELL, "dtype": Verdict.CANNOT_TELL}


def test_few_prompts_cannot_tell_though_nothing_differs() -> None:
    options = make_options(axes=("repeat", "stream"), prompts=make_prompts(5))
    analysis = audit(options=options)
    assert {axis.verdict for axis in analysis.axes} == {Verdict.CANNOT_TELL}
    assert analysis.exit_code == 3


def test_a_target_without_log_probabilities_is_judged_by_its_tokens_alone() -> None:
    silent = ("text", "token_ids")
    options = make_options(axes=("repeat", "stream", "batch"))
    analysis = audit(
        Cause(factor="stream"), Cause(factor="batch", size=1e-5), options=options, reports=silent
    )
    assert affected(analysis) == {"stream": Verdict.CHANGES_TOKENS}
    assert all("bits" not in lv.comparisons for axis in analysis.axes for lv in axis.levels)
    assert any("bits" in note for note in axis_of(analysis, "batch").notes)


def test_a_constant_server_is_not_called_stable() -> None:
    analysis = audit(is_constant=True, options=make_options(axes=("repeat", "stream")))
    assert analysis.positive_control == "same"
    assert (analysis.verdict, analysis.exit_code) == (Verdict.CANNOT_TELL, 3)


SEED_AXES = ("repeat", "seed")


def test_a_seed_that_is_kept_is_clear() -> None:
    axis = axis_of(audit(options=make_options(axes=SEED_AXES)), "seed")
    assert axis.verdict is Verdict.NO_EFFECT
    assert axis.notes == ()


@pytest.mark.parametrize(
    ("fault", "verdict", "note"),
    [
        ("ignores_seed", Verdict.CHANGES_TOKENS, "ignored"),
        ("omitted_seed_is_constant", Verdict.NO_EFFECT, "an omitted seed is a constant"),
        ("zero_seed_is_omitted", Verdict.CHANGES_TOKENS, "zero"),
    ],
)
def test_a_seed_that_is_mistreated_is_told(fault: str, verdict: Verdict, note: str) -> None:
    options = make_options(axes=SEED_AXES)
    axis = axis_of(audit(options=options, **{fault: True}), "seed")
    assert axis.verdict is verdict
    assert any(note in told for told in axis.notes)
