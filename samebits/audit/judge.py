"""The verdict of each contrast. Normative: docs/audit.md, "Verdicts".

The runner asks it after each round, the analysis once more at the end; both get the same.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from enum import StrEnum
from typing import NamedTuple

from samebits.audit.axes import Contrast
from samebits.audit.blocks import index_observations
from samebits.audit.condition import Process
from samebits.audit.evidence import (
    SEEDED,
    UNTESTED,
    Decision,
    Evidence,
    Place,
    decide,
    find_first_divergence,
    gather,
    list_failing,
    list_moved,
    measure,
    num_unexplained,
)
from samebits.audit.notes import Reason
from samebits.audit.observation import Observation
from samebits.audit.results import Comparison, LevelResult, Outcome, Verdict
from samebits.audit.seeds import decide_seeds
from samebits.audit.statistics import smallest_visible_rate

DETECT = 0.25
"""Share of prompts that a clear contrast must be able to rule out."""


class State(StrEnum):
    """What one outcome of a contrast says."""

    FOUND = "found"
    CLEAR = "clear"
    UNSURE = "unsure"


class Sight(NamedTuple):
    """A state, and why it is unsure."""

    state: State
    reason: str = ""


class Judgement(NamedTuple):
    """What can be said of a contrast, and what is left to ask."""

    result: LevelResult
    states: Mapping[Outcome, State]
    """An outcome that was not visible is absent."""
    again: tuple[str, ...]
    """Ids of the prompts to ask again: those that differ in some pair; none once it is decided."""
    evidence: Evidence


def judge_contrasts(
    contrasts: Sequence[Contrast],
    observations: Iterable[Observation],
    *,
    look: int,
    detect: float = DETECT,
    pattern: str | None = None,
    exploratory: Sequence[Contrast] = (),
) -> list[Judgement]:
    """Judge contrasts by what was seen in rounds up to `look`.

    Args:
        look: Number of the latest round, from 0.
        detect: Share of prompts that a contrast without differences must be able to rule out.
        pattern: Finds the answer in a text; None: answers are not compared.
        exploratory: Contrasts asked because of what was found: described, never tested. Their
            judgements follow the others'.
    """
    index = index_observations(seen for seen in observations if seen.round <= look)
    evidence = [
        *(gather(contrast, index, pattern=pattern) for contrast in contrasts),
        *(gather(c, index, pattern=pattern, is_exploratory=True) for c in exploratory),
    ]
    noisy = {
        outcome
        for item in evidence
        if item.contrast.axis == "repeat"
        for outcome in item.splits
        if list_failing(item, outcome)
    }
    decisions = decide(evidence, look) | decide_seeds(evidence, noisy)
    judged = [judge(item, i, decisions, detect, noisy) for i, item in enumerate(evidence)]
    return doubt_processes(judged)


def judge(
    evidence: Evidence,
    number: int,
    decisions: Mapping[Place, Decision],
    detect: float,
    noisy: set[Outcome],
) -> Judgement:
    """Judge one contrast by itself."""
    comparisons: dict[Outcome, Comparison] = {}
    sights: dict[Outcome, Sight] = {}
    for outcome in evidence.splits:
        decision = decisions.get((number, outcome)) or settle(evidence, outcome)
        comparisons[outcome] = measure(evidence, outcome, decision)
        sights[outcome] = see(evidence, comparisons[outcome], detect, noisy)
    verdict, reason = combine(sights)
    if not evidence.num_treated_calls:
        verdict, reason, sights = Verdict.NOT_TESTED, Reason.NO_CALLS, {}
    open_outcomes = list_open(evidence, sights)
    again = [p for outcome in open_outcomes for p in list_moved(evidence, outcome)]
    return Judgement(
        result=make_result(evidence, verdict, reason, comparisons),
        states={outcome: sight.state for outcome, sight in sights.items()},
        again=tuple(dict.fromkeys(again)),
        evidence=evidence,
    )


def settle(evidence: Evidence, outcome: Outcome) -> Decision:
    """Decide what needs no test: whether repeats that must agree differ, or a level asked later."""
    if evidence.is_exploratory:
        is_found = num_unexplained(evidence, outcome) > 0
    else:
        is_found = evidence.is_repeat and bool(list_failing(evidence, outcome))
    return Decision(0.0 if is_found else 1.0, is_found)


def see(evidence: Evidence, comparison: Comparison, detect: float, noisy: set[Outcome]) -> Sight:
    """Say what one outcome of a contrast shows."""
    outcome = comparison.outcome
    if is_mostly_missing(evidence):
        return Sight(State.UNSURE, Reason.MISSING)
    if comparison.is_found:
        return Sight(State.FOUND)
    if evidence.contrast.axis == "seed":
        return see_seed(evidence, comparison, detect, noisy)
    if not evidence.is_repeat and num_unexplained(evidence, outcome):
        few = Reason.FEW_BITS if outcome is Outcome.BITS else Reason.FEW_TOKENS
        return Sight(State.UNSURE, few)
    if comparison.smallest_rate > detect:
        is_noisy = comparison.base_noise.num or comparison.treated_noise.num
        return Sight(State.UNSURE, Reason.NOISE if is_noisy else Reason.FEW_PROMPTS)
    return Sight(State.CLEAR)


def see_seed(
    evidence: Evidence, comparison: Comparison, detect: float, noisy: set[Outcome]
) -> Sight:
    """Say whether sampling with a seed repeats."""
    is_seeded = evidence.contrast.level in SEEDED
    if comparison.base_noise.num or (is_seeded and comparison.treated_noise.num):
        is_greedy = comparison.outcome in noisy
        return Sight(State.UNSURE, Reason.GREEDY_NOISE if is_greedy else Reason.SEED_FAILS)
    if smallest_visible_rate(comparison.base_noise.of) > detect:
        return Sight(State.UNSURE, Reason.FEW_PROMPTS)
    return Sight(State.CLEAR)


def is_mostly_missing(evidence: Evidence) -> bool:
    """Answer whether one side lacks more than half of its answers."""
    sides = (
        [(len(b.base), b.num_base) for b in evidence.blocks],
        [(len(b.treated), b.num_treated) for b in evidence.blocks],
    )
    return any(2 * sum(n for n, _ in side) < sum(of for _, of in side) for side in sides)


def combine(sights: Mapping[Outcome, Sight]) -> tuple[Verdict, str]:
    """Make one verdict of what tokens and bits show."""
    tokens = sights[Outcome.TOKENS]
    bits = sights.get(Outcome.BITS, Sight(State.CLEAR))
    if tokens.state is State.FOUND:
        return Verdict.CHANGES_TOKENS, ""
    if bits.state is State.FOUND:
        if tokens.reason == Reason.FEW_TOKENS:
            return Verdict.CANNOT_TELL, Reason.BITS_AND_FEW_TOKENS
        return Verdict.MOVES_BITS, ""
    for sight in (tokens, bits):
        if sight.state is State.UNSURE:
            return Verdict.CANNOT_TELL, sight.reason
    return Verdict.NO_EFFECT, ""


def list_open(evidence: Evidence, sights: Mapping[Outcome, Sight]) -> list[Outcome]:
    """List the outcomes that more calls could settle; bits no more once tokens are found."""
    if evidence.is_exploratory or evidence.contrast.axis in UNTESTED or not sights:
        return []
    if sights[Outcome.TOKENS].state is State.FOUND:
        return []
    outcomes = (Outcome.TOKENS, Outcome.BITS)
    return [o for o in outcomes if o in sights and sights[o].state is not State.FOUND]


def make_result(
    evidence: Evidence,
    verdict: Verdict,
    reason: str,
    comparisons: Mapping[Outcome, Comparison],
) -> LevelResult:
    """Put a verdict and its counts together."""
    contrast, blocks = evidence.contrast, evidence.blocks
    calls = sum(block.num_base + block.num_treated for block in blocks)
    tokens = list_failing(evidence, Outcome.TOKENS)
    return LevelResult(
        axis=contrast.axis,
        level=contrast.level,
        verdict=verdict,
        reason=reason,
        base=contrast.base.key,
        treated=contrast.treated.key,
        num_prompts=len({block.prompt for block in blocks}),
        num_calls=calls,
        num_missing=calls - sum(len(block.base) + len(block.treated) for block in blocks),
        comparisons={str(outcome): comparison for outcome, comparison in comparisons.items()},
        first_divergence=find_first_divergence(evidence),
        affected=tuple(tokens or list_failing(evidence, Outcome.BITS)),
        only_if="",
    )


def doubt_processes(judged: Sequence[Judgement]) -> list[Judgement]:
    """Take back what was found between processes where a mere restart does the same."""
    restarted = {
        outcome
        for judgement in judged
        if judgement.result.axis == "restart"
        for outcome, state in judgement.states.items()
        if state is State.FOUND
    }
    return [
        doubt(judgement, restarted) if sets_process(judgement.evidence.contrast) else judgement
        for judgement in judged
    ]


def sets_process(contrast: Contrast) -> bool:
    """Answer whether a contrast sets up a process otherwise, rather than only anew."""
    one, other = contrast.base.process, contrast.treated.process
    names = [item.name for item in fields(Process) if item.name != "instance"]
    return any(getattr(one, name) != getattr(other, name) for name in names)


def doubt(judgement: Judgement, restarted: set[Outcome]) -> Judgement:
    """Make a finding unsure at the outcomes that a restart changes."""
    doubted = [
        outcome
        for outcome, state in judgement.states.items()
        if state is State.FOUND and outcome in restarted
    ]
    if not doubted:
        return judgement
    states = {**judgement.states, **dict.fromkeys(doubted, State.UNSURE)}
    unsure = Sight(State.UNSURE, Reason.RESTART)
    sights = {o: unsure if s is State.UNSURE else Sight(s) for o, s in states.items()}
    verdict, reason = combine(sights)
    result = replace(judgement.result, verdict=verdict, reason=reason)
    return judgement._replace(result=result, states=states)
