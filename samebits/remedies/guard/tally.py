"""What a guard did, counted and kept."""

import threading
from collections import deque
from dataclasses import asdict, dataclass, replace
from typing import Any

from samebits.remedies.guard.guard import Decision

KEPT = 10_000
"""Decisions of fired steps that a tally keeps; all are counted."""
Row = int | str
"""Which sequence: a row of a batch, or the id of a request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Sums over steps."""

    steps: int = 0
    fired: int = 0
    changed: int = 0
    """Fired steps in which plain greedy search would have taken another token."""
    outside: int = 0
    """Fired steps whose oracle chose a token that was no candidate."""
    asked: int = 0
    """Fired steps in which an oracle was asked."""
    largest_drift: float = 0.0
    """Among the asked, in nats."""

    def add(self, decision: Decision) -> "Counts":
        """Count one more step."""
        return replace(
            self,
            steps=self.steps + 1,
            fired=self.fired + decision.fired,
            changed=self.changed + decision.changed,
            outside=self.outside + decision.outside,
            asked=self.asked + (decision.drift is not None),
            largest_drift=max(self.largest_drift, decision.drift or 0.0),
        )


class Tally:
    """Count the steps of all sequences and keep what fired steps decided.

    Threads may share one: every method holds its lock.
    """

    def __init__(self, epsilon: float, keep: int = KEPT) -> None:
        """Start at nothing.

        Args:
            epsilon: The guard's. keep: Fired steps to keep, the latest; all are counted.
        """
        self.epsilon = epsilon
        self._lock = threading.Lock()
        self._counts: dict[Row, Counts] = {}
        self._kept: deque[tuple[Row, Decision]] = deque(maxlen=keep)

    def add(self, decision: Decision, row: Row = 0) -> None:
        """Count a step of a row; keys and values are not kept."""
        with self._lock:
            self._counts[row] = self._counts.get(row, Counts()).add(decision)
            if decision.fired:
                self._kept.append((row, replace(decision, keys_values=None)))

    def counts(self, row: Row | None = None) -> Counts:
        """Give the sums of a row, or of all."""
        with self._lock:
            if row is not None:
                return self._counts.get(row, Counts())
            return sum_counts(list(self._counts.values()))

    def decisions(self, row: Row | None = None) -> list[Decision]:
        """Give the kept fired steps of a row, or of all, oldest first."""
        with self._lock:
            return [decision for which, decision in self._kept if row in (None, which)]

    def value(self) -> dict[str, Any]:
        """Give all of it as plain values."""
        with self._lock:
            rows = {str(row): asdict(counts) for row, counts in self._counts.items()}
            kept = [{"row": row} | decision.value() for row, decision in self._kept]
        return {"epsilon": self.epsilon, "rows": rows, "fired": kept, "kept": self._kept.maxlen}

    def summary(self) -> str:
        """Say in a sentence or two what the guard did, and whether epsilon was wide enough."""
        sums = self.counts()
        text = (
            f"{sums.fired} of {sums.steps} steps had tokens within {self.epsilon:.4g} of the top;"
            f" {sums.changed} took another than plain greedy search."
        )
        return f"{text} {describe_drift(sums, self.epsilon)}" if sums.asked else text


def describe_drift(sums: Counts, epsilon: float) -> str:
    """Hold the drift that fired steps showed against epsilon."""
    seen = f"The oracle's logits were up to {sums.largest_drift:.4g} away"
    if 2 * sums.largest_drift <= epsilon:
        return f"{seen}, at most half of epsilon."
    return f"{seen}, more than half of epsilon: steps that did not fire may differ; widen it."


def sum_counts(parts: list[Counts]) -> Counts:
    """Add sums up."""
    names = ("steps", "fired", "changed", "outside", "asked")
    totals = {name: sum(getattr(part, name) for part in parts) for name in names}
    largest = max((part.largest_drift for part in parts), default=0.0)
    return Counts(**totals, largest_drift=largest)
