"""Repeats of the base condition: how often they agree, and the two errors of a score."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from samebits.audit.answers import extract_answer, is_right
from samebits.audit.blocks import Block, Index, list_repeats, present
from samebits.audit.condition import Condition
from samebits.audit.evidence import rate
from samebits.audit.observation import Answer
from samebits.audit.pairs import finest, spell_answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.results import Rate, Stability
from samebits.audit.statistics import clopper_pearson, two_level_errors
from samebits.record.canonical import parse_json

Groups = Sequence[Sequence[Answer]]
"""Answers of one prompt, those of one session together."""


def measure_stability(
    index: Index, base: str, prompts: Sequence[AuditPrompt], pattern: str | None
) -> Stability:
    """Count how the repeats of the base agree.

    Args:
        base: Key of the base condition.
        prompts: For the expected answers.
        pattern: Finds the answer in a text; None: there is no extractor.
    """
    repeats = group_repeats(list_repeats(base, index))
    again = {
        prompt: groups for prompt, groups in repeats.items() if any(len(g) > 1 for g in groups)
    }
    expected = {prompt.id: prompt.answer for prompt in prompts if prompt.answer is not None}
    scores = score(repeats, expected, pattern)
    errors = two_level_errors(list(scores.values())) if scores else None
    return Stability(
        num_prompts=len(repeats),
        repeats=min((sum(map(len, groups)) for groups in repeats.values()), default=0),
        unique_outputs=count_outputs(index),
        tar_raw=rate(sum(map(agree, again.values())), len(again)),
        tar_answer=None if pattern is None else rate_answers(again, pattern),
        noise_pairs=rate_pairs(list(again.values())),
        mean_score=errors and errors.mean,
        sampling_se=errors and errors.sampling,
        rerun_se=errors and errors.rerun,
        pass_all=rate(sum(min(s) == 1 for s in scores.values()), len(scores)) if scores else None,
    )


def group_repeats(blocks: Iterable[Block]) -> dict[str, list[Sequence[Answer]]]:
    """Collect the repeats of each prompt, leaving out prompts without an answer."""
    found: dict[str, list[Sequence[Answer]]] = {}
    for block in blocks:
        if block.base:
            found.setdefault(block.prompt, []).append(block.base)
    return found


def agree(groups: Groups) -> bool:
    """Answer whether the repeats of one prompt agree in every token, session by session."""
    return all(len(count_groups(group)) == 1 for group in groups)


def count_groups(answers: Sequence[Answer]) -> Counter[object]:
    """Count equal answers by the finest spelling that all have."""
    name = finest(answers)
    return Counter(spell_answer(answer, name) for answer in answers)


def rate_answers(again: Mapping[str, Groups], pattern: str) -> Rate:
    """Count the prompts whose repeats give one extracted answer, or none each time."""
    same = [
        all(
            len({extract_answer(answer.text, pattern) for answer in group}) == 1 for group in groups
        )
        for groups in again.values()
    ]
    return rate(sum(same), len(same))


def rate_pairs(prompts: Sequence[Groups]) -> Rate:
    """Count the pairs of repeats that differ; the interval is that of as many prompts."""
    groups = [count_groups(group) for found in prompts for group in found]
    pairs = sum(math.comb(group.total(), 2) for group in groups)
    equal = sum(math.comb(num, 2) for group in groups for num in group.values())
    share = (pairs - equal) / pairs if pairs else 0.0
    low, high = clopper_pearson(share * len(prompts), len(prompts))
    return Rate(num=pairs - equal, of=pairs, low=low, high=high)


def score(
    repeats: Mapping[str, Groups], expected: Mapping[str, str], pattern: str | None
) -> dict[str, list[float]]:
    """Score every repeat of the prompts that have an expected answer: 1 if it is right."""
    return {
        prompt: [
            float(is_right(answer.text, pattern, expected[prompt]))
            for group in groups
            for answer in group
        ]
        for prompt, groups in repeats.items()
        if prompt in expected
    }


def count_outputs(index: Index) -> tuple[tuple[int, int], ...]:
    """Count distinct outputs of each prompt over the conditions that must match."""
    answers: dict[str, list[Answer]] = {}
    for condition, prompts in index.items():
        if must_match(condition):
            for prompt, rounds in prompts.items():
                seen = [one for asked in rounds.values() for one in asked]
                answers.setdefault(prompt, []).extend(present(seen))
    counts = Counter(len(count_groups(found)) for found in answers.values() if found)
    return tuple(sorted(counts.items()))


def must_match(condition: str) -> bool:
    """Answer whether a condition asks the prompt itself, greedily: whether its output must match.

    Sampling draws; a cold prefix marks the prompt; another clock may render another prompt; scoring
    has no output.
    """
    call = Condition.from_value(parse_json(condition)).call
    is_itself = call.prefix is None and call.clock is None
    return is_itself and call.temperature == 0 and not call.scoring
