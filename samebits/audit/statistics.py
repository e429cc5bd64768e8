"""Numbers of the audit: exact tests, intervals, errors. Knows nothing of answers.

Normative: docs/audit.md, with the source of each formula.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

CONFIDENCE = 0.95

Classes = Sequence[tuple[int, int]]
"""One block: for each group of equal answers, how many are the base's and how many are treated."""
Shape = tuple[tuple[int, ...], int]
"""What relabelling keeps: sizes of the groups, largest first, and the number of base answers."""
Shares = NDArray[np.float64]
Weights = dict[int, int]
"""Value of the statistic to the number of relabellings that give it."""


class Interval(NamedTuple):
    """Two bounds of a share."""

    low: float
    high: float


def clopper_pearson(num: float, of: float) -> Interval:
    """Give the exact 95 % interval of a share.

    Counts need not be whole: a share of pairs is judged as if there were as many pairs as prompts.

    Returns:
        (0, 1) if `of` is 0.
    Source: Clopper and Pearson, Biometrika 26 (1934), through the beta distribution.
    """
    tail = (1 - CONFIDENCE) / 2
    low = float(betaincinv(num, of - num + 1, tail)) if num > 0 else 0.0
    high = float(betaincinv(num + 1, of - num, 1 - tail)) if num < of else 1.0
    return Interval(low, high)


def smallest_visible_rate(of: int) -> float:
    """Give the share of prompts that `of` prompts without a difference rule out; 1 if `of` is 0.

    Source: the exact form of the rule of three, 1 - 0.05^(1/of).
    """
    return 1 - math.pow(1 - CONFIDENCE, 1 / of) if of else 1.0


def exchangeability_p(blocks: Iterable[Classes]) -> float:
    """Give the probability of the seen statistic or a greater one, were the labels exchangeable.

    Every block is relabelled on its own in all ways that keep its sizes, all alike likely. The
    statistic counts pairs that differ: 2 for a pair across the labels, 1 for a pair of treated
    answers, 0 for a pair of base answers. Exact: nothing is drawn, every relabelling counts.

    Returns:
        1 if no relabelling changes anything.
    """
    shapes: list[Shape] = []
    excess = 0
    for block in blocks:
        shape = shape_of(block)
        weights = relabel(shape)
        if len(weights) > 1:
            shapes.append(shape)
            excess += statistic(block) - min(weights)
    return share_from(shapes, excess)


def smallest_p(blocks: Iterable[Classes]) -> float:
    """Give the least p-value that any labelling of these blocks could reach.

    It depends on the groups of equal answers alone, not on the labels.
    """
    p = 1.0
    for block in blocks:
        weights = relabel(shape_of(block))
        p *= weights[max(weights)] / sum(weights.values())
    return p


def shape_of(block: Classes) -> Shape:
    """Forget which answer of a block has which label."""
    return tuple(sorted((x + y for x, y in block), reverse=True)), sum(x for x, _ in block)


def statistic(block: Classes) -> int:
    """Count the pairs of a block that differ, weighted; see `exchangeability_p`."""
    num_base, num_treated = sum(x for x, _ in block), sum(y for _, y in block)
    return most(num_base, num_treated) - sum(agreement(x, y) for x, y in block)


def most(num_base: int, num_treated: int) -> int:
    """Give the statistic of a block in which every pair differs."""
    return 2 * num_base * num_treated + math.comb(num_treated, 2)


def agreement(x: int, y: int) -> int:
    """Count the pairs within a group of equal answers, weighted alike."""
    return 2 * x * y + math.comb(y, 2)


@lru_cache(maxsize=4096)
def relabel(shape: Shape) -> Weights:
    """Count the relabellings of a block by the statistic.

    By the partition: how many of each group get the base's label, and in how many ways.
    """
    sizes, num_base = shape
    states = {(0, 0): 1}
    for size in sizes:
        states = add_group(states, size, num_base)
    top = most(num_base, sum(sizes) - num_base)
    return {top - agreed: ways for (used, agreed), ways in states.items() if used == num_base}


def add_group(
    states: dict[tuple[int, int], int], size: int, num_base: int
) -> dict[tuple[int, int], int]:
    """Extend the count of relabellings by one group: (base labels used, agreement) to ways."""
    grown: dict[tuple[int, int], int] = {}
    for (used, agreed), ways in states.items():
        for x in range(min(size, num_base - used) + 1):
            state = used + x, agreed + agreement(x, size - x)
            grown[state] = grown.get(state, 0) + ways * math.comb(size, x)
    return grown


def share_from(shapes: Iterable[Shape], excess: int) -> float:
    """Convolve blocks, and give the share of relabellings whose excess is at least the seen one.

    Only positive numbers are multiplied and added, each operation by itself: the relative error
    stays under 1e-11 for ten thousand blocks, and the bits do not depend on the machine.

    Args:
        excess: Statistic less its minimum, summed over blocks.
    """
    if excess == 0:
        return 1.0
    tables = [relabel(shape) for shape in sorted(shapes)]
    unit = math.gcd(*(value - min(table) for table in tables for value in table)) or 1
    shares = np.ones(1)
    for table in tables:
        shares = convolve(shares, table, unit)
    return max(sys.float_info.min, min(1.0, math.fsum(shares[excess // unit :])))


def convolve(shares: Shares, table: Weights, unit: int) -> Shares:
    """Add one block to the distribution of the excess, which counts in steps of `unit`."""
    least, total = min(table), sum(table.values())
    grown = np.zeros(len(shares) + (max(table) - least) // unit)
    for value, ways in table.items():
        start = (value - least) // unit
        grown[start : start + len(shares)] += shares * (ways / total)
    return grown


def reject_false_discoveries(p_values: Sequence[float], level: float) -> list[bool]:
    """Answer for each hypothesis whether it is rejected, with the false-discovery rate controlled.

    Source: Benjamini and Hochberg, J. R. Stat. Soc. B 57 (1995).
    """
    ranked = sorted(p_values)
    passing = [p for i, p in enumerate(ranked, start=1) if p <= level * i / len(ranked)]
    limit = max(passing, default=-1.0)
    return [p <= limit for p in p_values]


def mcnemar_p(b: int, c: int) -> float:
    """Give the exact two-sided p-value of b items that flipped one way and c the other.

    Source: McNemar, Psychometrika 12 (1947), with the binomial distribution at 1/2.
    """
    num = b + c
    tail = sum(math.comb(num, k) for k in range(min(b, c) + 1))
    return min(1.0, tail / (1 << (num - 1))) if num else 1.0


def fisher_p(num: int, of: int, other_num: int, other_of: int) -> float:
    """Give the exact one-sided p-value of `num` of `of` being more than `other_num` of `other_of`.

    Source: Fisher, The Design of Experiments (1935), through the hypergeometric distribution.
    """
    total = num + other_num
    tail = sum(
        math.comb(of, k) * math.comb(other_of, total - k) for k in range(num, min(of, total) + 1)
    )
    return tail / math.comb(of + other_of, total)


def separation_p(num: int, of: int) -> float:
    """Give the two-sided p-value of `num` items of `of` that rank wholly above, or below, the rest.

    Source: the exact rank-sum test of Wilcoxon at its extreme: 2 of all choices.
    """
    return min(1.0, 2 / math.comb(of, num))


class Errors(NamedTuple):
    """A mean over prompts and its two standard errors."""

    mean: float
    sampling: float | None
    """From the choice of prompts, without what reruns add; None: fewer than two prompts."""
    rerun: float | None
    """From repeating the same prompts; None: no prompt was repeated."""


def two_level_errors(scores: Sequence[Sequence[float]]) -> Errors:
    """Split the error of a mean: prompts are clusters, repeats of one prompt are no new prompts.

    The variance of the prompts' means over their number, E, already holds the reruns; so the
    rerun part R is taken out of it, never added: sampling^2 = max(0, E - R).

    Args:
        scores: For each prompt the scores of its repeats; none is empty.
    Source: one-way random effects, by moments; docs/audit.md.
    """
    means = [math.fsum(row) / len(row) for row in scores]
    mean = math.fsum(means) / len(means)
    spreads = [variance(row) for row in scores if len(row) > 1]
    rerun = None
    if spreads:
        within = math.fsum(spreads) / len(spreads)
        rerun = math.fsum(within / len(row) for row in scores) / len(scores) ** 2
    if len(means) < 2:
        return Errors(mean, None, None if rerun is None else math.sqrt(rerun))
    clustered = variance(means) / len(means)
    sampling = math.sqrt(max(0.0, clustered - (rerun or 0.0)))
    return Errors(mean, sampling, None if rerun is None else math.sqrt(rerun))


def variance(values: Sequence[float]) -> float:
    """Give the unbiased variance of two values or more."""
    mean = math.fsum(values) / len(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


class Curve(NamedTuple):
    """A step function: the share alive from each time on, up to the next."""

    times: tuple[int, ...]
    alive: tuple[float, ...]


def kaplan_meier(events: Sequence[int], censored: Sequence[int]) -> Curve:
    """Estimate survival from times of events and of those last seen alive.

    Returns:
        Starts at (0, 1) and ends at the largest time.
    Source: Kaplan and Meier, J. Am. Stat. Assoc. 53 (1958).
    """
    died, ended = Counter(events), Counter([*events, *censored])
    at_risk, alive = len(events) + len(censored), 1.0
    times, shares = [0], [1.0]
    for time in sorted(ended):
        alive *= 1 - died[time] / at_risk
        at_risk -= ended[time]
        if time and (died[time] or not at_risk):
            times.append(time)
            shares.append(alive)
    return Curve(tuple(times), tuple(shares))
