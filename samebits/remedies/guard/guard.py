"""The guard: an epsilon, where it comes from, and what is done within it.

Theorem. Let c be logits that are a function of the ids alone, and let every condition's logits have
a drift from them of at most delta, as `measure_drift` measures it. (They have, if all of them lie
within delta of c.) With `Escalate` to an oracle that gives c, and epsilon >= 2 * delta, every
condition chooses the lowest id among the greatest of c. For let t be the top of a condition's
logits x, and m any greatest of c. Both are contenders, so x[t] - x[m] <= c[t] - c[m] + 2 * delta
<= 2 * delta: m is a candidate. So if t stands alone, it is the only greatest of c; and if not, the
oracle chooses. By induction over the steps all conditions give the same tokens. The boundary is
closed because equality occurs.

`LowestId` and `Priority` have no such property: with a gap that one condition puts at epsilon and
another just above it, one fires and the other does not. tests/remedies/test_guard_theorem.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from samebits.errors import ConfigError
from samebits.remedies.guard.actions import Action, Entries, LowestId, Verdict
from samebits.remedies.guard.calibration import Calibration, measure_drift
from samebits.remedies.guard.candidates import Logits, check_epsilon, list_near, widen


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one step came to."""

    position: int
    """Tokens before it, prompt included."""
    token: int
    argmax: int
    """What plain greedy search takes: the lowest id of the greatest logit."""
    candidates: tuple[int, ...]
    """Ascending; one of them alone means that the guard did not fire."""
    margins: tuple[float, ...]
    """How far each candidate lies below the top, in nats."""
    drift: float | None = None
    """Of the step's logits from the oracle's, in nats (`measure_drift`); None: none was asked."""
    keys_values: Entries | None = field(default=None, repr=False, compare=False)
    """Of the oracle's pass, to repair the cache with; None if there are none."""

    @property
    def fired(self) -> bool:
        """Whether tokens were too close to call."""
        return len(self.candidates) > 1

    @property
    def changed(self) -> bool:
        """Whether plain greedy search would have taken another token."""
        return self.token != self.argmax

    @property
    def outside(self) -> bool:
        """Whether the oracle's choice was no candidate: then epsilon is below twice the drift."""
        return self.token not in self.candidates

    def value(self) -> dict[str, Any]:
        """Give the decision as plain values, without keys and values."""
        return {
            "position": self.position,
            "token": self.token,
            "argmax": self.argmax,
            "candidates": list(self.candidates),
            "margins": list(self.margins),
            "drift": self.drift,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """Decide steps of greedy search in which tokens are too close to call.

    Raises:
        ConfigError: Epsilon is not finite or below 0, or is not that of the calibration; or what is
            given as an action is none.
    """

    epsilon: float
    """In nats, on raw logits; closed."""
    action: Action = field(default_factory=LowestId)
    calibration: Calibration | None = None
    """Where epsilon comes from; None: it was given."""

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        # A class has the methods of its instances, too.
        if isinstance(self.action, type) or not isinstance(self.action, Action):
            raise ConfigError(
                expected="an action: LowestId(), Priority(...) or Escalate(...)",
                found=repr(self.action),
            )
        if self.calibration and self.calibration.epsilon != self.epsilon:
            raise ConfigError(
                expected=f"the calibrated epsilon, {self.calibration.epsilon}",
                found=str(self.epsilon),
                remedy="Guard.calibrated takes it from there.",
            )

    @classmethod
    def calibrated(cls, calibration: Calibration, action: Action) -> "Guard":
        """Make a guard whose epsilon was measured."""
        return cls(epsilon=calibration.epsilon, action=action, calibration=calibration)

    @property
    def origin(self) -> str:
        """Where epsilon comes from."""
        return str(self.calibration) if self.calibration else "given"

    def decide(self, logits: Logits, ids: Sequence[int]) -> Decision:
        """Decide one step of one sequence.

        Args:
            logits: (V,), raw, float16, float32 or float64.
            ids: The sequence so far, prompt and tokens, without padding. Only `Escalate` reads more
                than its length.
        Raises:
            UnsupportedInput: Logits that are not finite, or of another shape or dtype.
        """
        wide = widen(logits)
        top = int(wide.argmax())
        found = list_near(wide, self.epsilon)
        named = tuple(found.tolist())
        verdict = self.action.decide(ids, named, wide) if len(named) > 1 else Verdict(top)
        canonical = verdict.canonical
        return Decision(
            position=len(ids),
            token=verdict.token,
            argmax=top,
            candidates=named,
            margins=tuple((wide[top] - wide[found]).tolist()),
            drift=None if canonical is None else measure_drift(wide, canonical),
            keys_values=verdict.keys_values,
        )

    def describe(self) -> dict[str, Any]:
        """Say what guards, as plain values."""
        return {
            "epsilon": self.epsilon,
            "origin": self.origin,
            "calibration": self.calibration.value() if self.calibration else None,
            "action": self.action.describe(),
        }
