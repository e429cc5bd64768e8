from dataclasses import replace

import pytest

from samebits.audit.axes import AXES, BASE, with_call, with_process
from samebits.audit.budget import Budget
from samebits.audit.fit import Estimate, estimate, fit_plan, fit_time
from samebits.audit.plan import (
    AuditOptions,
    Plan,
    Visit,
    Want,
    make_plan,
    name_block,
    plan_first,
    plan_round,
)
from samebits.audit.prompts import AuditPrompt
from samebits.audit.targets.stub import Stub
from samebits.audit.targets.stub_causes import Script
from samebits.errors import ConfigError

PROMPTS = tuple(AuditPrompt(id=f"p{i}", text=f"prompt number {i}") for i in range(16))
OPTIONS = AuditOptions(prompts=PROMPTS, companions=(), nonce="n")


def plan_of(options: AuditOptions = OPTIONS, **script: object) -> Plan:
    stub = Stub(Script(**script))  # type: ignore[arg-type]
    return make_plan(options, stub, stub.facts())


def places(visits: tuple[Visit, ...]) -> list[tuple[str, str, int]]:
    return [(s.condition.key, p.id, s.repeat) for v in visits for s in v.steps for p in s.prompts]


def test_every_axis_is_planned_on_a_target_that_offers_everything() -> None:
    plan = plan_of()
    assert {contrast.axis for contrast in plan.contrasts} == {axis.key for axis in AXES}
    assert plan.not_tested == ()


def test_what_a_target_refuses_is_not_tested_with_its_reason() -> None:
    plan = plan_of(lacks=("chunk_tokens",))
    refused = [item for item in plan.not_tested if item.axis == "chunk"]
    assert [item.level for item in refused] == ["1", "7"]
    assert all("chunk_tokens" in item.reason for item in refused)
    assert "chunk" not in {contrast.axis for contrast in plan.contrasts}


def test_an_axis_without_levels_is_not_tested() -> None:
    stub = Stub(Script())
    plan = make_plan(OPTIONS, stub, replace(stub.facts(), dtypes=()))
    assert [(item.axis, item.level) for item in plan.not_tested] == [("dtype", "")]


def test_only_the_axes_asked_for_are_planned() -> None:
    plan = plan_of(replace(OPTIONS, axes=("stream", "batch")))
    assert [contrast.axis for contrast in plan.contrasts] == ["batch", "batch", "stream"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"axes": ("batch", "wind")}, "wind"),
        ({"axes": ()}, "none"),
        ({"prompts": ()}, "none"),
        ({"prompts": PROMPTS[:1] * 2}, "twice"),
        ({"detect": 0.0}, "0.0"),
        ({"max_tokens": 0}, "0"),
    ],
)
def test_impossible_options_are_refused_by_name(changes: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        replace(OPTIONS, **changes).check()  # type: ignore[arg-type]


def test_an_unknown_axis_is_answered_with_those_known() -> None:
    with pytest.raises(ConfigError, match=r"repeat, batch.*scoring"):
        replace(OPTIONS, axes=("wind",)).check()


def test_recording_asks_the_base_twice_and_nothing_else() -> None:
    visits = plan_first(plan_of(replace(OPTIONS, record_only=True)))
    asked = places(visits)
    assert len(asked) == 2 * len(PROMPTS)
    assert {key for key, _, _ in asked} == {BASE.key}


def test_no_answer_is_planned_twice() -> None:
    independent = tuple(visit for visit in plan_first(plan_of()) if not visit.leans)
    asked = places(independent)
    assert len(set(asked)) == len(asked)


def test_both_arms_of_every_contrast_are_asked_twice_for_every_prompt() -> None:
    plan = plan_of()
    asked = set(places(plan_first(plan)))
    for contrast in plan.contrasts:
        if not contrast.leans:
            for key in (contrast.base.key, contrast.treated.key):
                assert {(key, p.id, repeat) for p in PROMPTS for repeat in (0, 1)} <= asked


def test_the_second_pass_runs_backwards() -> None:
    visits = plan_first(plan_of(replace(OPTIONS, axes=("batch", "stream"))))
    asked = [(key, prompt) for key, prompt, _ in places(visits)]
    assert asked == asked[::-1]
    assert asked[0] == (BASE.key, "p0")


def test_other_processes_are_opened_once_a_round_between_the_two_passes() -> None:
    visits = plan_first(plan_of(replace(OPTIONS, axes=("threads", "restart", "batch"))))
    assert [visit.process == BASE.process for visit in visits] == [True, False, False, True]
    assert all({step.repeat for step in visit.steps} == {0, 1} for visit in visits[1:3])


def test_a_cold_prompt_is_asked_once_and_warm_ones_follow_at_once() -> None:
    visits = plan_first(plan_of(replace(OPTIONS, axes=("prefix",))))
    assert len(visits) == len(PROMPTS)
    for visit, prompt in zip(visits, PROMPTS, strict=True):
        assert [step.condition.call.prefix for step in visit.steps] == ["cold", "warm", "warm"]
        assert {step.prompts for step in visit.steps} == {(prompt,)}
        assert not visit.is_fresh


def test_the_first_call_has_a_fresh_process_for_each_of_few_prompts() -> None:
    visits = plan_first(plan_of(replace(OPTIONS, axes=("first-call",))))
    assert len(visits) == 11
    assert all(visit.is_fresh for visit in visits)
    assert [step.condition.call.first for step in visits[0].steps] == ["first", "later", "later"]


def test_later_rounds_ask_once_more_each_and_only_what_is_wanted() -> None:
    contrast = next(c for c in plan_of().contrasts if c.axis == "batch")
    for number, repeats in ((1, 3), (2, 4)):
        visits = plan_round([Want(contrast, PROMPTS[3:5])], PROMPTS, number)
        asked = places(visits)
        expected = [
            (c.key, p.id, r)
            for c in (contrast.base, contrast.treated)
            for p in PROMPTS[3:5]
            for r in range(repeats)
        ]
        assert sorted(asked) == sorted(expected)


def test_contrasts_share_the_answers_of_a_later_round() -> None:
    one, other = (c for c in plan_of().contrasts if c.axis == "batch")
    visits = plan_round([Want(one, PROMPTS[:2]), Want(other, PROMPTS[1:3])], PROMPTS, 1)
    base = [place for place in places(visits) if place[0] == BASE.key]
    assert len(base) == 3 * 3


def test_blocks_that_lean_have_names_of_their_own() -> None:
    visits = plan_first(plan_of(replace(OPTIONS, axes=("prefix", "batch"))))
    leaning = [visit for visit in visits if visit.leans]
    names = {name_block("n", a, v, s) for a in (0, 1) for v in leaning for s in v.steps}
    assert len(names) == 2 * len(PROMPTS)
    plain = {name_block("n", a, visits[0], s) for a in (0, 1) for s in visits[0].steps}
    assert len(plain) == 1


def test_a_plan_that_fits_is_left_alone() -> None:
    plan = plan_of()
    assert fit_plan(plan, replace(OPTIONS, budget=Budget(calls=10_000))) == plan


def test_fewer_prompts_come_before_fewer_axes() -> None:
    plan = plan_of()
    needs = estimate(plan, OPTIONS)
    smaller = fit_plan(plan, replace(OPTIONS, budget=Budget(calls=needs.calls - 1)))
    assert smaller.contrasts == plan.contrasts
    assert 11 <= len(smaller.prompts) < len(PROMPTS)
    assert estimate(smaller, OPTIONS).calls < needs.calls


@pytest.mark.parametrize("budget", [Budget(calls=600), Budget(tokens=60_000)])
def test_a_small_budget_leaves_the_last_axes_out_and_never_goes_under_eleven_prompts(
    budget: Budget,
) -> None:
    smaller = fit_plan(plan_of(), replace(OPTIONS, budget=budget))
    kept = list(dict.fromkeys(contrast.axis for contrast in smaller.contrasts))
    left_out = list(dict.fromkeys(item.axis for item in smaller.not_tested))
    assert len(smaller.prompts) == 11
    assert kept + left_out[::-1] == [axis.key for axis in AXES]
    assert all(item.reason == "the budget ended" for item in smaller.not_tested)
    assert fits(estimate(smaller, OPTIONS), budget)


def fits(needs: Estimate, budget: Budget) -> bool:
    return needs.calls <= (budget.calls or needs.calls) and needs.tokens <= (
        budget.tokens or needs.tokens
    )


def test_the_first_axis_stays_whatever_it_costs() -> None:
    smaller = fit_plan(plan_of(), replace(OPTIONS, budget=Budget(calls=1)))
    assert {contrast.axis for contrast in smaller.contrasts} == {"repeat"}


def test_a_plan_is_cut_to_the_time_at_the_rate_seen() -> None:
    options = replace(OPTIONS, budget=Budget(seconds=60))
    plan = plan_of()
    assert fit_time(plan, options, 1e-6, 1e-6) == plan
    smaller = fit_time(plan, options, 0.1, 1.0)
    needs = estimate(smaller, options)
    assert len(smaller.contrasts) < len(plan.contrasts)
    assert needs.rows * 0.1 + needs.sessions * 1.0 <= 60


def test_an_estimate_counts_sessions_and_requests() -> None:
    options = replace(OPTIONS, axes=("repeat", "restart", "first-call"))
    needs = estimate(plan_of(options), options)
    assert needs.sessions == 1 + 1 + 11
    assert needs.answers == 2 * 16 + 2 * 16 + 3 * 11
    # Two for the control and one that begins the other process.
    assert needs.calls == needs.answers + 3


def test_a_condition_that_is_base_of_one_axis_and_treated_in_another_is_asked_once() -> None:
    plan = plan_of(replace(OPTIONS, axes=("batch", "position")))
    full = with_call(BASE, batch=8)
    assert full in {c.base for c in plan.contrasts} & {c.treated for c in plan.contrasts}
    asked = [place for place in places(plan_first(plan)) if place[0] == full.key]
    assert len(asked) == 2 * len(PROMPTS)


def test_a_restart_is_another_process_set_up_alike() -> None:
    visits = plan_first(plan_of(replace(OPTIONS, axes=("restart",))))
    assert visits[1].process == with_process(BASE, instance=1).process
