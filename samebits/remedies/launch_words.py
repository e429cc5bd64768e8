"""Puts a plan, and what became of it, into lines for a person.

Of the user's environment only variables on the allow-list are shown, and of the command only its
program and the options that we add: the rest may hold keys.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from samebits.remedies.launch_plan import Plan, show
from samebits.remedies.verify_flags import Check, State

SIGNS = {State.IN_FORCE: "ok", State.IGNORED: "IGNORED", State.UNVERIFIED: "?"}


def list_plan(plan: Plan, *, is_guessed: bool) -> Iterator[str]:
    """Say what will be set and what is left to others."""
    guess = f", guessed from {Path(plan.words[0]).name}" if is_guessed else ""
    threads = f"{plan.threads} thread{'s' if plan.threads > 1 else ''}"
    yield f"engine   {plan.engine.title}{guess}; on the {plan.device.upper()}; {threads}"
    yield f"python   {plan.command.interpreter or 'none that can be found'}"
    for name, value in sorted(plan.added.items()):
        yield f"set      {name}={show(name, value)}"
    for name in plan.removed:
        yield f"unset    {name}"
    for name, value in plan.kept.items():
        yield f"kept     {name}={value}"
    yield from list_options(plan)
    for flag in plan.calls:
        yield f"yours    {flag.spell(plan.threads)}"
    for seed in plan.unread:
        yield f"warning  {seed.path} looks like a seed, and nobody reads it. {seed.instead}"


def list_options(plan: Plan) -> Iterator[str]:
    """Say which options are added, could be, or are given otherwise."""
    word = "added    " if plan.adds_options else "missing  "
    hint = "" if plan.adds_options else "  (--add-options adds it)"
    for flag in plan.options:
        yield f"{word}{flag.spell(plan.threads)}{hint}"
    for flag, value in plan.differing:
        yield f"differs  {flag.name} {value}; {flag.value} would fix {flag.fixes}"


def list_checks(checks: Sequence[Check]) -> Iterator[str]:
    """Say what was asked and what is in force; first what was verified."""
    for state in (State.IN_FORCE, State.IGNORED):
        for check in checks:
            if check.state is state:
                asked = f"asked {check.asked}: {check.found}"
                yield f"{SIGNS[state]:<8} {check.name}: {asked}"
    unverified: dict[str, list[str]] = {}
    for check in checks:
        if check.state is State.UNVERIFIED:
            unverified.setdefault(check.found, []).append(check.name)
    for why, names in unverified.items():
        yield f"{SIGNS[State.UNVERIFIED]:<8} not verified: {', '.join(names)} ({why})"


def list_next(plan: Plan) -> Iterator[str]:
    """Say what to do to see the rest."""
    if plan.calls:
        yield "next     the lines marked yours are for your program to run; see samebits flags"
    if plan.engine.next_step:
        yield f"next     {plan.engine.next_step}"
