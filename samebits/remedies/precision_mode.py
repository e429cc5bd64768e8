"""Operations in a wide dtype over narrow weights: what happens inside a raised part.

Every function of torch that a part calls passes here. Weights are cast for it and dropped after;
where code names float32, as norms and rotary embeddings do, a part in float64 gets float64. An
operation that takes wide values and gives narrower ones is refused by name: digits cannot be lost
unnoticed. Constants that the model holds, rotary frequencies among them, keep the values that they
were given; only the arithmetic on them is wider.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from samebits.errors import ConfigError

GET_DTYPE = torch.Tensor.dtype.__get__  # type: ignore[attr-defined]
"""What code calls that asks a weight for its dtype, in order to round to it."""
PIECE_BYTES = 16 * 2**20
"""Of a cast matrix, at one time. Pieces follow from the weight's shape alone."""


class Wide(TorchFunctionMode):
    """Computes in one dtype over weights of another."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.dtype = dtype

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any | None = None
    ) -> Any:
        named = kwargs or {}
        if func is GET_DTYPE and self.is_narrow(args[0]):
            return self.dtype
        if func is torch.Tensor.float and self.dtype is torch.float64:
            return args[0].double()
        if func in EXACT:
            return EXACT[func](self, args, named)
        wide = [self.cast(value) for value in args]
        output = func(*wide, **{name: self.cast(value) for name, value in named.items()})
        self.check(func, (*wide, *named.values()), output)
        return output

    def is_narrow(self, value: Any) -> bool:
        """Answer whether a value is a weight with fewer digits."""
        if not isinstance(value, nn.Parameter):
            return False
        with torch._C.DisableTorchFunction():
            return value.is_floating_point() and value.dtype.itemsize < self.dtype.itemsize

    def cast(self, value: Any) -> Any:
        """Cast a weight; widen a dtype that is named."""
        if value is torch.float32:
            return self.dtype
        if self.is_narrow(value):
            return widen(value, self.dtype)
        if type(value) in (tuple, list):
            return type(value)(self.cast(part) for part in value)
        return value

    def check(self, func: Any, given: Any, output: Any) -> None:
        """Refuse an operation that loses digits.

        Raises:
            ConfigError: It took values of this dtype and gave narrower ones.
        """
        if not isinstance(output, Tensor) or not output.is_floating_point():
            return
        if output.dtype.itemsize >= self.dtype.itemsize:
            return
        if any(isinstance(x, Tensor) and x.dtype is self.dtype for x in given):
            name = getattr(func, "__name__", str(func))
            raise ConfigError(
                expected=f"a part that can compute in {str(self.dtype).removeprefix('torch.')}",
                found=f"its {name} rounds to {str(output.dtype).removeprefix('torch.')}",
                remedy="Leave this part, or this model, as it is.",
            )


def widen(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Cast an array as it is, whatever watches."""
    with torch._C.DisableTorchFunction():
        return values.detach().to(dtype) if not values.requires_grad else values.to(dtype)


def look_up(mode: Wide, args: Any, named: Any) -> Tensor:
    """Take rows of an embedding, and cast those alone."""
    with torch._C.DisableTorchFunction():
        taken: Tensor = nn.functional.embedding(*args, **named)
        is_narrow = taken.dtype.itemsize < mode.dtype.itemsize
        return taken.to(mode.dtype) if is_narrow else taken


def multiply(mode: Wide, args: Any, named: Any) -> Tensor:
    """Multiply by a matrix (N, K), some of its rows at a time if they are many."""
    told = dict(zip(("input", "weight", "bias"), args, strict=False)) | named
    x, weight, bias = told["input"], told["weight"], mode.cast(told.get("bias"))
    num_rows = max(1, PIECE_BYTES // (weight.shape[1] * mode.dtype.itemsize))
    dtype = torch.promote_types(x.dtype, mode.dtype)
    parts = []
    with torch._C.DisableTorchFunction():
        for start in range(0, len(weight), num_rows):
            piece = weight[start : start + num_rows].to(dtype)
            added = None if bias is None else bias[start : start + num_rows]
            parts.append(nn.functional.linear(x.to(dtype), piece, added))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)


EXACT = {nn.functional.embedding: look_up, nn.functional.linear: multiply}
