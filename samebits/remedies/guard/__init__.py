"""A guard for near-ties: which tokens are too close to call, and who decides between them.

The core knows arrays of NumPy only; what guards a model of PyTorch's lies in modules of its own,
imported by whoever has one. Normative: docs/guard.md.
"""

from samebits.remedies.guard.actions import (
    Action,
    Canonical,
    Escalate,
    LowestId,
    Oracle,
    Priority,
    RepairingOracle,
    Verdict,
)
from samebits.remedies.guard.calibration import Calibration, measure_drift
from samebits.remedies.guard.candidates import argmax, candidates
from samebits.remedies.guard.guard import Decision, Guard
from samebits.remedies.guard.tally import Counts, Tally

__all__ = [
    "Action",
    "Calibration",
    "Canonical",
    "Counts",
    "Decision",
    "Escalate",
    "Guard",
    "LowestId",
    "Oracle",
    "Priority",
    "RepairingOracle",
    "Tally",
    "Verdict",
    "argmax",
    "candidates",
    "measure_drift",
]
