"""What every module of a model gave for one row, in order of execution. Runs in the worker only.

A place is the output of a module, or its input where that is no module's output: what functions
between the modules made of it, such as attention itself or a residual sum.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

LAYER = re.compile(r"\.(\d+)(?:\.|\Z)")
INPUT = " input"
"""Ends the name of a place that is a module's input."""


class Trace:
    """The values at each place for the observed row.

    Attributes:
        outputs: Place to the values of each pass, (t, ...); of the last pass alone if `is_whole`.
    """

    def __init__(self, *, row: int, num_rows: int, is_whole: bool) -> None:
        """Watch one row.

        Args:
            row: Which.
            num_rows: Rows of the batch.
            is_whole: Each pass reads everything anew, as it does without a cache.
        """
        self.row = row
        self.num_rows = num_rows
        self.is_whole = is_whole
        self.outputs: dict[str, list[Tensor]] = {}
        self.num_tokens = 0
        self.known: list[Tensor] = []

    def begin(self, num_tokens: int) -> None:
        """Begin a pass over so many tokens a row."""
        self.num_tokens = num_tokens
        self.known = []

    def see(self, name: str, value: Any) -> None:
        """Keep what stands at a place, unless it is a value that an earlier place has."""
        parts = [x for x in value if isinstance(x, Tensor)] if is_tuple(value) else [value]
        if not parts or any(part is known for part in parts for known in self.known):
            return
        rows = [self.take(part) for part in parts]
        if rows[0] is None:
            return
        self.known += parts
        passes = self.outputs.setdefault(name, [])
        if self.is_whole:
            passes.clear()
        passes.append(torch.cat([row for row in rows if row is not None], dim=1))

    def take(self, value: Any) -> Tensor | None:
        """Copy the observed row (t, ...) of a value (B, t, ...); None if it has another shape."""
        if not isinstance(value, Tensor) or value.ndim < 3:
            return None
        fits = value.shape[0] in (1, self.num_rows) and value.shape[1] in (1, self.num_tokens)
        row = self.row if value.shape[0] == self.num_rows else 0
        return value[row].flatten(start_dim=1).detach().clone() if fits else None

    def join(self, name: str) -> Tensor:
        """Give the values at a place (T, ...), all passes in order."""
        return torch.cat(self.outputs[name])


def is_tuple(value: Any) -> bool:
    """Answer whether a module gave several values, as attention and rotary embeddings do."""
    return isinstance(value, tuple | list)


@contextmanager
def watch(model: Any, trace: Trace) -> Iterator[None]:
    """Let a trace see every module of a model; inputs are those of modules without parts."""

    def begin(_module: Any, _args: Any, named: dict[str, Any]) -> None:
        trace.begin(named["input_ids"].shape[1])

    with ExitStack() as hooks:
        hooks.callback(model.register_forward_pre_hook(begin, with_kwargs=True).remove)
        for name, module in model.named_modules():
            if not name:
                continue
            if not any(True for _ in module.children()):
                hooks.callback(module.register_forward_pre_hook(see_input(trace, name)).remove)
            hooks.callback(module.register_forward_hook(see_output(trace, name)).remove)
        yield


def see_input(trace: Trace, name: str) -> Any:
    """Make the hook that sees a module's input."""
    return lambda _module, args: trace.see(name + INPUT, args[0]) if args else None


def see_output(trace: Trace, name: str) -> Any:
    """Make the hook that sees a module's output."""
    return lambda _module, _args, output: trace.see(name, output)


def depth_of(name: str, reached: int, num_layers: int) -> int:
    """Give the layer of a place; -1 before the first, the number of layers after the last."""
    found = LAYER.search(name)
    if found:
        return int(found.group(1))
    return -1 if reached < 0 else num_layers


def is_same(one: Tensor, other: Tensor) -> bool:
    """Answer whether two arrays have the same bits; the same values if their dtypes differ."""
    if one.dtype != other.dtype:
        return torch.equal(one.double(), other.double())
    bits = [values.contiguous().view(torch.uint8) for values in (one, other)]
    return torch.equal(*bits)


def measure_error(values: Tensor, truth: Tensor) -> float | None:
    """Give ||x - x64|| / ||x64||; None if that is no number."""
    error = (values.double() - truth).norm() / truth.norm()
    return float(error) if bool(error.isfinite()) else None
