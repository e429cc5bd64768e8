"""The types of the table: a flag, a combination known to leak, and an engine that has them.

Knows no engine by name. What `samebits run` does with a row is decided in remedies/launch_plan.py.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from samebits.errors import InvariantBroken
from samebits.lock.variables import VARIABLES
from samebits.remedies.seeds_unread import list_seeds

THREADS = "{threads}"
"""Stands in a value for the thread count that is asked for."""
DOCUMENTED = "from documentation"
"""Of a row that was read about, and not tried or looked up in an installed source."""


class Kind(StrEnum):
    """Where a flag is given."""

    VARIABLE = "environment variable"
    OPTION = "command-line option"
    CALL = "Python call"


class Device(StrEnum):
    """What a flag acts on."""

    ANY = "any"
    CPU = "cpu"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One setting, what it fixes, and what it does not."""

    kind: Kind
    name: str
    value: str
    """The value that fixes; empty for an option that takes none. May hold `THREADS`."""
    fixes: str
    not_covered: str
    cost: str
    """What the source says; "none stated" if it says nothing."""
    checked: str
    """Versions whose source or behaviour was looked at, or `DOCUMENTED`."""
    source: str
    """Address of the page or file that says so."""
    device: Device = Device.ANY
    is_set: bool = True
    """Whether `samebits run` gives it unasked; the others have a price that one must want."""
    accepts: str = ""
    """Regular expression, in any case of letters, of other values that do as well."""

    def fill(self, threads: int) -> str:
        """Give the value with a thread count in it."""
        return self.value.replace(THREADS, str(threads))

    def takes(self, found: str, threads: int) -> bool:
        """Answer whether a value that somebody else has set does as well."""
        if found.casefold() == self.fill(threads).casefold():
            return True
        return bool(self.accepts and re.fullmatch(self.accepts, found, re.ASCII | re.IGNORECASE))

    def spell(self, threads: int | None = None) -> str:
        """Spell it as it is written down; N stands for threads that are not yet known."""
        value = self.value.replace(THREADS, "N" if threads is None else str(threads))
        if self.kind is Kind.CALL:
            return f"{self.name} = {value}" if value else self.name
        joint = "=" if self.kind is Kind.VARIABLE else " "
        return f"{self.name}{joint}{value}" if value else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a command would run with."""

    variables: Mapping[str, str]
    options: Mapping[str, str]
    """Of the command, by name without leading hyphens and with hyphens inside."""
    device: Device

    def has(self, name: str, pattern: str) -> bool:
        """Answer whether a variable is set to a value of this shape, in any case of letters."""
        found = self.variables.get(name, "")
        return bool(re.fullmatch(pattern, found, re.ASCII | re.IGNORECASE))

    def option(self, *names: str) -> str | None:
        """Give the value of the first of these options that is there; empty if it takes none."""
        return next((self.options[name] for name in names if name in self.options), None)

    def counts(self, *names: str) -> int:
        """Give the number that an option holds; 0 if it is not there or no number."""
        found = self.option(*names) or ""
        return int(found) if re.fullmatch(r"\d{1,9}", found, re.ASCII) else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A combination that is known to give other bits than it promises, or none."""

    name: str
    happens: Callable[[Setup], bool]
    why: str
    way_out: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFlags:
    """An engine's flags."""

    name: str
    """As it is asked for: pytorch, vllm …"""
    title: str
    flags: tuple[Flag, ...]
    leaks: tuple[Leak, ...] = ()
    not_covered: tuple[str, ...] = ()
    """What no flag of this engine fixes, in sentences."""
    next_step: str = ""
    """How to see in the engine's own report what took effect; empty where we can see it."""

    def on(self, device: Device) -> Iterator[Flag]:
        """List the flags that act on a device."""
        return (flag for flag in self.flags if flag.device in (Device.ANY, device))

    def describe(self) -> dict[str, Any]:
        """Give plain values, for JSON."""
        return {
            "engine": self.name,
            "title": self.title,
            "flags": [describe_flag(flag) for flag in self.flags],
            "leaks": [
                {"name": x.name, "why": x.why, "way_out": x.way_out, "source": x.source}
                for x in self.leaks
            ],
            "seeds": [asdict(seed) for seed in list_seeds(self.name)],
            "not_covered": list(self.not_covered),
            "next_step": self.next_step,
        }


def describe_flag(flag: Flag) -> dict[str, Any]:
    """Give the plain values of a flag."""
    return {
        "kind": str(flag.kind),
        "name": flag.name,
        "value": flag.value,
        "device": str(flag.device),
        "is_set": flag.is_set,
        "fixes": flag.fixes,
        "not_covered": flag.not_covered,
        "cost": flag.cost,
        "checked": flag.checked,
        "source": flag.source,
    }


def check_engine(engine: EngineFlags) -> None:
    """Refuse a table with a row that has no source, says nothing, or stands there twice.

    Raises:
        InvariantBroken: It has; names the row.
    """
    sources = [(flag.name, flag.source) for flag in engine.flags]
    sources += [(leak.name, leak.source) for leak in engine.leaks]
    for name, source in sources:
        if not source.startswith("https://"):
            raise InvariantBroken(expected=f"{name}: an address", found=repr(source))
    for flag in engine.flags:
        if not all((flag.fixes, flag.not_covered, flag.cost, flag.checked)):
            raise InvariantBroken(expected=f"{flag.name}: every column", found="an empty one")
        if flag.kind is Kind.VARIABLE and flag.name not in VARIABLES:
            raise InvariantBroken(expected=f"{flag.name} on the allow-list", found="it is not")
    names = [(flag.kind, flag.name, flag.value.partition("=")[0]) for flag in engine.flags]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise InvariantBroken(expected="each flag once", found=f"{twice[0][1]} twice")
