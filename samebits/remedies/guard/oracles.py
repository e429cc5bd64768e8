"""Oracles that read a sequence anew with a model of transformers: alone, in one pass, no cache.

What comes out is a function of the ids, with the model, the machine and its settings (threads,
libraries, instruction set) as they are: the shapes of such a pass depend on the length only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samebits.errors import ConfigError
from samebits.remedies.guard.actions import Canonical
from samebits.remedies.guard.candidates import Logits
from samebits.remedies.precision import plan, raised
from samebits.remedies.reader import Layout, Reader


class RecomputeAlone:
    """Read the whole sequence in one pass, alone, in the model's own dtype.

    As exact as the model itself: it settles a choice, and is no nearer to the truth than another
    condition. The keys and values of its pass repair the row's.
    """

    def __init__(self, model: Any) -> None:
        """Take a model in evaluation mode.

        Raises:
            ConfigError: It is in training mode, so that dropout draws.
        """
        check_evaluating(model)
        self.model = model

    def decide(self, ids: Sequence[int]) -> Logits:
        """Give the logits (V,) after the ids; see `Oracle`."""
        return self.recompute(ids).logits

    def recompute(self, ids: Sequence[int]) -> Canonical:
        """Give them with keys and values; see `RepairingOracle`."""
        layout = Layout(rows=(tuple(ids),), length=len(ids), pad_id=0)
        reader = Reader(self.model, layout)
        with torch.no_grad():
            logits = reader.read_prompt()[0]
        return Canonical(to_numpy(logits), reader.take_keys_values(0))

    def describe(self) -> str:
        """Say how the logits are made."""
        dtype = str(next(self.model.parameters()).dtype).removeprefix("torch.")
        return f"the whole sequence in one pass, alone, in {dtype}"


class RecomputePrecise(RecomputeAlone):
    """The same with the weights as they are and arithmetic in float32 or float64.

    Each operation widens what it takes (samebits/remedies/precision.py), so that memory stays near
    the model's own. The keys and values of its pass are rounded once, to the cache's dtype.
    """

    def __init__(self, model: Any, dtype: str = "float32") -> None:
        """Take a model in evaluation mode.

        Raises:
            ConfigError: Another dtype than float32 or float64, training mode, or quantised weights.
        """
        super().__init__(model)
        self.dtype = dtype
        self.plan = plan(model, dtype)

    def recompute(self, ids: Sequence[int]) -> Canonical:
        """Give logits with keys and values; see `RepairingOracle`."""
        with raised(self.model, self.plan):
            return super().recompute(ids)

    def describe(self) -> str:
        """Say how the logits are made."""
        return f"the whole sequence in one pass, alone, in {self.dtype}"


def check_evaluating(model: Any) -> None:
    """Refuse a model whose dropout draws.

    Raises:
        ConfigError: It is in training mode.
    """
    if model.training:
        raise ConfigError(
            expected="a model in evaluation mode",
            found="one in training mode",
            remedy="Call model.eval() first.",
        )


def to_numpy(logits: Tensor) -> NDArray[np.float32] | NDArray[np.float64]:
    """Bring logits to NumPy; bfloat16 is widened, which is exact."""
    here = logits.detach().cpu()
    return (here.float() if here.dtype is torch.bfloat16 else here).numpy()
