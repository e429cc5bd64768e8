"""Cuts a plan to a budget: fewer prompts first, then fewer axes."""

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from samebits.audit.axes import BASE
from samebits.audit.budget import (
    Cost,
    estimate_prompt_tokens,
    extra_tokens,
    num_requests,
    num_rows,
)
from samebits.audit.condition import Call
from samebits.audit.plan import AuditOptions, Plan, Visit, plan_first
from samebits.audit.record import NotTested

CONTROL_CALLS = 2
"""Calls of the positive control, at least."""
ENDED = "the budget ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the first round of a plan takes, at most.

    Later rounds come on top where something differs and budget is left.
    """

    answers: int
    calls: int
    """Requests; several at once count each."""
    tokens: int
    """Prompt and output tokens, bounded from above."""
    rows: int
    """Answers computed, those of companions included: what time is about proportional to."""
    sessions: int
    """Processes or connections to open."""
    prompts: int
    axes: int


def estimate(plan: Plan, options: AuditOptions) -> Estimate:
    """Estimate what a plan takes before anything is asked."""
    visits = plan_first(plan)
    others = [visit for visit in visits if is_elsewhere(visit)]
    # A call of the base before each session that is not fresh, the control, and Run.warm.
    begin = CONTROL_CALLS + sum(not visit.is_fresh for visit in others)
    unseen = plan.prompts[:1] * begin + (plan.prompts if plan.facts.keeps_prefixes else ())
    steps = [(step.condition.call, step.prompts) for visit in visits for step in visit.steps]
    steps.append((BASE.call, unseen))
    lengths = {prompt.id: estimate_prompt_tokens(prompt) for prompt in plan.prompts}
    costs = [price_step(call, [lengths[p.id] for p in asked], options) for call, asked in steps]
    return Estimate(
        answers=sum(len(asked) for _, asked in steps) - len(unseen),
        calls=sum(cost.calls for cost in costs),
        tokens=sum(cost.tokens for cost in costs),
        rows=sum(num_rows(call) * len(asked) for call, asked in steps),
        sessions=1 + len(others),
        prompts=len(plan.prompts),
        axes=len({contrast.axis for contrast in plan.contrasts}),
    )


def price_step(call: Call, lengths: Sequence[int], options: AuditOptions) -> Cost:
    """Bound the cost of one call for prompts of some lengths."""
    mine = len(lengths) * (options.max_tokens + extra_tokens(call)) + sum(lengths)
    return Cost(calls=num_requests(call) * len(lengths), tokens=num_rows(call) * mine)


def is_elsewhere(visit: Visit) -> bool:
    """Answer whether a visit needs a session of its own."""
    return visit.is_fresh or visit.process != BASE.process


def fit_plan(plan: Plan, options: AuditOptions) -> Plan:
    """Cut a plan to the calls and tokens of the budget."""
    budget = options.budget

    def fits(smaller: Plan) -> bool:
        cost = estimate(smaller, options)
        return Cost(calls=cost.calls, tokens=cost.tokens).fits(budget)

    return cut_plan(plan, options.fewest_prompts, fits)


def fit_time(plan: Plan, options: AuditOptions, row_s: float, open_s: float) -> Plan:
    """Cut a plan to the time of the budget.

    As if a call took as many times longer as it has rows: above what engines need, so that the
    plan is done in time.

    Args:
        row_s: Seconds of one answer.
        open_s: Seconds that a session takes to open.
    """
    seconds = options.budget.seconds
    if seconds is None:
        return plan

    def fits(smaller: Plan) -> bool:
        needs = estimate(smaller, options)
        return needs.rows * row_s + needs.sessions * open_s <= seconds

    return cut_plan(plan, options.fewest_prompts, fits)


def cut_plan(plan: Plan, fewest: int, fits: Callable[[Plan], bool]) -> Plan:
    """Use as many prompts as fit, but not under `fewest`; then leave the last axes out.

    The first axis stays, whatever it costs.
    """
    if fits(plan):
        return plan
    sizes = range(min(fewest, len(plan.prompts)), len(plan.prompts) + 1)
    too_many = bisect.bisect(sizes, False, key=lambda num: not fits(keep_prompts(plan, num)))
    plan = keep_prompts(plan, sizes[max(0, too_many - 1)])
    while not fits(plan) and len({contrast.axis for contrast in plan.contrasts}) > 1:
        plan = drop_last(plan)
    return plan


def keep_prompts(plan: Plan, num: int) -> Plan:
    """Use the first prompts only."""
    return replace(plan, prompts=plan.prompts[:num])


def drop_last(plan: Plan) -> Plan:
    """Leave the last axis out."""
    last = plan.contrasts[-1].axis
    kept = tuple(contrast for contrast in plan.contrasts if contrast.axis != last)
    dropped = tuple(
        NotTested(axis=last, level=contrast.level, reason=ENDED)
        for contrast in plan.contrasts
        if contrast.axis == last
    )
    return replace(plan, contrasts=kept, not_tested=plan.not_tested + dropped)
