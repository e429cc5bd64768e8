"""From a record to all that a report says: a pure function, and the only way there.

Normative: docs/audit.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from samebits.audit.axes import AXES, BASE, Contrast
from samebits.audit.blocks import Index, index_observations
from samebits.audit.census import NO_DRIFT, Drift, can_drift, measure_drift, take_census
from samebits.audit.evidence import FALSE_DISCOVERY_RATE, LOOKS
from samebits.audit.judge import DETECT, Judgement, State, judge_contrasts
from samebits.audit.judge_axes import SEVERITY, has_found, judge_axis, worst
from samebits.audit.lengths import find_condition, measure_lengths
from samebits.audit.planned import CONTROL, read_note, read_plan
from samebits.audit.record import AuditRecord, Why
from samebits.audit.results import Analysis, AxisResult, LevelResult, Outcome, Survival, Verdict
from samebits.audit.stability import measure_stability
from samebits.audit.survival import measure_survival
from samebits.errors import ConfigError, RecordCorrupt

NEEDS = ("bits", "tokens")
STABLE, UNSTABLE, CANNOT_TELL = 0, 1, 3
HEAT = ("missing", "same", "bits", "tokens")
"""States of a prompt under an axis; the worst last."""

Judged = Mapping[str, Sequence[Judgement]]
"""Key of the axis to the judgements of its levels."""


def analyse(record: AuditRecord, *, need: str = "bits") -> Analysis:
    """Judge a whole record.

    Args:
        need: bits or tokens: which of them must not move for the exit code to be 0.
    Raises:
        RecordCorrupt: It names axes or conditions that are not known.
        ConfigError: Another need, or the pattern for answers is no regular expression.
    """
    if need not in NEEDS:
        raise ConfigError(expected=f"one of {', '.join(NEEDS)}", found=need)
    index = index_observations(record.observations)
    pattern = read_pattern(record)
    judged = judge_record(record, index, pattern)
    axes = tuple(make_axis(key, judged.get(key, ()), record) for key in record.header.axes)
    control = read_control(record)
    verdict = judge_whole(axes, judged, control)
    ends = record.ends
    return Analysis(
        verdict=verdict,
        need=need,
        exit_code=choose_exit(record, judged, control, need),
        header=record.header.value(),
        axes=axes,
        stability=measure_stability(index, BASE.key, record.header.prompts, pattern),
        survival=tuple(list_survival(axes, judged)),
        census=take_census(index, BASE.key, choose_drift(axes, judged)),
        probes=record.probes,
        heat={key: draw_heat(found) for key, found in judged.items()},
        positive_control=control,
        num_observations=len(record.observations),
        num_missing=sum(seen.answer.error is not None for seen in record.observations),
        is_complete=bool(record.is_ended and ends and ends[-1].why is Why.COMPLETE),
        ended=spell_end(record),
        false_discovery_rate=FALSE_DISCOVERY_RATE,
        own_s=sum(end.own_s for end in ends) if ends else None,
        target_s=sum(end.target_s for end in ends) if ends else None,
        record_digest=record.digest,
    )


def judge_record(record: AuditRecord, index: Index, pattern: str | None) -> Judged:
    """Judge every contrast that was called, by axis; say which lengths are affected."""
    unit, lengths = measure_lengths(index, BASE.key, record.header.prompts)
    found: dict[str, list[Judgement]] = {}
    for judgement in judge_contrasts(
        list_contrasts(record),
        record.observations,
        look=find_look(record),
        detect=read_detect(record),
        pattern=pattern,
        exploratory=[one for note in record.notes if (one := read_note(note)) is not None],
    ):
        result = judgement.result
        if State.FOUND in judgement.states.values():
            asked = {block.prompt for block in judgement.evidence.blocks}
            only = find_condition(result.affected, asked, unit, lengths)
            judgement = judgement._replace(result=replace(result, only_if=only))
        found.setdefault(result.axis, []).append(judgement)
    return found


def find_look(record: AuditRecord) -> int:
    """Find the number of the last round, hence of the last look at the data.

    Raises:
        RecordCorrupt: No audit makes so many rounds; their looks would not be paid for.
    """
    rounds = {seen.round for seen in record.observations}
    if unknown := rounds.difference(range(LOOKS)):
        raise RecordCorrupt(
            expected=f"rounds 0 to {LOOKS - 1} in a record", found=f"round {min(unknown)}"
        )
    return max(rounds, default=0)


def read_detect(record: AuditRecord) -> float:
    """Read what a clear contrast must be able to rule out.

    Raises:
        RecordCorrupt: It is no share.
    """
    asked = record.header.asked.get("detect", DETECT)
    if type(asked) not in (int, float) or not 0 < asked < 1:
        raise RecordCorrupt(expected="a detect between 0 and 1", found=repr(asked)[:80])
    return float(asked)


def read_pattern(record: AuditRecord) -> str | None:
    """Read how answers are found in texts; None if they are not.

    Raises:
        RecordCorrupt: It is no text.
    """
    pattern = record.header.asked.get("answer_pattern")
    if pattern is not None and not isinstance(pattern, str):
        raise RecordCorrupt(expected="an answer_pattern that is a text", found=repr(pattern)[:80])
    return pattern


def list_contrasts(record: AuditRecord) -> list[Contrast]:
    """List the contrasts planned, but for those of which no call was made, and why not is told."""
    called = {seen.condition for seen in record.observations}
    refused = {(item.axis, item.level) for item in record.not_tested}
    planned = read_plan(record.notes)
    return [
        contrast
        for contrast in (plan_again(record) if planned is None else planned)
        if contrast.treated.key in called or (contrast.axis, contrast.level) not in refused
        if contrast.treated.key in called or (contrast.axis, "") not in refused
    ]


def plan_again(record: AuditRecord) -> list[Contrast]:
    """List all contrasts of the axes planned, for a record that stops before its plan."""
    known = {axis.key: axis for axis in AXES}
    if unknown := [key for key in record.header.axes if key not in known]:
        raise RecordCorrupt(expected="known axes in a record", found=", ".join(unknown))
    return [
        contrast
        for key in record.header.axes
        for contrast in known[key].contrasts(record.header.target, BASE)
    ]


def make_axis(key: str, judgements: Sequence[Judgement], record: AuditRecord) -> AxisResult:
    """Put an axis together, with what was not tested of it and why."""
    judged = {judgement.result.level for judgement in judgements}
    refused = [item for item in record.not_tested if item.axis == key and item.level not in judged]
    levels = [refuse_level(key, item.level, item.reason) for item in refused if item.level]
    reason = next((item.reason for item in refused if not item.level), "")
    return judge_axis(key, judgements, levels, reason)


def refuse_level(axis: str, level: str, reason: str) -> LevelResult:
    """Make the result of a contrast for which no calls were made."""
    return LevelResult(
        axis=axis,
        level=level,
        verdict=Verdict.NOT_TESTED,
        reason=reason,
        base="",
        treated="",
        num_prompts=0,
        num_calls=0,
        num_missing=0,
        comparisons={},
        first_divergence=None,
        affected=(),
        only_if="",
    )


def judge_whole(axes: Sequence[AxisResult], judged: Judged, control: str) -> Verdict:
    """Give the worst verdict; repeats that differ are explained by nothing that was changed."""
    repeats = [judgement.states for judgement in judged.get("repeat", ())]
    if has_found(repeats, Outcome.TOKENS) or has_found(repeats, Outcome.BITS):
        return Verdict.NOT_EXPLAINED
    verdict = worst(axis.verdict for axis in axes)
    if SEVERITY.index(verdict) <= SEVERITY.index(Verdict.CANNOT_TELL) and has_noise(
        judged, Outcome
    ):
        return Verdict.NOT_EXPLAINED
    # Where not even another prompt gives another answer, agreement says nothing.
    is_blind = control == "same" and SEVERITY.index(verdict) < SEVERITY.index(Verdict.CANNOT_TELL)
    return Verdict.CANNOT_TELL if is_blind or verdict is Verdict.NOT_TESTED else verdict


def choose_exit(record: AuditRecord, judged: Judged, control: str, need: str) -> int:
    """Choose the exit code, by what is needed."""
    tested = [j.states for found in judged.values() for j in found if j.states]
    needed = (Outcome.TOKENS,) if need == "tokens" else (Outcome.TOKENS, Outcome.BITS)
    seen = [state for states in tested for o, state in states.items() if o in needed]
    if State.FOUND in seen or has_noise(judged, needed):
        return UNSTABLE
    # A level that cannot show bits, such as log-probabilities off, is judged by its tokens; but a
    # target that never shows them says nothing of them.
    is_visible = any(needed[-1] in states for states in tested)
    # Interrupted, killed, or its target lost: what was not asked could have shown anything.
    is_whole = record.is_ended and record.ends[-1].why in (Why.COMPLETE, Why.BUDGET)
    is_clear = is_visible and State.UNSURE not in seen and is_whole and control != "same"
    return STABLE if is_clear else CANNOT_TELL


def has_noise(judged: Judged, outcomes: Iterable[Outcome]) -> bool:
    """Answer whether equal calls, none of them sampled, differ under any condition.

    Rare noise seldom falls on the few calls of the base; wherever it does, it is certain.
    """
    found = [item.evidence for judgements in judged.values() for item in judgements]
    greedy = [evidence for evidence in found if not is_sampled(evidence.contrast)]
    splits = (evidence.splits.get(o, ()) for o in outcomes for evidence in greedy)
    return any(split.differs_within for some in splits for _, split in some)


def is_sampled(contrast: Contrast) -> bool:
    """Answer whether some call of a contrast draws tokens, so that it may differ from its equal."""
    return contrast.base.call.temperature > 0 or contrast.treated.call.temperature > 0


def read_control(record: AuditRecord) -> str:
    """Say whether a changed prompt changed the answer, by the last such note."""
    notes = [note for note in record.notes if note.get("name") == CONTROL]
    return ("differs" if notes[-1].get("differs") else "same") if notes else "not made"


def spell_end(record: AuditRecord) -> str:
    """Say why the audit ended; empty if its record has no last line."""
    if not record.is_ended or not record.ends:
        return ""
    end = record.ends[-1]
    return end.message or str(end.why)


def list_survival(axes: Sequence[AxisResult], judged: Judged) -> list[Survival]:
    """Draw a curve for each axis that changes tokens; other seeds are expected to."""
    curves = [
        measure_survival(axis.key, [judgement.evidence for judgement in judged[axis.key]])
        for axis in axes
        if axis.verdict is Verdict.CHANGES_TOKENS and axis.key != "seed"
    ]
    return [curve for curve in curves if curve is not None]


def choose_drift(axes: Sequence[AxisResult], judged: Judged) -> Drift:
    """Take the drift of the axis that changes most tokens; if none does, that moves most bits."""
    for outcome in (Outcome.TOKENS, Outcome.BITS):
        shares = {}
        for axis in axes:
            moving = [j for j in judged.get(axis.key, ()) if j.states.get(outcome) is State.FOUND]
            usable = [j for j in moving if can_drift(j.evidence)]
            if usable:
                shares[axis.key] = max(share_moved(j, outcome) for j in usable), usable
        if shares:
            key = max(shares, key=lambda key: shares[key][0])
            return measure_drift(key, [judgement.evidence for judgement in shares[key][1]])
    return NO_DRIFT


def share_moved(judgement: Judgement, outcome: Outcome) -> float:
    """Give the share of prompts that differ."""
    differ = judgement.result.comparisons[str(outcome)].differ
    return differ.num / differ.of


def draw_heat(judgements: Sequence[Judgement]) -> dict[str, str]:
    """Give the worst state of each prompt over the levels of an axis."""
    worst_of: dict[str, int] = {}
    for judgement in judgements:
        for prompt, state in draw_level(judgement):
            worst_of[prompt] = max(worst_of.get(prompt, 0), HEAT.index(state))
    return {prompt: HEAT[place] for prompt, place in worst_of.items()}


def draw_level(judgement: Judgement) -> list[tuple[str, str]]:
    """Give the states of the prompts of one level."""
    evidence = judgement.evidence
    states = [(block.prompt, "missing") for block in evidence.blocks]
    for outcome in (Outcome.TOKENS, Outcome.BITS):
        for prompt, splits in evidence.by_prompt(outcome).items():
            moved = any(evidence.fails(split) for split in splits)
            states.append((prompt, str(outcome) if moved else "same"))
    return states
