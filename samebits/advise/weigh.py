"""From a record to an advice: what still differs under each remedy, and the cheapest that will do.

Pure functions. A prompt is one cluster: it counts once, whatever number of its answers differ.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from samebits.advise.ladder import FIRST, NOTHING, RUNGS, Basis
from samebits.advise.record import AdviceRecord, Trial, Tried
from samebits.advise.results import Advice, Choice, Cost, Moved, RungResult
from samebits.audit.evidence import rate as make_rate
from samebits.audit.observation import Answer
from samebits.audit.pairs import Pair, compare_answers
from samebits.audit.results import Rate
from samebits.audit.statistics import CONFIDENCE, smallest_visible_rate
from samebits.errors import ConfigError, RecordCorrupt

NEEDS = ("tokens", "bits")
MOST_PROMPTS = 10**15
"""Where counting prompts that a tiny rate would need ends."""
Answers = Mapping[str, Mapping[str, Answer]]
"""Arrangement to prompt to answer."""


def weigh(record: AdviceRecord, *, need: str, rate: float) -> Advice:
    """Weigh a whole record.

    Args:
        need: tokens or bits: what has to stay the same.
        rate: Share of prompts that may differ.
    Raises:
        ConfigError: Another need, or a rate that is none.
        RecordCorrupt: Its options have not the form that samebits advise writes.
    """
    check_asked(record.asked)
    if need not in NEEDS or not 0 < rate < 1:
        raise ConfigError(
            expected="a need of tokens or bits and a rate between 0 and 1",
            found=f"{need} and {rate}",
        )
    trials = {trial.rung: trial for trial in record.trials}
    before = find_first(trials.get(NOTHING))
    rows = [make_row(trials[rung.key], rung.basis, before, is_pinned=rung.is_pinned)
            for rung in RUNGS if rung.key in trials]  # fmt: skip
    asked = list(record.asked.get("rungs") or [rung.key for rung in RUNGS])
    return Advice(
        target=record.target,
        need=need,
        rate=rate,
        rows=tuple(rows),
        here=choose(rows, need, rate, anywhere=False),
        anywhere=choose(rows, need, rate, anywhere=True),
        num_prompts=len(record.prompts),
        prompts_needed=count_needed(rate),
        batches=tuple(record.asked["batches"]),
        max_tokens=record.asked["max_tokens"],
        is_complete=set(asked) <= trials.keys(),
        record_digest=record.digest,
        header=replace(record, trials=()).value(),
    )


def check_asked(asked: Mapping[str, Any]) -> None:
    """Refuse options that cannot be read: a digest keeps nobody from writing a record by hand."""
    batches, rungs = asked.get("batches"), asked.get("rungs", [])
    is_right = (
        isinstance(batches, list)
        and bool(batches)
        and all(type(size) is int and size > 0 for size in batches)
        and isinstance(rungs, list)
        and all(isinstance(key, str) for key in rungs)
        and type(asked.get("max_tokens")) is int
        and type(asked.get("rate", 0.0)) is float
    )
    if not is_right:
        raise RecordCorrupt(
            expected="the options of an advice: batches, max_tokens, rungs, rate",
            found=f"{dict(asked)!r:.200}",
        )


def count_needed(rate: float) -> int:
    """Count the prompts without a difference that rule out a rate: the exact rule of three."""
    return math.ceil(min(math.log(1 - CONFIDENCE) / math.log1p(-rate), MOST_PROMPTS))


def sort_answers(trial: Trial) -> Answers:
    """Sort the answers of a trial."""
    found: dict[str, dict[str, Answer]] = {}
    for seen in trial.sightings:
        found.setdefault(seen.arrangement, {})[seen.prompt] = seen.answer
    return found


def find_first(trial: Trial | None) -> Mapping[str, Answer]:
    """Give the answers that prompts got alone."""
    return {} if trial is None else sort_answers(trial).get(FIRST.key, {})


def make_row(
    trial: Trial, basis: Basis, before: Mapping[str, Answer], *, is_pinned: bool
) -> RungResult:
    """Count what differs under one remedy, and what it cost."""
    answers = sort_answers(trial)
    first = answers.get(FIRST.key, {})
    others = [tried for tried in trial.arrangements if tried.key != FIRST.key]
    company = [tried for tried in others if tried.is_company]
    elsewhere = [tried for tried in others if not tried.is_company]
    return RungResult(
        key=trial.rung,
        basis=basis,
        company=count_moved(first, [answers.get(tried.key, {}) for tried in company]),
        elsewhere=count_moved(first, [answers.get(tried.key, {}) for tried in elsewhere]),
        is_pinned=is_pinned,
        other_answers=count_others(before, first) if trial.rung != NOTHING else None,
        cost=measure_cost(trial, answers, company),
        num_missing=sum(seen.answer.error is not None for seen in trial.sightings),
        not_tried=trial.not_tried,
        in_force=trial.in_force,
    )


def count_moved(
    first: Mapping[str, Answer], others: Sequence[Mapping[str, Answer]]
) -> Moved | None:
    """Count prompts of which some answer is not the first; None if nothing can be compared."""
    pairs = [
        found
        for prompt, answer in first.items()
        if (found := list_pairs(answer, (other.get(prompt) for other in others)))
    ]
    if not pairs:
        return None
    visible = [found for found in pairs if all(pair.bits_differ is not None for pair in found)]
    return Moved(
        tokens=count([any(pair.tokens_differ for pair in found) for found in pairs]),
        bits=count([any(pair.bits_differ for pair in found) for found in visible])
        if visible
        else None,
    )


def list_pairs(answer: Answer, others: Iterable[Answer | None]) -> list[Pair]:
    """Compare an answer with others; missing ones are left out."""
    pairs = (compare_answers(answer, other) for other in others if other is not None)
    return [pair for pair in pairs if pair is not None]


def count(flags: Sequence[bool]) -> Rate:
    """Count what is true, with its interval."""
    return make_rate(sum(flags), len(flags))


def count_others(before: Mapping[str, Answer], after: Mapping[str, Answer]) -> Rate | None:
    """Count prompts whose tokens are others than before the remedy; None if none can be told."""
    pairs = (compare_answers(before[key], after[key]) for key in before.keys() & after.keys())
    flags = [pair.tokens_differ for pair in pairs if pair is not None]
    return count(flags) if flags else None


def measure_cost(trial: Trial, answers: Answers, company: Sequence[Tried]) -> Cost:
    """Take the cost from the largest company that was tried, and from who was alone."""
    largest = max((tried.batch for tried in company), default=0)
    keys = [tried.key for tried in company if tried.batch == largest]
    speed = time_token([answer for key in keys for answer in answers.get(key, {}).values()])
    return Cost(
        tokens_s=1 / speed if speed else None,
        token_s=time_token(list(answers.get(FIRST.key, {}).values())),
        peak_bytes=trial.peak_bytes,
        open_s=trial.open_s,
    )


def time_token(answers: Sequence[Answer]) -> float | None:
    """Give the seconds for each output token; None if none was made."""
    made = [answer for answer in answers if answer.error is None and answer.num_tokens]
    tokens = sum(answer.num_tokens or 0 for answer in made)
    return sum(answer.elapsed_s for answer in made) / tokens if tokens else None


def choose(rows: Sequence[RungResult], need: str, rate: float, *, anywhere: bool) -> Choice:
    """Choose the fastest remedy under which nothing needed was seen to differ.

    Not a cache: it is as fast as what fills it. Where none of a need could be seen, such as bits
    over HTTP, nothing is recommended.
    """
    clean = [
        (row, bound)
        for row in rows
        if row.basis is not Basis.REPLAYED and row.cost.tokens_s is not None
        if (bound := bound_rate(row, need, anywhere=anywhere)) is not None
    ]
    if not clean:
        return Choice(rung=None, is_shown=False, bound=1.0)
    best, bound = max(clean, key=lambda item: item[0].cost.tokens_s or 0.0)
    return Choice(rung=best.key, is_shown=bound <= rate, bound=bound)


def bound_rate(row: RungResult, need: str, *, anywhere: bool) -> float | None:
    """Bound the share of prompts that may still differ.

    None if a difference was seen, an answer is missing, or it was not tried.
    """
    wanted = [row.company] + ([row.elsewhere] if anywhere else [])
    rates = [None if moved is None else moved.of(need) for moved in wanted]
    if row.num_missing or any(found is None or found.num for found in rates):
        return None
    return max(smallest_visible_rate(found.of) for found in rates if found is not None)
