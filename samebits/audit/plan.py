"""What an audit asks, and in which order.

From a target's facts to contrasts, and from contrasts to the visits of one round. A round asks, in
one session, each condition once, then again in reverse order (A B C, C B A): what drifts with time
falls on both sides of every contrast. Conditions that need another process are asked in between.
Pure functions; run.py carries them out. Decision: docs/decisions/0007-how-an-audit-judges.md.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from samebits.audit.axes import AXES, BASE, Contrast
from samebits.audit.budget import Budget
from samebits.audit.condition import Condition, Process
from samebits.audit.judge import DETECT
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import NotTested
from samebits.audit.target import Target, TargetFacts
from samebits.errors import ConfigError

REPEATS = 2
"""Calls of each condition and prompt in the first round; one more in each later round."""
RECORDED = ("repeat",)
"""Axes of an audit that only records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What was asked of an audit."""

    prompts: tuple[AuditPrompt, ...]
    companions: tuple[AuditPrompt, ...]
    nonce: str
    """Random, drawn once an audit: marks of cold prefixes are made of it."""
    axes: tuple[str, ...] | None = None
    """Keys of the axes to test; None: all."""
    max_tokens: int = 32
    budget: Budget = field(default_factory=Budget)
    detect: float = DETECT
    """Share of prompts that a clean contrast has to be able to show."""
    record_only: bool = False
    """Ask the base twice and nothing else, for a comparison with another record."""

    @property
    def axis_keys(self) -> tuple[str, ...]:
        """Keys of the axes to test, in the order of AXES."""
        wanted = RECORDED if self.record_only else self.axes
        return tuple(axis.key for axis in AXES if wanted is None or axis.key in wanted)

    @property
    def fewest_prompts(self) -> int:
        """The fewest prompts that show a rate of `detect`, were they all clean: 11 for 25 %."""
        return math.ceil(math.log(0.05) / math.log1p(-self.detect))

    def check(self) -> None:
        """Refuse what no audit can be made of.

        Raises:
            ConfigError: An unknown axis, no prompts, or a number out of range.
        """
        known = [axis.key for axis in AXES]
        if unknown := sorted(set(self.axes or ()) - set(known)):
            raise ConfigError(expected=f"axes among {', '.join(known)}", found=", ".join(unknown))
        if not self.prompts or self.axes == ():
            raise ConfigError(expected="at least one prompt and one axis", found="none")
        ids = {prompt.id for prompt in self.prompts}
        if len(ids) != len(self.prompts):
            raise ConfigError(expected="prompts with ids of their own", found="one id twice")
        if not 0 < self.detect < 1 or self.max_tokens < 1:
            raise ConfigError(
                expected="a rate between 0 and 1 to detect and at least one token",
                found=f"{self.detect} and {self.max_tokens}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What will be asked of one target."""

    facts: TargetFacts
    prompts: tuple[AuditPrompt, ...]
    contrasts: tuple[Contrast, ...]
    not_tested: tuple[NotTested, ...]


class Want(NamedTuple):
    """A contrast to ask about, and the prompts to ask."""

    contrast: Contrast
    prompts: tuple[AuditPrompt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call for each of some prompts."""

    condition: Condition
    prompts: tuple[AuditPrompt, ...]
    round: int
    repeat: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Steps made in one session, one after another."""

    process: Process
    steps: tuple[Step, ...]
    is_fresh: bool = False
    """Whether the session has to be a process that answered nothing yet."""
    leans: str = ""
    """Names a block whose calls depend on their order: it is made whole, or again; empty: the
    calls are independent."""


def make_plan(options: AuditOptions, target: Target, facts: TargetFacts) -> Plan:
    """List the contrasts that a target can be asked for, and why not the others."""
    contrasts: list[Contrast] = []
    refused: list[NotTested] = []
    for axis in AXES:
        if axis.key not in options.axis_keys:
            continue
        levels = axis.contrasts(facts, BASE)
        if not levels:
            reason = "the target has nothing to choose from here"
            refused.append(NotTested(axis=axis.key, level="", reason=reason))
        for contrast in levels:
            reason = refuse(contrast, target, facts)
            if reason:
                refused.append(NotTested(axis=axis.key, level=contrast.level, reason=reason))
            else:
                contrasts.append(contrast)
    return Plan(
        facts=facts,
        prompts=options.prompts,
        contrasts=tuple(contrasts),
        not_tested=tuple(refused),
    )


def refuse(contrast: Contrast, target: Target, facts: TargetFacts) -> str:
    """Say why a target cannot bring a contrast about; empty if it can."""
    return target.refuse(contrast.base, facts) or target.refuse(contrast.treated, facts)


def num_repeats(number: int) -> int:
    """Count the calls of each condition and prompt in one round: 2, then 3, then 4."""
    return REPEATS + number


def plan_first(plan: Plan) -> tuple[Visit, ...]:
    """List the visits of the first round: all contrasts, all prompts."""
    wants = [Want(contrast, plan.prompts) for contrast in plan.contrasts]
    return plan_round(wants, plan.prompts, 0)


def plan_round(
    wants: Sequence[Want], prompts: Sequence[AuditPrompt], number: int
) -> tuple[Visit, ...]:
    """List the visits of one round, for contrasts and the prompts each wants.

    Contrasts share the answers of a condition: it is asked once for all that want it. Repeats:
    2 in round 0, one more in each later round.

    Args:
        prompts: All of the audit, for their order.
        number: Of the round, from 0.
    """
    plain = collect_plain(wants, prompts)
    repeats = num_repeats(number)
    here = {c: asked for c, asked in plain.items() if c.process == BASE.process}
    passes = [tuple(walk(here, number, repeat)) for repeat in range(repeats)]
    half = repeats // 2
    visits = [
        Visit(process=BASE.process, steps=sum(passes[:half], ())),
        *lean_visits(wants, number, repeats),
        *other_visits(plain, number, repeats),
        Visit(process=BASE.process, steps=sum(passes[half:], ())),
    ]
    return tuple(visit for visit in visits if visit.steps)


def collect_plain(
    wants: Sequence[Want], prompts: Sequence[AuditPrompt]
) -> dict[Condition, tuple[AuditPrompt, ...]]:
    """Unite, by condition, the prompts of all contrasts whose calls are independent."""
    ids: dict[Condition, set[str]] = {}
    for contrast, wanted in wants:
        if not contrast.leans:
            for condition in (contrast.base, contrast.treated):
                chosen = wanted[: contrast.max_prompts]
                ids.setdefault(condition, set()).update(prompt.id for prompt in chosen)
    return {c: tuple(p for p in prompts if p.id in found) for c, found in ids.items()}


def walk(
    asked: dict[Condition, tuple[AuditPrompt, ...]], number: int, repeat: int
) -> Iterator[Step]:
    """Ask each condition once: forwards, and backwards every second time."""
    way = -1 if repeat % 2 else 1
    for condition, prompts in list(asked.items())[::way]:
        yield Step(condition=condition, prompts=prompts[::way], round=number, repeat=repeat)


def other_visits(
    asked: dict[Condition, tuple[AuditPrompt, ...]], number: int, repeats: int
) -> Iterator[Visit]:
    """Visit each other process once, and ask there as often as is needed."""
    for process in dict.fromkeys(condition.process for condition in asked):
        if process != BASE.process:
            there = {c: prompts for c, prompts in asked.items() if c.process == process}
            passes = [tuple(walk(there, number, repeat)) for repeat in range(repeats)]
            yield Visit(process=process, steps=sum(passes, ()))


def lean_visits(wants: Sequence[Want], number: int, repeats: int) -> Iterator[Visit]:
    """Visit once for each prompt of contrasts whose calls depend on their order.

    What can be had only once a block, the cold prefix or the first call, is asked once and first;
    the other condition follows, as often as in any block of this round.
    """
    for contrast, wanted in wants:
        if contrast.leans:
            for prompt in wanted[: contrast.max_prompts]:
                yield Visit(
                    process=BASE.process,
                    steps=tuple(lean_steps(contrast, prompt, number, repeats)),
                    is_fresh=contrast.base.call.first is not None,
                    leans=contrast.axis,
                )


def lean_steps(
    contrast: Contrast, prompt: AuditPrompt, number: int, repeats: int
) -> Iterator[Step]:
    """Give one call of the condition that comes first, then those of the other."""
    pair = (contrast.base, contrast.treated)
    once, often = pair if contrast.base.call.first is None else pair[::-1]
    yield Step(condition=once, prompts=(prompt,), round=number, repeat=0)
    for repeat in range(repeats):
        yield Step(condition=often, prompts=(prompt,), round=number, repeat=repeat)


def name_block(nonce: str, attempt: int, visit: Visit, step: Step) -> str:
    """Name the block that a step belongs to; leaning blocks get one that no call bore before."""
    if not visit.leans:
        return f"{nonce}-{step.round}"
    parts = (nonce, attempt, step.round, visit.leans, step.prompts[0].id)
    return sha256("\x1f".join(map(str, parts)).encode(errors="replace")).hexdigest()[:16]
