"""Computation in more digits than the weights have: in float32 or float64, whole or in parts.

The weights stay as they are. Each operation that takes one gets it cast, and the cast copy is
dropped after it; a large matrix is cast piece by piece. Modules are not changed but for their
`forward`, which is wrapped, and restored exactly. The KV cache holds the dtype in which attention
is computed: with a precision for all, or for attention, it grows accordingly.

The parts, and what each covers:
- all: every operation of the model, from the embedding to the logits, which come out wide.
- logits: the output matrix and what follows it. Its input stays rounded to the weights' dtype.
- norms: each norm as a whole, its product with the weight included; then one rounding.
- attention: attention modules as a whole (projections, rotary embedding with its sines, scores,
  softmax, sum, output projection), and the rotary module. One rounding after it.
- residual: the sums between blocks. What enters a block is rounded to the weights' dtype; what
  leaves it has been rounded by the block, or not, if the block is a part as well.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from samebits.errors import ConfigError
from samebits.remedies.precision_mode import Wide
from samebits.remedies.precision_parts import PARTS, Found, find_parts

DTYPES = {"float32": torch.float32, "float64": torch.float64}
Precision = str | Mapping[str, str] | None
"""A dtype for all, a dtype by part, or None: as the weights."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """Which modules of a model compute in which dtype."""

    described: Mapping[str, str]
    """Part to dtype."""
    modules: tuple["Part", ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One module that computes in another dtype."""

    module: nn.Module
    inside: torch.dtype | None
    """In which it computes; None: as it does."""
    outside: torch.dtype | None
    """To which its output is cast; None: left as it comes; float16 and the like: rounded."""
    is_back: bool = False
    """Whether the output is cast to the dtype of the input instead."""


def plan(model: Any, precision: Precision) -> Plan:
    """Lay out a precision for a model.

    Args:
        precision: "float32" or "float64" for the whole model, or a mapping of parts to them.
    Raises:
        ConfigError: An unknown part or dtype, a part that this model does not show, or quantised
            weights.
    """
    asked = {"all": precision} if isinstance(precision, str) else dict(precision or {})
    for part, name in asked.items():
        if part not in PARTS or name not in DTYPES:
            raise ConfigError(
                expected=f"parts among {', '.join(PARTS)}, each with one of {', '.join(DTYPES)}",
                found=f"{part}: {name}",
            )
    if "all" in asked and len(asked) > 1:
        raise ConfigError(expected="all, or parts", found=", ".join(sorted(asked)))
    if not asked:
        return Plan(described={}, modules=())
    check_weights(model)
    found = find_parts(model, sorted(asked))
    wide = {part: DTYPES[name] for part, name in asked.items()}
    return Plan(
        described=dict(sorted(asked.items())), modules=tuple(list_parts(model, wide, found))
    )


def check_weights(model: Any) -> None:
    """Refuse weights that are no plain floating numbers.

    Raises:
        ConfigError: They are quantised.
    """
    method = getattr(model.config, "quantization_config", None)
    foreign = sorted({str(x.dtype) for x in model.parameters() if not is_plain(x)})
    if method is not None or foreign:
        found = ", ".join(foreign) or f"quantised by {type(method).__name__}"
        raise ConfigError(expected="weights in bfloat16, float16, float32 or float64", found=found)


def is_plain(values: Tensor) -> bool:
    """Answer whether an array holds floating numbers of at least 16 bits."""
    return values.is_floating_point() and values.dtype.itemsize > 1


def list_parts(
    model: Any, wide: Mapping[str, torch.dtype], found: Mapping[str, Found]
) -> Iterator[Part]:
    """List the modules to wrap, each with what goes in and comes out."""
    if "all" in wide:
        yield Part(module=model, inside=wide["all"], outside=None)
        return
    if "logits" in wide:
        yield from (Part(module=x, inside=wide["logits"], outside=None) for x in found["logits"])
    if "attention" in wide:
        is_back = "residual" not in wide
        dtype = wide["attention"]
        for module in found["attention"]:
            yield Part(module=module, inside=dtype, outside=None, is_back=is_back)
        for module in found["rotary"]:
            yield Part(module=module, inside=dtype, outside=None)
    if "norms" in wide:
        # A norm between blocks reads the residual stream, which may be wide: see below.
        for module in found["norms"]:
            yield Part(module=module, inside=wide["norms"], outside=None, is_back=True)
    if "residual" in wide:
        for module in found["embedding"]:
            yield Part(module=module, inside=None, outside=wide["residual"])
        for module in found["block norms"]:
            yield Part(module=module, inside=None, outside=model.dtype)
        if "attention" not in wide:
            # It takes the dtype of the stream it is handed, and would hand it to the blocks.
            for module in found["rotary"]:
                yield Part(module=module, inside=None, outside=model.dtype)


@contextmanager
def raised(model: Any, planned: Plan | Precision) -> Iterator[None]:
    """Let a model compute by a plan, meanwhile; then everything is as it was.

    The caller's autocast is off, meanwhile: it would round by another plan.

    Args:
        planned: A plan made by `plan`, or a precision.
    Raises:
        ConfigError: As `plan`; or, as the model runs, an operation rounds to fewer digits.
    """
    made = planned if isinstance(planned, Plan) else plan(model, planned)
    device = next(model.parameters()).device.type
    with ExitStack() as stack:
        for part in made.modules:
            stack.callback(restore, part.module, vars(part.module).get("forward"))
            vars(part.module)["forward"] = wrap(part, part.module.forward)
        stack.enter_context(torch.autocast(device, enabled=False))
        yield


def restore(module: nn.Module, forward: Any) -> None:
    """Give a module the forward it had; None: that of its class."""
    if forward is None:
        del vars(module)["forward"]
    else:
        vars(module)["forward"] = forward


def wrap(part: Part, forward: Any) -> Any:
    """Wrap a forward so that it computes as a part says."""

    def run(*args: Any, **named: Any) -> Any:
        given = first_dtype((args, named))
        if part.inside is None:
            return cast(forward(*args, **named), part.outside)
        with Wide(part.inside):
            output = forward(*widen(args, part.inside), **widen(named, part.inside))
        return cast(output, given if part.is_back else part.outside)

    return run


def first_dtype(values: Any) -> torch.dtype | None:
    """Give the dtype of the first floating array in nested values; None if there is none."""
    if isinstance(values, Tensor):
        return values.dtype if values.is_floating_point() else None
    parts = values.values() if isinstance(values, dict) else values
    found = (first_dtype(x) for x in parts if isinstance(x, Tensor | dict | tuple | list))
    return next((dtype for dtype in found if dtype is not None), None)


def widen(values: Any, dtype: torch.dtype) -> Any:
    """Cast the floating arrays in nested values that have fewer digits than a dtype."""
    if isinstance(values, Tensor):
        is_narrow = values.is_floating_point() and values.dtype.itemsize < dtype.itemsize
        return values.to(dtype) if is_narrow else values
    return rebuild(values, lambda x: widen(x, dtype))


def cast(values: Any, dtype: torch.dtype | None) -> Any:
    """Cast the floating arrays in nested values."""
    if dtype is None:
        return values
    if isinstance(values, Tensor):
        return values.to(dtype) if values.is_floating_point() else values
    return rebuild(values, lambda x: cast(x, dtype))


def rebuild(values: Any, change: Any) -> Any:
    """Apply a change to the members of a plain tuple, list or dict; anything else is kept."""
    if type(values) is dict:
        return {name: change(value) for name, value in values.items()}
    if type(values) in (tuple, list):
        return type(values)(change(value) for value in values)
    return values
