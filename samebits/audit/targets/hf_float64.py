"""A model once more in float64, against which rounding is measured. Runs in the worker only.

The weights are those that the model holds, rounded as they are; only the arithmetic is wider.
"""

import copy
import os
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from samebits.audit.targets.hf_generate import Batch
from samebits.audit.targets.hf_rows import Ids
from samebits.audit.targets.hf_trace import Trace, watch

SHARE = 0.5
"""Of the memory that is free, what the copy may take."""


class Widen(TorchFunctionMode):
    """Do in float64 what a model does in float32 by name, as norms and rotary embeddings do."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any | None = None
    ) -> Any:
        if func is torch.Tensor.float:
            return args[0].double()
        wide = [torch.float64 if arg is torch.float32 else arg for arg in args]
        named = {
            name: torch.float64 if value is torch.float32 else value
            for name, value in (kwargs or {}).items()
        }
        return func(*wide, **named)


def read_in_float64(model: Any, ids: Ids) -> Trace | None:
    """Read a sequence in one pass; None if there is no memory for the copy.

    Args:
        model: Of any dtype; left as it is.
        ids: Prompt and tokens.
    """
    num_values = sum(values.numel() for values in model.parameters())
    if num_values * torch.float64.itemsize > SHARE * measure_free_bytes():
        return None
    wide = copy.deepcopy(model).double()
    wide.set_attn_implementation("eager")
    batch = Batch(rows=(ids,), position=0, padding=0, pad_id=0, passes=(len(ids),), kv_cache=False)
    trace = Trace(row=0, num_rows=1, is_whole=True)
    with watch(wide, trace), Widen():
        batch.open(wide).read_prompt()
    return trace


def measure_free_bytes() -> int:
    """Measure the memory that is free, in bytes."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
