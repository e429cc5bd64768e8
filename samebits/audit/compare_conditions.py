"""The answers of two records under one condition: across, within each, and item by item."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from samebits.audit.blocks import Block, Split, split_bits, split_tokens
from samebits.audit.compare_items import compare_items
from samebits.audit.compare_results import ConditionComparison, PromptComparison
from samebits.audit.evidence import rate
from samebits.audit.observation import Answer
from samebits.audit.pairs import compare_answers, has_steps
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import Header
from samebits.audit.results import Rate, Verdict
from samebits.audit.statistics import (
    Classes,
    exchangeability_p,
    reject_false_discoveries,
    smallest_p,
)

LEVEL = 0.05
"""False-discovery rate over the conditions, bits and tokens of one comparison."""

Answers = Mapping[str, Sequence[Answer]]
"""Id of the prompt to its answers, missing ones included."""


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
    blocks = [pair_up(prompt.id, ours, theirs) for prompt in prompts]
    both = [block for block in blocks if block.base and block.treated]
    bits = [found.classes() for block in both if (found := split_whole_bits(block)) is not None]
    tests = {"tokens": [split_tokens(block).classes() for block in both], "bits": bits}
    # What no labelling could make small enough is not tested: that depends on the groups of equal
    # answers alone, so that leaving it out is not a choice by the result.
    testable = {name: rows for name, rows in tests.items() if both_ways(smallest_p, rows) <= LEVEL}
    known = {prompt.id: prompt for prompt in prompts}
    flips = compare_items(
        [(known[block.prompt], block.base, block.treated) for block in both],
        headers[0].asked.get("answer_pattern"),
        headers[1].asked.get("answer_pattern"),
    )
    return Unjudged(
        replace(
            measure(key, both, tests),
            num_missing=sum(map(num_missing, blocks)),
            flips=flips,
        ),
        {name: both_ways(exchangeability_p, rows) for name, rows in testable.items()},
    )


def measure(
    key: str, both: Sequence[Block], tests: Mapping[str, Sequence[Classes]]
) -> ConditionComparison:
    """Count differences across and within."""
    compared = tuple(map(compare_prompt, both))
    bits = [one for one in compared if one.bits_differ is not None]
    ours = [stand_alone(block.base) for block in both if len(block.base) > 1]
    theirs = [stand_alone(block.treated) for block in both if len(block.treated) > 1]
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


def pair_up(prompt: str, ours: Answers, theirs: Answers) -> Block:
    """Put the answers of A, for the base, and of B to one prompt into a block."""
    a, b = ours.get(prompt, ()), theirs.get(prompt, ())
    return Block(
        prompt=prompt,
        round=0,
        base=tuple(answer for answer in a if answer.error is None),
        treated=tuple(answer for answer in b if answer.error is None),
        num_base=len(a),
        num_treated=len(b),
    )


def stand_alone(side: tuple[Answer, ...]) -> Block:
    """Put the answers of one record into a block without another side."""
    num = len(side)
    return Block(prompt="", round=0, base=side, treated=(), num_base=num, num_treated=0)


def num_missing(block: Block) -> int:
    """Count the answers of both sides that are missing."""
    return block.num_base + block.num_treated - len(block.base) - len(block.treated)


def split_whole_bits(block: Block) -> Split | None:
    """Group answers by their bits; None if not all report them, or they cannot be compared."""
    is_whole = all(map(has_steps, (*block.base, *block.treated)))
    return split_bits(block) if is_whole else None


def compare_prompt(block: Block) -> PromptComparison:
    """Compare every answer of A with every answer of B."""
    a, b = block.base, block.treated
    pairs = [pair for x, y in product(a, b) if (pair := compare_answers(x, y))]
    differ = any(pair.tokens_differ for pair in pairs)
    bits = [pair.bits_differ for pair in pairs if pair.bits_differ is not None]
    return PromptComparison(
        prompt=block.prompt,
        num_a=len(a),
        num_b=len(b),
        tokens_differ=differ,
        first_token=least(pair.index for pair in pairs),
        bits_differ=any(bits) if bits else None,
        first_bits=least(pair.bits_index for pair in pairs),
        a_repeats=None if len(a) < 2 else not split_tokens(stand_alone(a)).differs_within,
        b_repeats=None if len(b) < 2 else not split_tokens(stand_alone(b)).differs_within,
        a_text=a[0].text if differ else "",
        b_text=b[0].text if differ else "",
    )


def least(places: Iterable[int | None]) -> int | None:
    """Give the earliest place that is known."""
    return min((place for place in places if place is not None), default=None)


def both_ways(p_of: Callable[[list[Classes]], float], rows: Sequence[Classes]) -> float:
    """Give the greater p-value of A against B and B against A: neither record is the base."""
    turned: list[Classes] = [[(b, a) for a, b in row] for row in rows]
    return max(p_of(list(rows)), p_of(turned))


def measure_noise(repeats: Sequence[Block]) -> Rate:
    """Count the prompts, of those that one side was asked twice, whose answers differ in tokens."""
    return rate(sum(split_tokens(block).differs_within for block in repeats), len(repeats))


def measure_bits_noise(repeats: Sequence[Block]) -> Rate | None:
    """Do the same of bits; None if no prompt asked twice reports them."""
    bits = [found for block in repeats if (found := split_whole_bits(block)) is not None]
    return rate(sum(split.differs_within for split in bits), len(bits)) if bits else None


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
