"""The passes of a shape's self-test: prompts, whole or through the first layers, and steps.

All that a pass computes for a row is put down as digests, so that a large cache is never kept.
Runs where torch is.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import Module, ModuleList

from samebits.remedies.bits import digest_bits
from samebits.remedies.fixed import lay_out
from samebits.remedies.reader import Ids, Reader

FEWEST_LAYERS = 4
"""Layers that a shallow pass reads at least."""

Plan = Sequence[Ids]
"""The contents of a batch's rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a batch gave."""

    plan: Plan
    rows: list[list[str]]
    """For each row, the digests of all that was seen of it, in the order of the passes."""

    def add(self, seen: Sequence[Tensor]) -> None:
        """Put down values (B, ...), each row's apart."""
        for values in seen:
            for row, digests in enumerate(self.rows):
                digests.append(digest_bits(values[row]))


def begin(plan: Plan) -> Reading:
    """Begin with nothing seen."""
    return Reading(plan=plan, rows=[[] for _ in plan])


class Shallow(Exception):
    """End a pass after the first layers, on purpose."""


@dataclass(slots=True, kw_only=True)
class Look:
    """Whether a layer was seen."""

    is_made: bool = False


class PromptPasses:
    """Prompt passes over one model, of which the first is whole."""

    def __init__(self, model: Any, bucket: int) -> None:
        self.model = model
        self.bucket = bucket
        self.last = find_last(model)
        """The layer after which a shallow pass ends; None: all passes are whole."""

    def read_whole(self, plan: Plan) -> tuple[Reading, Any]:
        """Read prompts through all layers, and give the KV cache of the first row, too."""
        reader, reading = self.make_reader(plan), begin(plan)
        with looking(self.last, reader, reading, is_end=False) as look:
            logits = reader.read_prompt()
        if not look.is_made:
            # Its layers are not where they were looked for.
            self.last = None
        reading.add([logits, *list_cached(reader)])
        repeat_first(reader, 1)
        return reading, reader.cache

    def read(self, plan: Plan) -> Reading:
        """Read prompts through the first layers; through all where these cannot be told apart."""
        if self.last is None:
            return self.read_whole(plan)[0]
        reader, reading = self.make_reader(plan), begin(plan)
        with looking(self.last, reader, reading, is_end=True):
            reader.read_prompt()
        return reading

    def make_reader(self, plan: Plan) -> Reader:
        """Lay the rows out."""
        return Reader(self.model, lay_out(tuple(plan), self.bucket))


@contextmanager
def looking(
    layer: Module | None, reader: Reader, reading: Reading, *, is_end: bool
) -> Iterator[Look]:
    """Put down what a layer gives, and the KV cache up to it; end the pass there if wanted."""
    look = Look()

    def see(_module: Module, _args: Any, output: Any) -> None:
        hidden = output if isinstance(output, Tensor) else output[0]
        reading.add([hidden, *list_cached(reader)])
        look.is_made = True
        if is_end:
            raise Shallow

    hook = None if layer is None else layer.register_forward_hook(see)
    try:
        yield look
    except Shallow:
        pass
    finally:
        if hook is not None:
            hook.remove()


def read_steps(model: Any, plan: Plan, bucket: int, cache: Any, stops: Sequence[int]) -> Reading:
    """Decode after a cache of one row, which every row of the batch gets.

    A short content hides all of it but the last position: steps see what they would after it.

    Args:
        stops: Numbers of steps after which the whole KV cache is looked at; the last ends.
    """
    reader, reading = Reader(model, lay_out(tuple(plan), bucket)), begin(plan)
    reader.cache, reader.ids = copy.deepcopy(cache), reader.pad()
    repeat_first(reader, len(plan))
    for step in range(stops[-1]):
        # What follows a row is taken from the row.
        follows = [[row[step % len(row)]] for row in plan]
        reading.add([reader.feed(torch.tensor(follows, device=reader.device))])
        if step + 1 in stops:
            reading.add(list_cached(reader))
    return reading


def repeat_first(reader: Reader, count: int) -> None:
    """Give every row of a batch the KV cache of the first."""
    cache: Any = reader.cache
    cache.reorder_cache(torch.zeros(count, dtype=torch.long, device=reader.device))


def list_cached(reader: Reader) -> list[Tensor]:
    """List what the cache holds so far (B, ...), keys and values of each layer."""
    assert reader.cache is not None
    kept = (
        getattr(layer, name, None) for layer in reader.cache.layers for name in ("keys", "values")
    )
    rows = len(reader.layout.rows)
    return [x for x in kept if isinstance(x, Tensor) and x.ndim and x.shape[0] == rows]


def find_last(model: Any) -> Module | None:
    """Find the layer up to which every kind of layer was met; None if that takes all of them."""
    lists = [part for part in model.modules() if isinstance(part, ModuleList)]
    layers: list[Module] = list(max(lists, key=len, default=()))
    types = getattr(model.config.get_text_config(), "layer_types", None) or ()
    first: dict[object, int] = {}
    for place, layer in enumerate(layers):
        first.setdefault((*types[place : place + 1], describe(layer)), place)
    count = max(FEWEST_LAYERS, 1 + max(first.values(), default=0))
    return layers[count - 1] if count < len(layers) else None


def describe(layer: Module) -> object:
    """Say which kernels a layer runs: its parts, and the shapes and dtypes of its weights."""
    parts = tuple(type(part) for part in layer.modules())
    named = (*layer.named_parameters(), *layer.named_buffers())
    weights = tuple((name, tuple(values.shape), values.dtype) for name, values in named)
    return parts, weights
