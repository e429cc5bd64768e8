"""Where an epsilon comes from: how far conditions were seen to move the logits.

A measurement, not a proof: an unseen prompt, condition or machine may move them further.
"""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from samebits.errors import ConfigError, UnsupportedInput
from samebits.remedies.guard.candidates import Logits, widen

SAFETY = 1.25
"""The largest of n exchangeable drifts is exceeded by the next with probability 1/(n + 1); the
factor is room for that, and for prompts unlike the measured ones."""
NEAREST = 16
"""Tokens whose drift counts though they are no rivals at this step: others like them will be at
others, and steps with rivals alone would be too few to measure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A measured bound of the drift.

    Raises:
        ConfigError: A delta below 0 or not finite, no steps, a factor below 1.
    """

    delta: float
    """Largest drift seen, in nats (`measure_drift`)."""
    steps: int
    """Comparisons it is the largest of."""
    source: str
    """What was compared with what."""
    safety: float = SAFETY
    """Epsilon is 2 · delta · safety."""
    conditions: tuple[str, ...] = ()
    """Under which steps were run."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """(share, drift) of the steps; ascending."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.delta) and self.delta >= 0):
            raise ConfigError(expected="a drift, finite and at least 0", found=str(self.delta))
        if self.steps < 1:
            raise ConfigError(expected="a drift over 1 step or more", found=str(self.steps))
        check_safety(self.safety)

    @property
    def epsilon(self) -> float:
        """The distance within which tokens are too close to call, in nats."""
        return 2 * self.delta * self.safety

    def value(self) -> dict[str, Any]:
        """Give all of it as plain values."""
        return asdict(self) | {"epsilon": self.epsilon}

    def __str__(self) -> str:
        return (
            f"2 × {self.delta:.4g} × {self.safety:g}, the largest drift seen in {self.steps} steps"
            f" ({self.source}); measured, not proven"
        )


def check_safety(safety: float) -> None:
    """Refuse what would make epsilon smaller than was measured.

    Raises:
        ConfigError: Below 1, or not finite.
    """
    if not (np.isfinite(safety) and safety >= 1):
        raise ConfigError(expected="a safety factor of at least 1", found=str(safety))


def measure_drift(logits: Logits, canonical: Logits) -> float:
    """Measure how far logits lie from the canonical ones, as far as it can reach a choice, in nats.

    With d = logits - canonical and s the distance from its lowest to its highest value, no token
    that lies more than s below the canonical top can be the top of the logits. Over the contenders,
    which are all others and at least the NEAREST greatest, half the distance from the lowest to the
    highest d is given: the least delta such that they lie within delta of the canonical ones after
    a common shift, which moves no gap.

    Args:
        logits, canonical: (V,), at equal ids.
    Raises:
        UnsupportedInput: Two lengths, or as for `candidates`.
    """
    if logits.shape != canonical.shape:
        raise UnsupportedInput(
            expected="two rows over one vocabulary", found=f"{logits.shape}, {canonical.shape}"
        )
    truth = widen(canonical)
    moved = widen(logits) - truth
    place = max(0, len(truth) - NEAREST)
    depth = max(np.ptp(moved), truth.max() - np.partition(truth, place)[place])
    return float(np.ptp(moved[truth.max() - truth <= depth])) / 2
