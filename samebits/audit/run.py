"""Runs an audit: asks, looks, asks more where something differs, and says how it ended.

Everything is kept in the journal as it comes. What is asked next is a function of what was seen
before, so that an audit that was stopped asks, once resumed, what it would have asked anyway.
"""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from samebits.audit.asking import Asker, BudgetEnded, Open, change
from samebits.audit.axes import BASE, Contrast
from samebits.audit.bisection import NARROWED, find_middle, value_of
from samebits.audit.budget import Cost, Meter
from samebits.audit.control import make_control
from samebits.audit.evidence import LOOKS
from samebits.audit.fit import ENDED, fit_plan, fit_time
from samebits.audit.journal import Journal
from samebits.audit.judge import Judgement, State, judge_contrasts
from samebits.audit.past import check_same_target, take_past
from samebits.audit.plan import AuditOptions, Plan, Want, make_plan, plan_first, plan_round
from samebits.audit.planned import CONTROL, note_of, note_of_plan, read_note
from samebits.audit.progress import Progress
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import AuditRecord, End, NotTested, Why
from samebits.audit.results import Outcome
from samebits.audit.target import Target
from samebits.errors import TargetError


def run_audit(
    options: AuditOptions,
    target: Target,
    begin: Callable[[Plan], Journal],
    *,
    tell: Callable[[Progress], None],
    clock: Callable[[], float] = time.monotonic,
    past: AuditRecord | None = None,
) -> End:
    """Audit a target, and give the last line of the journal.

    The first round asks every contrast for every prompt. After each round all is judged anew, and
    contrasts that show a difference, whatever its label, and are not decided are asked once more
    on the prompts that differ. An audit is complete when no such contrast is left or LOOKS rounds
    were made, and each threshold found lies between two neighbouring levels.

    Ctrl-C and the end of the budget are ends like others; `why` tells.

    Args:
        begin: Opens the journal once the target's facts are known and the plan is cut to the
            budget's calls and tokens. Whatever it raises ends the audit before the first call.
        tell: Called after each answer.
        clock: Seconds, monotonic.
        past: The record that is resumed, as it was before this attempt.
    Raises:
        ConfigError: An option is wrong, the target was asked for something impossible, or it is
            another one than in `past`.
        TargetError: It cannot be reached, or was lost; then the end says so.
    """
    options.check()
    with ExitStack() as stack:
        began = clock()
        session = stack.enter_context(target.open(BASE.process))
        opened = clock()
        if past is not None:
            check_same_target(past.header.target, session.facts)
        plan = fit_plan(make_plan(options, target, session.facts), options)
        asker = Asker(
            options=options,
            target=target,
            journal=begin(plan),
            base=Open(session, 1 + max((item.number for item in past.sessions), default=0))
            if past
            else Open(session, 1),
            attempt=past.attempt + 1 if past else 0,
            meter=Meter(budget=options.budget, max_tokens=options.max_tokens, clock=clock),
            tell=tell,
            clock=clock,
            target_s=opened - began,
        )
        run = Run(plan=plan, asker=asker, past=past, began_s=began, open_s=opened - began)
        if past is not None:
            take_past(asker, past)
            run.before = asker.meter.spent
            run.exploratory = [c for c in map(read_note, past.notes) if c is not None]
        return run.go()


@dataclass(slots=True, kw_only=True)
class Run:
    """One attempt."""

    plan: Plan
    asker: Asker
    past: AuditRecord | None
    began_s: float
    open_s: float
    """Seconds that the base's session took to open."""
    before: Cost = field(default_factory=Cost)
    """Spent by earlier attempts."""
    exploratory: list[Contrast] = field(default_factory=list)
    """Asked on the way to a threshold."""
    judged: list[Judgement] = field(default_factory=list)
    """As of the last look; those of exploratory contrasts stand last."""
    look: int = 0

    def go(self) -> End:
        """Do everything and write the end, whatever it is."""
        try:
            self.tell_plan()
            self.begin()
            self.make_rounds()
            self.explain()
        except BudgetEnded:
            return self.end(Why.BUDGET, ENDED)
        except KeyboardInterrupt:
            return self.end(Why.INTERRUPTED)
        except TargetError as error:
            self.end(Why.TARGET, str(error))
            raise
        cut = any(item.reason == ENDED for item in self.plan.not_tested)
        return self.end(Why.BUDGET, ENDED) if cut else self.end(Why.COMPLETE)

    def tell_plan(self) -> None:
        """Keep the session, the contrasts, and what is not tested."""
        self.asker.tell_opened(self.asker.base, BASE.process)
        plan = note_of_plan(self.plan.contrasts)
        if not (self.past and plan in self.past.notes):
            self.asker.journal.append(plan)
        self.tell_not_tested(self.plan.not_tested)
        self.tell_prompts()

    def tell_not_tested(self, items: Sequence[NotTested]) -> None:
        """Keep what is not tested, unless the record holds it."""
        known = self.past.not_tested if self.past else ()
        for item in items:
            if item not in known:
                self.asker.journal.append(item)

    def tell_prompts(self) -> None:
        """Note that the budget allows for fewer prompts."""
        num, asked = len(self.plan.prompts), len(self.asker.options.prompts)
        note = {"name": "fewer prompts", "prompts": num, "of": asked, "reason": ENDED}
        if num < asked and not (self.past and note in self.past.notes):
            self.asker.journal.append(note)

    def begin(self) -> None:
        """Make the positive control; or, if an earlier attempt did, one call to begin with."""
        asker = self.asker
        if self.past and any(note.get("name") == CONTROL for note in self.past.notes):
            asker.ask_one(asker.base, change(self.plan.prompts[0]))
        else:
            asker.journal.append(make_control(asker))
        self.cut_to_time()
        self.warm()

    def warm(self) -> None:
        """Ask every prompt once, unobserved, where a server may keep what it has seen.

        Otherwise the first of two equal calls would find the prompt cold and the second warm: that
        is the prefix axis, and held in all others.
        """
        if self.plan.facts.keeps_prefixes:
            for prompt in self.plan.prompts:
                self.asker.ask_one(self.asker.base, prompt)

    def cut_to_time(self) -> None:
        """Cut the plan to the time of the budget, now that the target's rate is known."""
        asker = self.asker
        row_s = asker.pace.seconds / max(1, asker.pace.rows)
        before = self.plan
        self.plan = fit_time(before, asker.options, row_s, self.open_s)
        if self.plan != before:
            self.tell_not_tested(self.plan.not_tested[len(before.not_tested) :])
            self.tell_prompts()

    def make_rounds(self) -> None:
        """Ask, judge, and ask more; then look for thresholds."""
        asker = self.asker
        asker.make(plan_first(self.plan))
        self.leave_out_closed()
        self.judge(0)
        for number in range(1, 1 if asker.options.record_only else LOOKS):
            wants = [
                Want(judgement.evidence.contrast, self.choose(judgement.again))
                for judgement in self.judged
                if judgement.again
            ]
            if not wants:
                break
            asker.make(plan_round(wants, self.plan.prompts, number))
            self.judge(number)
        for axis in NARROWED:
            self.bisect(axis)

    def judge(self, look: int) -> None:
        """Judge what was seen in rounds up to `look`."""
        self.look = look
        self.judged = judge_contrasts(
            self.plan.contrasts,
            self.asker.seen,
            look=look,
            detect=self.asker.options.detect,
            exploratory=self.exploratory,
        )

    def choose(self, ids: Collection[str]) -> tuple[AuditPrompt, ...]:
        """Choose prompts by their ids."""
        return tuple(prompt for prompt in self.plan.prompts if prompt.id in ids)

    def bisect(self, axis: str) -> None:
        """Ask levels between the largest clean one and the smallest found, until they meet."""
        asker = self.asker
        while (want := self.find_middle(axis)) is not None:
            if asker.target.refuse(want.contrast.treated, self.plan.facts):
                return
            asker.make(plan_round([want], self.plan.prompts, 0))
            if want.contrast not in self.exploratory:
                asker.journal.append(note_of(want.contrast))
                self.exploratory.append(want.contrast)
            self.judge(self.look)

    def find_middle(self, axis: str) -> Want | None:
        """Choose the next level of an axis to ask, and the prompts to ask.

        Those that showed the effect, and as many more as a clear level takes. The effect is one on
        tokens if any level has that, else one on bits.
        """
        judged = [item for item in self.judged if item.result.axis == axis]
        for outcome in (Outcome.TOKENS, Outcome.BITS):
            found = [item for item in judged if item.states.get(outcome) is State.FOUND]
            if found:
                break
        else:
            return None
        least = min(found, key=lambda item: value_of(item.evidence.contrast))
        clear = [item for item in judged if item.states.get(outcome) is State.CLEAR]
        contrast = find_middle(
            least.evidence.contrast,
            [item.evidence.contrast for item in clear],
            [item.evidence.contrast for item in judged],
        )
        ids = [*least.result.affected, *(prompt.id for prompt in self.plan.prompts)]
        num = max(len(least.result.affected), self.asker.options.fewest_prompts)
        if contrast is None:
            return None
        return Want(contrast, self.choose(list(dict.fromkeys(ids))[:num]))

    def explain(self) -> None:
        """Look inside a local target where the bits part, once for each axis that moves them."""
        asker = self.asker
        known = {(probe.base, probe.treated) for probe in (self.past.probes if self.past else ())}
        for contrast, prompt in self.list_questions():
            is_late = not asker.meter.allows(BASE.call, prompt)
            if is_late or (contrast.base.key, contrast.treated.key) in known:
                continue
            try:
                probe = asker.probe(contrast, prompt)
            except TargetError as error:
                # All that was asked is answered; only the explanation is lost.
                asker.journal.append({"name": "no probe", "reason": str(error)})
                return
            if probe is not None:
                asker.journal.append(probe)

    def list_questions(self) -> Iterator[tuple[Contrast, AuditPrompt]]:
        """List, for each axis found, its first level found and a prompt that shows it."""
        axes = set()
        for item in self.judged if self.plan.facts.is_local else ():
            result = item.result
            is_found = State.FOUND in item.states.values() and result.base != result.treated
            if is_found and result.axis not in axes and result.affected:
                axes.add(result.axis)
                yield item.evidence.contrast, self.choose(result.affected)[0]

    def leave_out_closed(self) -> None:
        """Keep why processes could not be started, and do without them."""
        closed = self.asker.closed
        self.tell_not_tested(
            [
                NotTested(axis=c.axis, level=c.level, reason=closed[c.treated.process])
                for c in self.plan.contrasts
                if c.treated.process in closed
            ]
        )
        kept = tuple(c for c in self.plan.contrasts if c.treated.process not in closed)
        self.plan = replace(self.plan, contrasts=kept)

    def end(self, why: Why, message: str = "") -> End:
        """Write the last line."""
        asker = self.asker
        end = End(
            why=why,
            message=message,
            own_s=max(0.0, asker.clock() - self.began_s - asker.target_s),
            target_s=asker.target_s,
            calls=asker.meter.spent.calls - self.before.calls,
            tokens=asker.meter.spent.tokens - self.before.tokens,
        )
        asker.journal.append(end)
        return end
