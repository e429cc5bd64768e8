"""What the blocks of a contrast say: counts, exact p-values, and what stands after all the looks.

Normative: docs/audit.md, "Test" and "Error control".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from samebits.audit.axes import Contrast
from samebits.audit.blocks import (
    Block,
    Index,
    Split,
    list_blocks,
    split_answers,
    split_bits,
    split_tokens,
)
from samebits.audit.pairs import finest, first_difference, spell_answer
from samebits.audit.results import Comparison, Outcome, Rate
from samebits.audit.statistics import (
    clopper_pearson,
    exchangeability_p,
    reject_false_discoveries,
    smallest_p,
    smallest_visible_rate,
)

LOOKS = 3
"""Most looks at the data; they share the error rate."""
FALSE_DISCOVERY_RATE = 0.05
LEVEL = FALSE_DISCOVERY_RATE / LOOKS
UNTESTED = ("repeat", "seed")
"""Axes whose findings are in the controls: repeats that differ need no test."""
SEEDED = ("43", "0")
"""Levels of the seed axis that give a seed, and so must repeat themselves."""
FAMILIES = ((Outcome.BITS, Outcome.TOKENS), (Outcome.ANSWER,))
"""Outcomes whose false discoveries are controlled together."""

Splits = tuple[tuple[Block, Split], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """The blocks of one contrast."""

    contrast: Contrast
    blocks: tuple[Block, ...]
    splits: Mapping[Outcome, Splits]
    """An outcome that cannot be seen anywhere is absent."""
    num_treated_calls: int
    is_exploratory: bool = False
    """Whether it was asked because of what was found: it is described, not tested."""

    @property
    def is_repeat(self) -> bool:
        """Whether it compares a condition with itself."""
        return self.contrast.base == self.contrast.treated

    def fails(self, split: Split) -> bool:
        """Answer whether a block shows what must not be.

        That is a difference across; among repeats, where there are but repeats; and where seeds
        are compared, among the repeats of one seed: another seed may draw otherwise.
        """
        if self.is_repeat:
            return split.differs_within
        if self.contrast.axis != "seed":
            return split.differs_across
        level = self.contrast.level
        # The base's seed has no level of its own: its failure belongs to the first of SEEDED.
        sides = [split.treated] * (level in SEEDED) + [split.base] * (level == SEEDED[0])
        return any(len(set(side)) > 1 for side in sides)

    def by_prompt(self, outcome: Outcome) -> dict[str, list[Split]]:
        """List the splits of each prompt, over all rounds."""
        found: dict[str, list[Split]] = {}
        for block, split in self.splits.get(outcome, ()):
            if split.is_whole or (self.is_repeat and len(split.base) > 1):
                found.setdefault(block.prompt, []).append(split)
        return found


def gather(
    contrast: Contrast,
    index: Index,
    *,
    pattern: str | None = None,
    is_exploratory: bool = False,
) -> Evidence:
    """Split the blocks of a contrast at every outcome.

    Args:
        pattern: Finds the answer in a text; None: answers are not compared.
    """
    blocks = list_blocks(contrast, index)
    some = [block for block in blocks if block.base or block.treated]
    splits = {Outcome.TOKENS: tuple((block, split_tokens(block)) for block in some)}
    bits = tuple((block, found) for block in some if (found := split_bits(block)) is not None)
    if bits:
        splits[Outcome.BITS] = bits
    if pattern is not None:
        splits[Outcome.ANSWER] = tuple((block, split_answers(block, pattern)) for block in some)
    rounds = index.get(contrast.treated.key, {}).values()
    return Evidence(
        contrast=contrast,
        blocks=tuple(blocks),
        splits=splits,
        num_treated_calls=sum(len(seen) for asked in rounds for seen in asked.values()),
        is_exploratory=is_exploratory,
    )


class Decision(NamedTuple):
    """A p-value, and whether it stands."""

    p_value: float
    is_found: bool


Place = tuple[int, Outcome]
"""Number of the contrast, and outcome."""


def decide(evidence: Sequence[Evidence], look: int) -> dict[Place, Decision]:
    """Test every contrast at every look up to `look`, false discoveries controlled at each.

    What was found at a look stays found, with the p-value it had then.

    Returns:
        By number of the evidence and outcome; what was not tested is absent.
    """
    decisions: dict[Place, Decision] = {}
    for outcomes in FAMILIES:
        for number in range(look + 1):
            decide_look(evidence, outcomes, number, decisions)
    return decisions


def decide_look(
    evidence: Sequence[Evidence],
    outcomes: Sequence[Outcome],
    look: int,
    decisions: dict[Place, Decision],
) -> None:
    """Make the decisions of one look."""
    p_values: dict[Place, float] = {}
    for place, blocks in list_hypotheses(evidence, outcomes, look):
        before = decisions.get(place)
        is_new = before is None or (not before.is_found and blocks[-1][0].round == look)
        classes = [split.classes() for _, split in blocks if split.differs_across]
        p = exchangeability_p(classes) if is_new or before is None else before.p_value
        decisions[place] = Decision(p, before is not None and before.is_found)
        # Those that no labelling could make significant are no part of the family: known from
        # the groups alone, hence without looking at the labels (docs/audit.md).
        if smallest_p(classes) <= LEVEL:
            p_values[place] = p
    stands = reject_false_discoveries(list(p_values.values()), LEVEL)
    for (place, p), is_found in zip(p_values.items(), stands, strict=True):
        if is_found and not decisions[place].is_found:
            decisions[place] = Decision(p, True)


def list_hypotheses(
    evidence: Sequence[Evidence], outcomes: Sequence[Outcome], look: int
) -> Iterator[tuple[Place, Splits]]:
    """List what is tested: its blocks up to a look, in order of rounds."""
    for number, item in enumerate(evidence):
        if item.is_exploratory or item.contrast.axis in UNTESTED:
            continue
        for outcome in outcomes:
            blocks = [one for one in item.splits.get(outcome, ()) if one[0].round <= look]
            if blocks:
                yield (number, outcome), tuple(sorted(blocks, key=lambda one: one[0].round))


def measure(evidence: Evidence, outcome: Outcome, decision: Decision) -> Comparison:
    """Count prompts and pairs of one contrast at one outcome."""
    prompts = evidence.by_prompt(outcome)
    splits = [split for rounds in prompts.values() for split in rounds]
    quiet = [rounds for rounds in prompts.values() if not any(s.differs_within for s in rounds)]
    moved = [
        any(s.differs_across or (evidence.is_repeat and s.differs_within) for s in rounds)
        for rounds in prompts.values()
    ]
    calm = prompts if evidence.is_repeat else quiet
    return Comparison(
        outcome=outcome,
        differ=rate(sum(moved), len(moved)),
        base_noise=noise([[s.base for s in rounds] for rounds in prompts.values()]),
        treated_noise=noise([[s.treated for s in rounds] for rounds in prompts.values()]),
        pairs=sum(split.num_pairs for split in splits),
        pairs_differ=sum(split.num_differ for split in splits),
        p_value=decision.p_value,
        is_found=decision.is_found,
        smallest_rate=smallest_visible_rate(len(calm)),
    )


def noise(prompts: Sequence[Sequence[tuple[int, ...]]]) -> Rate:
    """Count the prompts whose calls of one condition differ, among those called repeatedly."""
    asked = [rounds for rounds in prompts if any(len(groups) > 1 for groups in rounds)]
    return rate(sum(any(len(set(groups)) > 1 for groups in rounds) for rounds in asked), len(asked))


def rate(num: int, of: int) -> Rate:
    """Give a share with its interval."""
    low, high = clopper_pearson(num, of)
    return Rate(num=num, of=of, low=low, high=high)


def num_unexplained(evidence: Evidence, outcome: Outcome) -> int:
    """Count the prompts that differ across though neither side's repeats ever do."""
    return sum(
        any(split.differs_across for split in rounds)
        for rounds in evidence.by_prompt(outcome).values()
        if not any(split.differs_within for split in rounds)
    )


def list_failing(evidence: Evidence, outcome: Outcome) -> list[str]:
    """List the prompts that show what must not be."""
    prompts = evidence.by_prompt(outcome).items()
    return [prompt for prompt, rounds in prompts if any(map(evidence.fails, rounds))]


def list_moved(evidence: Evidence, outcome: Outcome) -> list[str]:
    """List the prompts that differ in some pair, whatever its labels."""
    prompts = evidence.by_prompt(outcome).items()
    return [
        prompt
        for prompt, rounds in prompts
        if any(split.differs_across or split.differs_within for split in rounds)
    ]


def find_first_divergence(evidence: Evidence) -> int | None:
    """Find the earliest token that differs; None if none does or only texts were compared."""
    places = [
        first_in(block, evidence)
        for block, split in evidence.splits[Outcome.TOKENS]
        if evidence.fails(split)
    ]
    return min((place for place in places if place is not None), default=None)


def first_in(block: Block, evidence: Evidence) -> int | None:
    """Find the earliest token that differs within one block."""
    name = finest((*block.base, *block.treated))
    if name == "text":
        return None
    base = {spell_answer(answer, name) for answer in block.base}
    treated = {spell_answer(answer, name) for answer in block.treated}
    is_within = evidence.contrast.axis in UNTESTED
    pairs = (
        [*product(base, base), *product(treated, treated)] if is_within else product(base, treated)
    )
    places = [first_difference(one, other) for one, other in pairs]
    return min((place for place in places if place is not None), default=None)
