"""Makes the calls of a plan, one after another, and keeps what comes back.

At most two sessions are open at once: the base's, for the whole audit, and one other. Every session
but those of the first-call axis begins with a call that is not observed, so that "the first call of
a process" is held in all other contrasts.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from samebits.audit.axes import BASE, Contrast
from samebits.audit.budget import Meter
from samebits.audit.condition import Condition, Process
from samebits.audit.journal import Journal
from samebits.audit.observation import Answer, Observation
from samebits.audit.plan import AuditOptions, Step, Visit, name_block
from samebits.audit.probe import Probe
from samebits.audit.progress import Pace, Progress, spell_condition
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import Opened
from samebits.audit.target import Ask, Session, Target
from samebits.errors import ConfigError, TargetError

ERRORS_IN_A_ROW = 5
ADDITION = " Answer in other words."
"""What changes a prompt by a little."""

LOOK_S = 0.5
"""Seconds between two estimates of the time left."""

Place = tuple[str, str, int, int]
"""Key of the condition, id of the prompt, round and repeat: one answer of the plan."""


class BudgetEnded(Exception):
    """Say that the next call would exceed a limit."""


class Open(NamedTuple):
    """An open session and its number."""

    session: Session
    number: int


@dataclass(slots=True, kw_only=True)
class Asker:
    """Makes calls within a budget, in the sessions they need."""

    options: AuditOptions
    target: Target
    journal: Journal
    base: Open
    attempt: int
    meter: Meter
    tell: Callable[[Progress], None]
    clock: Callable[[], float]
    """Seconds, monotonic."""
    seen: list[Observation] = field(default_factory=list)
    """All attempts."""
    answered: dict[Place, set[int]] = field(default_factory=dict)
    """Attempts that answered."""
    pace: Pace = field(default_factory=Pace)
    target_s: float = 0.0
    """Seconds spent waiting for the target."""
    given_up: set[Condition] = field(default_factory=set)
    """Conditions that the target answers with errors only."""
    closed: dict[Process, str] = field(default_factory=dict)
    """Processes that cannot be started, and why."""
    num_opened: int = 0
    num_errors: int = 0
    """In a row."""
    last_error: str = ""
    done: int = 0
    total: int = 0
    looked_s: float | None = None
    """When the time left was last estimated."""

    def make(self, visits: Sequence[Visit]) -> None:
        """Make those calls of some visits that were not answered yet.

        Raises:
            BudgetEnded: The next call would exceed a limit.
            TargetError: Nothing more can be had from the target.
        """
        left = [visit for visit in map(self.rest_of, visits) if visit.steps]
        self.total = self.done + count_answers(left)
        self.pace.plan(step for visit in left for step in visit.steps)
        self.looked_s = None
        for visit in left:
            self.visit(visit)

    def rest_of(self, visit: Visit) -> Visit:
        """Leave out what was answered; a block that leans is made whole."""
        if visit.leans:
            places = [place for step in visit.steps for place in places_of(step)]
            attempts = set.intersection(*(self.answered.get(place, set()) for place in places))
            return replace(visit, steps=()) if attempts else visit
        return replace(visit, steps=tuple(filter(None, map(self.rest_of_step, visit.steps))))

    def rest_of_step(self, step: Step) -> Step | None:
        """Leave out prompts that were answered; None if all were."""
        pairs = zip(step.prompts, places_of(step), strict=True)
        prompts = tuple(prompt for prompt, place in pairs if place not in self.answered)
        return replace(step, prompts=prompts) if prompts else None

    def visit(self, visit: Visit) -> None:
        """Make one visit, in the base's session or in one of its own."""
        with ExitStack() as stack:
            is_base = visit.process == BASE.process and not visit.is_fresh
            there = self.base if is_base else self.start(stack, visit)
            if there is not None:
                for step in visit.steps:
                    self.make_step(there, visit, step)

    def start(self, stack: ExitStack, visit: Visit) -> Open | None:
        """Open a session, which answers one call unless it is to be fresh.

        Returns:
            None if the target is there, and cannot start this process.
        """
        if visit.process in self.closed:
            return None
        began = self.clock()
        try:
            session = stack.enter_context(self.target.open(visit.process))
        except (ConfigError, TargetError) as error:
            if visit.process == BASE.process or not self.is_alive():
                raise
            self.closed[visit.process] = str(error)
            return None
        finally:
            self.target_s += self.clock() - began
        there = Open(session, self.base.number + self.num_opened + 1)
        self.num_opened += 1
        self.tell_opened(there, visit.process)
        if not visit.is_fresh:
            self.ask_one(there, change(self.options.prompts[0]))
        return there

    def tell_opened(self, there: Open, process: Process) -> None:
        """Keep what a session found on opening."""
        facts = there.session.facts
        self.journal.append(
            Opened(number=there.number, attempt=self.attempt, process=process, facts=facts)
        )

    def make_step(self, there: Open, visit: Visit, step: Step) -> None:
        """Ask one condition for each prompt of a step, and keep each answer as it comes."""
        if step.condition in self.given_up:
            return
        block = name_block(self.options.nonce, self.attempt, visit, step)
        key, label = step.condition.key, spell_condition(step.condition)
        with ExitStack() as stack:
            answers = self.ask(stack, there, step.condition, step.prompts, block)
            for prompt in step.prompts:
                answer = self.next_answer(answers, step.condition, prompt)
                self.keep(there, step, key, prompt, answer)
                self.tell_progress(step, label)
                if self.num_errors >= ERRORS_IN_A_ROW:
                    break
        if self.num_errors >= ERRORS_IN_A_ROW:
            self.give_up(step.condition)

    def ask(
        self,
        stack: ExitStack,
        there: Open,
        condition: Condition,
        prompts: Sequence[AuditPrompt],
        block: str,
    ) -> Iterator[Answer]:
        """Begin some calls, which end with the stack."""
        ask = Ask(
            call=condition.call,
            prompts=prompts,
            max_tokens=self.options.max_tokens,
            block=block,
            companions=self.options.companions,
        )
        answers = there.session.ask(ask)
        if isinstance(answers, Generator):
            stack.callback(answers.close)
        return answers

    def next_answer(
        self, answers: Iterator[Answer], condition: Condition, prompt: AuditPrompt
    ) -> Answer:
        """Make one call, if the budget allows it."""
        if not self.meter.allows(condition.call, prompt):
            raise BudgetEnded
        began = self.clock()
        try:
            answer = next(answers, None)
        finally:
            took = self.clock() - began
            self.target_s += took
        if answer is None:
            raise TargetError(expected="an answer for each prompt", found="fewer")
        self.pace.add(condition, took)
        self.meter.add(condition.call, prompt, answer)
        self.num_errors = self.num_errors + 1 if answer.error is not None else 0
        self.last_error = answer.error or self.last_error
        return answer

    def keep(self, there: Open, step: Step, key: str, prompt: AuditPrompt, answer: Answer) -> None:
        """Keep an answer."""
        seen = Observation(
            condition=key,
            prompt=prompt.id,
            round=step.round,
            repeat=step.repeat,
            attempt=self.attempt,
            session=there.number,
            answer=answer,
        )
        self.journal.append(seen)
        self.seen.append(seen)
        place = (key, prompt.id, step.round, step.repeat)
        self.answered.setdefault(place, set()).add(self.attempt)
        self.done += 1
        self.pace.left[step.condition] -= 1

    def ask_one(self, there: Open, prompt: AuditPrompt) -> Answer:
        """Ask the base once, unobserved."""
        with ExitStack() as stack:
            answers = self.ask(stack, there, BASE, (prompt,), self.options.nonce)
            return self.next_answer(answers, BASE, prompt)

    def probe(self, contrast: Contrast, prompt: AuditPrompt) -> Probe | None:
        """Look where the bits of a contrast part; None if the target cannot."""
        began = self.clock()
        try:
            return self.base.session.probe(contrast.base, contrast.treated, prompt)
        finally:
            self.target_s += self.clock() - began

    def give_up(self, condition: Condition) -> None:
        """Find out whether the target is gone or only refuses a condition; leave that out.

        Raises:
            TargetError: It does not answer the base either.
        """
        error = self.last_error
        if condition == BASE or not self.is_alive():
            raise TargetError(
                expected="answers", found=f"{ERRORS_IN_A_ROW} errors in a row, the last: {error}"
            )
        self.given_up.add(condition)
        self.journal.append({"name": "given up", "condition": condition.key, "error": error})

    def is_alive(self) -> bool:
        """Answer whether the base's session still answers."""
        answer = self.ask_one(self.base, self.options.prompts[0])
        return answer.error is None

    def tell_progress(self, step: Step, label: str) -> None:
        """Tell how far the audit is."""
        now = self.clock()
        if self.looked_s is None or now - self.looked_s >= LOOK_S:
            self.pace.look()
            self.looked_s = now
        expected = self.pace.expected
        left = None if expected is None else max(0.0, expected - (now - self.looked_s))
        self.tell(
            Progress(
                done=self.done,
                total=self.total,
                label=label,
                round=step.round,
                calls=self.meter.spent.calls,
                tokens=self.meter.spent.tokens,
                seconds_left=left,
                observations=len(self.seen),
            )
        )


def places_of(step: Step) -> tuple[Place, ...]:
    """List the answers of a step."""
    key = step.condition.key
    return tuple((key, p.id, step.round, step.repeat) for p in step.prompts)


def count_answers(visits: Iterable[Visit]) -> int:
    """Count the answers of some visits."""
    return sum(len(step.prompts) for visit in visits for step in visit.steps)


def change(prompt: AuditPrompt) -> AuditPrompt:
    """Change a prompt by a little."""
    if prompt.messages:
        *before, (role, content) = prompt.messages
        return replace(prompt, messages=(*before, (role, content + ADDITION)))
    return replace(prompt, text=f"{prompt.text or ''}{ADDITION}")
