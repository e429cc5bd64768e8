"""After how many tokens answers part: Kaplan-Meier curves of first divergence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from samebits.audit.blocks import Block
from samebits.audit.evidence import Evidence
from samebits.audit.observation import Answer
from samebits.audit.pairs import compare_answers, finest, spell_answer
from samebits.audit.results import Outcome, Survival
from samebits.audit.statistics import kaplan_meier


class Lifetime(NamedTuple):
    """How long some equal pairs of answers agreed."""

    num_pairs: int
    tokens: int
    """At the first of them they differ, counted from 1; all there are if none differs."""
    is_parted: bool


def measure_survival(axis: str, evidence: Iterable[Evidence]) -> Survival | None:
    """Draw the curve of one axis from all its levels; None if only texts were compared.

    A pair that agrees to its end is censored there.
    """
    lives = [
        life
        for item in evidence
        for block, _ in item.splits[Outcome.TOKENS]
        for life in list_lifetimes(block, is_repeat=item.is_repeat)
    ]
    if not lives:
        return None
    parted = [life.tokens for life in lives if life.is_parted for _ in range(life.num_pairs)]
    whole = [life.tokens for life in lives if not life.is_parted for _ in range(life.num_pairs)]
    times, alive = kaplan_meier(parted, whole)
    return Survival(axis=axis, num_pairs=len(parted) + len(whole), tokens=times, alive=alive)


def list_lifetimes(block: Block, *, is_repeat: bool) -> Iterator[Lifetime]:
    """Compare each two kinds of answers of a block once, however often they were given."""
    name = finest((*block.base, *block.treated))
    if name == "text":
        return
    base = count_kinds(block.base, name)
    treated = count_kinds(block.treated, name)
    for i, (one, num) in enumerate(base):
        for j, (other, count) in enumerate(base if is_repeat else treated):
            if is_repeat:
                pairs = num * (num - 1) // 2 if i == j else num * count * (i < j)
            else:
                pairs = num * count
            pair = compare_answers(one, other) if pairs else None
            if pair is not None and pair.num_equal is not None:
                tokens = pair.num_equal + pair.tokens_differ
                yield Lifetime(pairs, tokens, pair.tokens_differ)


def count_kinds(answers: Sequence[Answer], name: str) -> list[tuple[Answer, int]]:
    """Give one answer of each kind, and how many there are."""
    spelled = {spell_answer(answer, name): answer for answer in answers}
    counts = Counter(spell_answer(answer, name) for answer in answers)
    return [(answer, counts[key]) for key, answer in spelled.items()]
