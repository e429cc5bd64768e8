"""Whether a seed is ignored, or is only hit by noise that greedy calls show as well.

Normative: docs/audit.md, "Error control".
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from samebits.audit.evidence import LEVEL, Decision, Evidence, Place
from samebits.audit.results import Outcome
from samebits.audit.statistics import fisher_p


class Repeats(NamedTuple):
    """Prompts asked repeatedly under one condition, over all conditions counted."""

    num_differ: int
    of: int


def decide_seeds(evidence: Sequence[Evidence], noisy: Collection[Outcome]) -> dict[Place, Decision]:
    """Decide whether seeded calls fail to repeat themselves more often than noise explains.

    Args:
        noisy: Outcomes at which repeats of the base differ: seeds cannot be judged there.
    """
    decisions = {}
    for number, item in enumerate(evidence):
        for outcome in item.splits if item.contrast.axis == "seed" else ():
            p = hold_against(count_seeded(item, outcome), count_greedy(evidence, outcome))
            is_found = p <= LEVEL and outcome not in noisy
            decisions[number, outcome] = Decision(p, is_found)
    return decisions


def count_greedy(evidence: Iterable[Evidence], outcome: Outcome) -> Repeats:
    """Count, over all conditions without sampling, the prompts whose equal calls differ."""
    found: dict[tuple[str, str, int], bool] = {}
    for item in evidence:
        conditions = (item.contrast.base, item.contrast.treated)
        if any(condition.call.temperature > 0 for condition in conditions):
            continue
        for block, split in item.splits.get(outcome, ()):
            sides = zip(conditions, (split.base, split.treated), strict=True)
            for condition, groups in sides:
                if len(groups) > 1:
                    place = (condition.key, block.prompt, block.round)
                    found[place] = len(set(groups)) > 1
    return Repeats(sum(found.values()), len(found))


def count_seeded(evidence: Evidence, outcome: Outcome) -> Repeats:
    """Count the prompts whose calls with a seed differ, of those that must repeat themselves."""
    failed = [any(map(evidence.fails, rounds)) for rounds in evidence.by_prompt(outcome).values()]
    return Repeats(sum(failed), len(failed))


def hold_against(seeded: Repeats, greedy: Repeats) -> float:
    """Give the probability of so many seeded failures, were greedy calls as likely to differ.

    0 where no call without sampling was repeated: nothing else explains a failure then.
    """
    if not seeded.num_differ:
        return 1.0
    return fisher_p(*seeded, *greedy) if greedy.of else 0.0
