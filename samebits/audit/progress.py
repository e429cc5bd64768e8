"""How far an audit is, and how long it will take."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from samebits.audit.budget import num_rows
from samebits.audit.condition import Condition
from samebits.audit.plan import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What can be told after each answer."""

    done: int
    """Answers of the plan that are there, those of earlier attempts included."""
    total: int
    """Answers planned so far; later rounds add to it."""
    label: str
    """What is being asked: "base", or what differs from it, such as "batch=8"."""
    round: int
    """From 0."""
    calls: int
    """Requests sent, all attempts."""
    tokens: int
    """Prompt and output tokens, all attempts; bounded from above where the target does not
    count."""
    seconds_left: float | None
    """For what is planned, from the rates seen so far; None before the first."""
    observations: int
    """Kept in the record."""


class Seen(NamedTuple):
    """Calls of one condition."""

    seconds: float
    calls: int


@dataclass(slots=True, kw_only=True)
class Pace:
    """Seconds a call, by condition, and the calls left."""

    left: Counter[Condition] = field(default_factory=Counter)
    """Calls planned and not made."""
    seen: dict[Condition, Seen] = field(default_factory=dict)
    seconds: float = 0.0
    rows: int = 0
    expected: float | None = None
    """Seconds for what was left at the last look."""

    def plan(self, steps: Iterable[Step]) -> None:
        """Take over what is to be made."""
        self.left.clear()
        for step in steps:
            self.left[step.condition] += len(step.prompts)

    def add(self, condition: Condition, seconds: float) -> None:
        """Count one call."""
        total, calls = self.seen.get(condition, Seen(0.0, 0))
        self.seen[condition] = Seen(total + seconds, calls + 1)
        self.seconds += seconds
        self.rows += num_rows(condition.call)

    def per_call(self, condition: Condition) -> float:
        """Expect the seconds of one call; where none was seen, as many times a row as it has."""
        total, calls = self.seen.get(condition, Seen(0.0, 0))
        if calls:
            return total / calls
        return num_rows(condition.call) * self.seconds / max(1, self.rows)

    def look(self) -> None:
        """Expect the seconds of all that is left; None if nothing was seen yet."""
        expected = sum(num * self.per_call(condition) for condition, num in self.left.items())
        self.expected = expected if self.rows else None


def spell_condition(condition: Condition) -> str:
    """Say what differs from the base."""
    return ", ".join(f"{name}={value}" for name, value in condition.value().items()) or "base"
