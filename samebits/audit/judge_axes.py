"""The verdict of each axis: the worst of its levels, its threshold, and what is special to it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from samebits.audit.blocks import Block
from samebits.audit.evidence import SEEDED, Evidence
from samebits.audit.judge import Judgement, State
from samebits.audit.notes import Note
from samebits.audit.observation import Answer
from samebits.audit.results import AxisResult, LevelResult, Outcome, Verdict

SEVERITY = (
    Verdict.NOT_TESTED,
    Verdict.NO_EFFECT,
    Verdict.CANNOT_TELL,
    Verdict.MOVES_BITS,
    Verdict.CHANGES_TOKENS,
    Verdict.NOT_EXPLAINED,
)
"""The worst last."""
ORDERED = ("batch", "concurrency", "padding")
"""Axes whose levels count, each named after its factor of the call."""


def judge_axis(
    key: str, judgements: Sequence[Judgement], refused: Sequence[LevelResult], reason: str
) -> AxisResult:
    """Put the levels of one axis together.

    Args:
        refused: Levels that were not tested.
        reason: Why the axis as a whole was not tested; empty if its levels say it.
    """
    levels = [*(judgement.result for judgement in judgements), *refused]
    verdict = worst(level.verdict for level in levels)
    reasons = [level.reason for level in levels if level.verdict is verdict and level.reason]
    return AxisResult(
        key=key,
        verdict=verdict,
        reason=next(iter(reasons), reason),
        levels=tuple(levels),
        threshold=find_threshold(key, judgements),
        notes=tuple(list_notes(key, judgements)),
    )


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """Give the worst verdict; not tested if there is none."""
    return max(verdicts, key=SEVERITY.index, default=Verdict.NOT_TESTED)


def find_threshold(key: str, judgements: Sequence[Judgement]) -> tuple[str, str] | None:
    """Find the largest level without an effect below the smallest with one; None if none has.

    An effect is one on tokens if any level has that, else one on bits. The base counts as a level.
    """
    if key not in ORDERED or not judgements:
        return None
    states = [judgement.states for judgement in judgements]
    outcome = next((o for o in (Outcome.TOKENS, Outcome.BITS) if has_found(states, o)), None)
    if outcome is None:
        return None
    values = [getattr(j.evidence.contrast.treated.call, key) for j in judgements]
    rows = list(zip(values, states, strict=True))
    smallest = min(value for value, state in rows if state.get(outcome) is State.FOUND)
    clear = [v for v, state in rows if v < smallest and state.get(outcome) is State.CLEAR]
    start = getattr(judgements[0].evidence.contrast.base.call, key)
    return str(max([start, *clear])), str(smallest)


def has_found(states: Iterable[Mapping[Outcome, State]], outcome: Outcome) -> bool:
    """Answer whether some level has an effect on an outcome."""
    return any(state.get(outcome) is State.FOUND for state in states)


def list_notes(key: str, judgements: Sequence[Judgement]) -> Iterator[Note]:
    """List what is special to an axis."""
    tested = [j for j in judgements if j.result.verdict is not Verdict.NOT_TESTED]
    evidence = [judgement.evidence for judgement in tested]
    if tested and not any(Outcome.BITS in judgement.states for judgement in tested):
        yield Note.BITS_NOT_VISIBLE
    if any(trusts_fingerprint(block) for item in evidence for block in moved_blocks(item)):
        yield Note.FINGERPRINT
    if key in SPECIAL:
        yield from SPECIAL[key](tested)


def moved_blocks(evidence: Evidence) -> Iterator[Block]:
    """Give the blocks in which some tokens differ that must match."""
    axis, level = evidence.contrast.axis, evidence.contrast.level
    for block, split in evidence.splits[Outcome.TOKENS]:
        if axis == "seed":
            # Other seeds, or none, may change the text: only repeats of a seed must match.
            held = (split.base, split.treated) if level in SEEDED else (split.base,)
            is_moved = any(len(set(groups)) > 1 for groups in held)
        else:
            is_moved = split.differs_within or split.differs_across
        if is_moved:
            yield block


def trusts_fingerprint(block: Block) -> bool:
    """Answer whether all answers of a block bear one fingerprint."""
    prints = {answer.fingerprint for answer in (*block.base, *block.treated)}
    return len(prints) == 1 and None not in prints


def note_clock(judgements: Sequence[Judgement]) -> Iterator[Note]:
    """Look for another rendered prompt at another time."""
    if any(len(set(list_prompts((*b.base, *b.treated)))) > 1 for b in list_all(judgements)):
        yield Note.PROMPT_CLOCK


def list_all(judgements: Sequence[Judgement]) -> Iterator[Block]:
    """Give all blocks of an axis."""
    for judgement in judgements:
        yield from judgement.evidence.blocks


def list_prompts(answers: Iterable[Answer]) -> Iterator[str]:
    """Give the rendered prompts that are known."""
    for answer in answers:
        if answer.prompt_text is not None:
            yield answer.prompt_text


def note_samples(judgements: Sequence[Judgement]) -> Iterator[Note]:
    """Look for samples of one greedy request that differ."""
    answers = [answer for block in list_all(judgements) for answer in block.treated]
    if any(len({answer.text, *answer.others}) > 1 for answer in answers):
        yield Note.SAMPLES_DIFFER


def note_seed(judgements: Sequence[Judgement]) -> Iterator[Note]:
    """Say what seeds do."""
    levels = {judgement.result.level: judgement for judgement in judgements}
    found = {level for level, j in levels.items() if State.FOUND in j.states.values()}
    if "43" in found:
        yield Note.SEED_IGNORED
    if "0" in found:
        yield Note.SEED_ZERO_DROPPED
    if "43" in levels and is_same_everywhere(levels["43"].evidence):
        yield Note.SEED_NO_EFFECT
    constants = {"absent": Note.SEED_OMITTED_CONSTANT, "null": Note.SEED_NULL_CONSTANT}
    for level, note in constants.items():
        if level in levels and repeats_everywhere(levels[level].evidence):
            yield note


def is_same_everywhere(evidence: Evidence) -> bool:
    """Answer whether no prompt differs across, and some could."""
    splits = [split for _, split in evidence.splits[Outcome.TOKENS] if split.is_whole]
    return bool(splits) and not any(split.differs_across for split in splits)


def repeats_everywhere(evidence: Evidence) -> bool:
    """Answer whether no prompt's treated calls differ, and some could."""
    asked = [s.treated for _, s in evidence.splits[Outcome.TOKENS] if len(s.treated) > 1]
    return bool(asked) and all(len(set(groups)) == 1 for groups in asked)


SPECIAL: Mapping[str, Callable[[Sequence[Judgement]], Iterator[Note]]] = {
    "template": note_clock,
    "n": note_samples,
    "seed": note_seed,
}
