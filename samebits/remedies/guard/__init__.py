"""A guard for near-ties: which tokens are too close to call, and who decides between them.

The core knows arrays of NumPy only; what guards a model of PyTorch's is imported when first asked
for, and says which extra to install where there is none. Normative: docs/guard.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

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
from samebits.remedies.torch_extra import need

if TYPE_CHECKING:
    from samebits.remedies.guard.measure import Shape, calibrate
    from samebits.remedies.guard.oracles import RecomputeAlone, RecomputePrecise
    from samebits.remedies.guard.processor import GuardProcessor
    from samebits.remedies.guard.rows import GuardChooser, Guarded, guarded_generate

__all__ = [
    "Action",
    "Calibration",
    "Canonical",
    "Counts",
    "Decision",
    "Escalate",
    "Guard",
    "GuardChooser",
    "GuardProcessor",
    "Guarded",
    "LowestId",
    "Oracle",
    "Priority",
    "RecomputeAlone",
    "RecomputePrecise",
    "RepairingOracle",
    "Shape",
    "Tally",
    "Verdict",
    "argmax",
    "calibrate",
    "candidates",
    "guarded_generate",
    "measure_drift",
]

_TORCH_HOMES = {
    "GuardChooser": "rows",
    "GuardProcessor": "processor",
    "Guarded": "rows",
    "RecomputeAlone": "oracles",
    "RecomputePrecise": "oracles",
    "Shape": "measure",
    "calibrate": "measure",
    "guarded_generate": "rows",
}


def __getattr__(name: str) -> object:
    """Import what needs PyTorch when it is first asked for (PEP 562).

    Raises:
        ConfigError: PyTorch or transformers is missing.
    """
    if name not in _TORCH_HOMES:
        raise AttributeError(f"module 'samebits.remedies.guard' has no attribute {name!r}")
    need("torch", "transformers")
    home = import_module(f"samebits.remedies.guard.{_TORCH_HOMES[name]}")
    value: object = getattr(home, name)
    globals()[name] = value
    return value
