"""Runs the ladder: one process for each remedy, the same prompts in every arrangement.

Costs are taken from the same calls, one remedy after another on one machine, so that they can be
compared with each other and with nothing else.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from samebits.advise.ladder import (
    FIRST,
    HERE,
    NOTHING,
    Arrangement,
    Place,
    Rung,
    group,
    list_company,
    list_elsewhere,
)
from samebits.advise.record import AdviceRecord, Sighting, Trial, Tried
from samebits.audit.condition import Call
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.errors import SamebitsError, TargetStopped


class Contestant(Protocol):
    """A process that serves one remedy."""

    @property
    def facts(self) -> TargetFacts:
        """What is in force, and what could be in force elsewhere."""
        ...

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer all prompts of an ask, which come together."""
        ...

    def settings(self) -> Mapping[str, Any]:
        """Say what is in force, with what was counted since the start."""
        ...

    def peak_bytes(self) -> int | None:
        """Give the largest resident memory so far."""
        ...


class Bench(Protocol):
    """Where remedies are tried."""

    def refuse(self, rung: Rung) -> str:
        """Say why a rung cannot be tried here; empty if it can."""
        ...

    def open(self, rung: Rung, place: Place) -> AbstractContextManager[Contestant]:
        """Start a process that serves a rung.

        Raises:
            SamebitsError: It cannot be brought about.
        """
        ...


class Told(NamedTuple):
    """How far a run is."""

    done: int
    """Answers that are there."""
    total: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is tried."""

    rungs: tuple[Rung, ...]
    prompts: tuple[AuditPrompt, ...]
    companions: tuple[AuditPrompt, ...]
    batches: tuple[int, ...]
    max_tokens: int


def run_ladder(
    options: Options,
    bench: Bench,
    record: AdviceRecord,
    *,
    keep: Callable[[AdviceRecord], None],
    tell: Callable[[Told], None],
) -> AdviceRecord:
    """Try every rung that the record does not hold yet.

    Args:
        record: With the trials of an earlier run, which are not made again.
        keep: Called with the record after each trial.
        tell: Called after each group of answers.
    Returns:
        The record with all trials. A rung that cannot be tried has a trial that says why; one whose
        process somebody ended has none, so that a later run tries it.
    Raises:
        SamebitsError: Not even the first rung, no remedy, could be tried: nothing can be compared.
    """
    done = {trial.rung for trial in record.trials}
    left = tuple(rung for rung in options.rungs if rung.key not in done)
    runner = Runner(replace(options, rungs=left), bench, tell)
    for rung in left:
        try:
            trial = runner.try_rung(rung)
        except TargetStopped:
            continue
        record = replace(record, trials=(*record.trials, trial))
        keep(record)
    return record


class Runner:
    """One run over the rungs."""

    def __init__(self, options: Options, bench: Bench, tell: Callable[[Told], None]) -> None:
        self.options = options
        self.bench = bench
        self.tell = tell
        self.done = 0
        per_rung = len(options.prompts) * (len(list_company(options.batches)) + 2)
        self.total = len(options.rungs) * per_rung

    def try_rung(self, rung: Rung) -> Trial:
        """Try one remedy, here and elsewhere; errors are part of what was found.

        Raises:
            TargetStopped: Somebody ended its process.
            SamebitsError: It is the first, without a remedy, and cannot be tried.
        """
        reason = self.bench.refuse(rung)
        if reason:
            return Trial(rung=rung.key, not_tried=reason)
        try:
            trial, facts = self.try_here(rung)
        except TargetStopped:
            raise
        except SamebitsError as error:
            if rung.key == NOTHING:
                raise
            return Trial(rung=rung.key, not_tried=str(error))
        for arrangement in list_elsewhere(facts):
            try:
                with self.bench.open(rung, arrangement.place) as contestant:
                    trial = self.add(trial, rung, contestant, arrangement)
            except TargetStopped:
                raise
            except SamebitsError as error:
                return replace(trial, not_tried=f"{arrangement.key}: {error}")
        return trial

    def try_here(self, rung: Rung) -> tuple[Trial, TargetFacts]:
        """Ask everything that one process can be asked."""
        trial, began = Trial(rung=rung.key), time.monotonic()
        self.tell(Told(self.done, self.total, f"{rung.key}: starting"))
        with self.bench.open(rung, HERE) as contestant:
            trial = replace(trial, open_s=time.monotonic() - began)
            for arrangement in list_company(self.options.batches):
                trial = self.add(trial, rung, contestant, arrangement)
            trial = replace(
                trial, in_force=contestant.settings(), peak_bytes=contestant.peak_bytes()
            )
            return trial, contestant.facts

    def add(
        self, trial: Trial, rung: Rung, contestant: Contestant, arrangement: Arrangement
    ) -> Trial:
        """Ask all prompts in one arrangement."""
        seen: list[Sighting] = []
        prompts = self.options.prompts
        wanted = {prompt.id for prompt in prompts}
        for members in group(arrangement, prompts, self.options.companions):
            ask = make_ask(members, self.options.max_tokens)
            for prompt, answer in zip(members, contestant.ask(ask), strict=True):
                if prompt.id in wanted:
                    seen.append(
                        Sighting(arrangement=arrangement.key, prompt=prompt.id, answer=answer)
                    )
                    self.done += 1
            self.tell(Told(self.done, self.total, f"{rung.key}: {arrangement.key}"))
        tried = Tried(
            key=arrangement.key, batch=arrangement.batch, is_company=arrangement.is_company
        )
        return replace(
            trial,
            arrangements=(*trial.arrangements, tried),
            sightings=(*trial.sightings, *seen),
        )


def make_ask(members: Sequence[AuditPrompt], max_tokens: int) -> Ask:
    """Make the ask of one group, whose members come together."""
    return Ask(
        call=Call(batch=len(members), neighbours="others"),
        prompts=members,
        max_tokens=max_tokens,
        block=FIRST.key,
        companions=(),
    )
