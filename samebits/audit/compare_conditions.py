"""The answers of two records under one condition: across, within each, and item by item."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from samebits.audit.compare_items import compare_items
from samebits.audit.compare_results import ConditionComparison, PromptComparison
from samebits.audit.observation import Answer
from samebits.audit.pairs import compare_answers, finest, first_difference, spell_answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import Header
from samebits.audit.results import Rate, Verdict
from samebits.audit.statistics import (
    Classes,
    clopper_pearson,
    exchangeability_p,
    reject_false_discoveries,
    smallest_p,
)

LEVEL = 0.05
"""False-discovery rate over the conditions, bits and tokens of one comparison."""

Answers = Mapping[str, Sequence[Answer]]
"""Id of the prompt to its answers, missing ones included."""


class Both(NamedTuple):
    """The answers of two records to one prompt, without missing ones; neither is empty."""

    prompt: AuditPrompt
    a: tuple[Answer, ...]
    b: tuple[Answer, ...]

    @property
    def token_classes(self) -> Classes:
        """Count A's and B's answers in each group that agrees in tokens."""
        spelled = spell_tokens((*self.a, *self.b))
        return count_classes(spelled[: len(self.a)], spelled[len(self.a) :])

    @property
    def bit_classes(self) -> Classes | None:
        """Do the same of bits, up to the first token that differs; None if not all report them."""
        steps = spell_bits((*self.a, *self.b))
        if steps is None:
            return None
        return count_classes(steps[: len(self.a)], steps[len(self.a) :])


class Unjudged(NamedTuple):
    """A comparison without its verdict, and the p-values that could be small enough for one."""

    comparison: ConditionComparison
    tests: Mapping[str, float]
    """By "tokens" and "bits"."""


def compare_condition(
    key: str,
    ours: Answers,
    theirs: Answers,
    prompts: Sequence[AuditPrompt],
    headers: tuple[Header, Header],
) -> Unjudged:
    """Compare the answers to common prompts; the verdict is left to `judge_conditions`."""
    both = [one for prompt in prompts if (one := pair_up(prompt, ours, theirs)).a and one.b]
    asked = [(*ours.get(prompt.id, ()), *theirs.get(prompt.id, ())) for prompt in prompts]
    num_missing = sum(answer.error is not None for row in asked for answer in row)
    tests = {"tokens": [one.token_classes for one in both], "bits": list_bit_classes(both)}
    # What no labelling could make small enough is not tested: that depends on the groups of equal
    # answers alone, so that leaving it out is not a choice by the result.
    testable = {name: rows for name, rows in tests.items() if both_ways(smallest_p, rows) <= LEVEL}
    flips = compare_items(
        [(one.prompt, one.a, one.b) for one in both],
        headers[0].asked.get("answer_pattern"),
        headers[1].asked.get("answer_pattern"),
    )
    return Unjudged(
        replace(measure(key, both, tests), num_missing=num_missing, flips=flips),
        {name: both_ways(exchangeability_p, rows) for name, rows in testable.items()},
    )


def measure(
    key: str, both: Sequence[Both], tests: Mapping[str, Sequence[Classes]]
) -> ConditionComparison:
    """Count differences across and within."""
    compared = tuple(map(compare_prompt, both))
    bits = [one for one in compared if one.bits_differ is not None]
    ours, theirs = [one.a for one in both], [one.b for one in both]
    return ConditionComparison(
        condition=key,
        verdict=Verdict.CANNOT_TELL,
        reason="",
        tokens_differ=rate(sum(one.tokens_differ for one in compared), len(compared)),
        bits_differ=rate(sum(one.bits_differ is True for one in bits), len(bits)) if bits else None,
        a_noise=measure_noise(ours),
        b_noise=measure_noise(theirs),
        a_bits_noise=measure_bits_noise(ours),
        b_bits_noise=measure_bits_noise(theirs),
        p_tokens=both_ways(exchangeability_p, tests["tokens"]),
        p_bits=both_ways(exchangeability_p, tests["bits"]) if bits else None,
        num_missing=0,
        prompts=compared,
        flips=None,
    )


def pair_up(prompt: AuditPrompt, ours: Answers, theirs: Answers) -> Both:
    """Take the answers to one prompt that are there."""
    a, b = (
        tuple(answer for answer in side.get(prompt.id, ()) if answer.error is None)
        for side in (ours, theirs)
    )
    return Both(prompt, a, b)


def compare_prompt(both: Both) -> PromptComparison:
    """Compare every answer of A with every answer of B."""
    pairs = [pair for x, y in product(both.a, both.b) if (pair := compare_answers(x, y))]
    differ = any(pair.tokens_differ for pair in pairs)
    bits = [pair.bits_differ for pair in pairs if pair.bits_differ is not None]
    return PromptComparison(
        prompt=both.prompt.id,
        num_a=len(both.a),
        num_b=len(both.b),
        tokens_differ=differ,
        first_token=least(pair.index for pair in pairs),
        bits_differ=any(bits) if bits else None,
        first_bits=least(pair.bits_index for pair in pairs),
        a_repeats=None if len(both.a) < 2 else len(set(spell_tokens(both.a))) == 1,
        b_repeats=None if len(both.b) < 2 else len(set(spell_tokens(both.b))) == 1,
        a_text=both.a[0].text if differ else "",
        b_text=both.b[0].text if differ else "",
    )


def least(places: Iterable[int | None]) -> int | None:
    """Give the earliest place that is known."""
    return min((place for place in places if place is not None), default=None)


def spell_tokens(answers: Sequence[Answer]) -> list[Hashable]:
    """Give answers in the finest spelling that all have."""
    name = finest(answers)
    return [tuple(spell_answer(answer, name)) for answer in answers]


def spell_bits(answers: Sequence[Answer]) -> list[Hashable] | None:
    """Give the bits of answers up to the first token at which any two differ.

    Returns:
        None if one reports no bits, or only texts could tell where they differ, and they do.
    """
    if not all(answer.steps for answer in answers):
        return None
    name = finest(answers)
    rows = [spell_answer(answer, name) for answer in answers]
    index = least(first_difference(rows[0], row) for row in rows[1:])
    if name == "text" and index is not None:
        return None
    end = min(len(answer.steps or ()) for answer in answers)
    end = end if index is None else min(end, index + 1)
    return [(answer.steps or ())[:end] for answer in answers]


def count_classes(a: Sequence[Hashable], b: Sequence[Hashable]) -> Classes:
    """Count each side's answers in each group of equal ones."""
    ours, theirs = Counter(a), Counter(b)
    return [(ours[one], theirs[one]) for one in dict.fromkeys((*a, *b))]


def list_bit_classes(both: Sequence[Both]) -> list[Classes]:
    """Give the classes of bits of the prompts whose answers all report them."""
    return [classes for one in both if (classes := one.bit_classes)]


def both_ways(p_of: Callable[[list[Classes]], float], rows: Sequence[Classes]) -> float:
    """Give the greater p-value of A against B and B against A: neither record is the base."""
    turned: list[Classes] = [[(b, a) for a, b in row] for row in rows]
    return max(p_of(list(rows)), p_of(turned))


def measure_noise(sides: Sequence[Sequence[Answer]]) -> Rate:
    """Count the prompts whose answers on one side differ in tokens, of those asked twice."""
    repeated = [side for side in sides if len(side) > 1]
    return rate(sum(len(set(spell_tokens(side))) > 1 for side in repeated), len(repeated))


def measure_bits_noise(sides: Sequence[Sequence[Answer]]) -> Rate | None:
    """Do the same of bits; None if no prompt asked twice reports them."""
    bits = [found for side in sides if len(side) > 1 and (found := spell_bits(side))]
    return rate(sum(len(set(found)) > 1 for found in bits), len(bits)) if bits else None


def rate(num: int, of: int) -> Rate:
    """Give a share with its interval."""
    bounds = clopper_pearson(num, of)
    return Rate(num=num, of=of, low=bounds.low, high=bounds.high)


def judge_conditions(compared: Iterable[Unjudged]) -> tuple[ConditionComparison, ...]:
    """Give each condition its verdict, with the false-discovery rate controlled over all."""
    conditions = tuple(compared)
    tests = [
        (place, name, p) for place, one in enumerate(conditions) for name, p in one.tests.items()
    ]
    passed = reject_false_discoveries([p for _, _, p in tests], LEVEL)
    found = {test[:2] for test, passes in zip(tests, passed, strict=True) if passes}
    return tuple(
        judge(one.comparison, (place, "tokens") in found, (place, "bits") in found)
        for place, one in enumerate(conditions)
    )


def judge(one: ConditionComparison, tokens_found: bool, bits_found: bool) -> ConditionComparison:
    """Give one condition its verdict."""
    tokens, bits = one.tokens_differ.num, one.bits_differ.num if one.bits_differ else 0
    if not one.prompts:
        return replace(one, reason="no prompt was answered on both sides")
    if tokens_found:
        return replace(one, verdict=Verdict.CHANGES_TOKENS)
    if bits_found:
        reason = doubt("tokens", tokens, one.a_noise, one.b_noise) if tokens else ""
        return replace(one, verdict=Verdict.MOVES_BITS, reason=reason)
    if tokens:
        return replace(one, reason=doubt("tokens", tokens, one.a_noise, one.b_noise))
    if bits:
        return replace(one, reason=doubt("bits", bits, one.a_bits_noise, one.b_bits_noise))
    return replace(one, verdict=Verdict.NO_EFFECT)


def doubt(what: str, num: int, a_noise: Rate | None, b_noise: Rate | None) -> str:
    """Say why differences across are no finding."""
    noise = [side for side in (a_noise, b_noise) if side is not None]
    if not noise or not all(side.of for side in noise):
        return f"{what} of {num} prompts differ, but a side was asked only once"
    if any(side.num for side in noise):
        return f"{what} of {num} prompts differ, but repeats of one side differ as well"
    return f"{what} of {num} prompts differ: too few to rule out chance"
