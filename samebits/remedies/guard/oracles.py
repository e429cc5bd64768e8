"""Oracles that read a sequence anew with a model of transformers: alone, in one pass, no cache.

What comes out is a function of the ids, with the model, the machine and its settings (threads,
libraries, instruction set) as they are: the shapes of such a pass depend on the length only.
"""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from samebits.errors import ConfigError
from samebits.remedies.guard.actions import Canonical
from samebits.remedies.guard.candidates import Logits
from samebits.remedies.reader import Layout, Reader

PRECISE = ("float32", "float64")


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
    """The same with weights as they are and wider arithmetic; holds a wider copy of the model.

    Where the model's own code names float32, as norms do, float64 does not reach.
    """

    def __init__(self, model: Any, dtype: str = "float32") -> None:
        """Copy a model into a wider dtype, once.

        Raises:
            ConfigError: Another dtype than float32 or float64, or training mode.
        """
        if dtype not in PRECISE:
            raise ConfigError(expected=" or ".join(PRECISE), found=dtype)
        check_evaluating(model)
        super().__init__(copy.deepcopy(model).to(getattr(torch, dtype)))


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
