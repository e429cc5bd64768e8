"""A loop over a model's forward, which hands out the raw logits of every step and the KV cache.

Reads prompts as transformers' generate does (a dynamic cache, logits of the last position): rows
of different lengths are padded at the left to one. Knows nothing of requests or of how a token is
chosen. Runs where torch is.
"""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from samebits.errors import ConfigError, InvariantBroken

Ids = tuple[int, ...]


class KeysValues(NamedTuple):
    """What one layer remembers of one row, in row order and without padding."""

    keys: Tensor
    """(H, T, D)."""
    values: Tensor
    """(H, T, D)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Rows to read together."""

    rows: tuple[Ids, ...]
    """Token ids; of different lengths if wanted."""
    length: int
    """Tokens a row has once it is padded at the left."""
    pad_id: int
    passes: tuple[int, ...] = ()
    """Tokens of each pass over the rows, padding included; empty: one pass."""
    kv_cache: bool = True
    """False: every pass reads everything anew."""
    always_mask: bool = False
    """Whether a mask is handed over even where no row has padding."""

    def __post_init__(self) -> None:
        longest = max((len(row) for row in self.rows), default=0)
        if not longest or longest > self.length or min(map(len, self.rows)) == 0:
            lengths = sorted({len(row) for row in self.rows})
            raise InvariantBroken(
                expected=f"rows of 1 to {self.length} tokens", found=f"lengths {lengths}"
            )
        if self.passes and sum(self.passes) != self.length:
            raise InvariantBroken(expected=f"passes over {self.length}", found=str(self.passes))

    @property
    def paddings(self) -> tuple[int, ...]:
        """Padding before each row, in tokens."""
        return tuple(self.length - len(row) for row in self.rows)


class Reader:
    """Rows on their way through a model, pass by pass.

    Attributes:
        ids: (B, T) fed so far, padding included.
        cache: The KV cache, or None.
        paddings: (B,), tokens of padding before each row.
    """

    def __init__(self, model: Any, layout: Layout) -> None:
        self.model = model
        self.layout = layout
        self.device = next(model.parameters()).device
        self.ids = torch.zeros((len(layout.rows), 0), dtype=torch.long, device=self.device)
        self.paddings = torch.tensor(layout.paddings, device=self.device)
        self.options = list_options(model)
        # The configuration tells the cache which layers have a sliding window.
        self.cache = DynamicCache(config=model.config) if layout.kv_cache else None

    def read_prompt(self) -> Tensor:
        """Feed the rows; (B, V), the logits after them."""
        parts = torch.split(self.pad(), list(self.layout.passes or (self.layout.length,)), dim=1)
        return [self.feed(part) for part in parts][-1]

    def pad(self) -> Tensor:
        """Give the rows with their padding: (B, length)."""
        pad_id = self.layout.pad_id
        rows = zip(self.layout.paddings, self.layout.rows, strict=True)
        return torch.tensor([(pad_id,) * count + row for count, row in rows], device=self.device)

    def feed(self, ids: Tensor, keep: int = 1) -> Tensor:
        """Feed tokens (B, t); (B, V), the logits of the last, or (B, keep, V) of the last ones."""
        self.ids = torch.cat((self.ids, ids), dim=1)
        fed = self.ids if self.cache is None else ids
        # Who names no argument, as a wrapper does, hands all of them on.
        is_open = "input_ids" not in self.options
        extra: dict[str, Any] = {}
        if "logits_to_keep" in self.options:
            extra["logits_to_keep"] = keep
        if is_open or "position_ids" in self.options:
            extra["position_ids"] = self.make_positions(fed.shape[1])
        if is_open or "attention_mask" in self.options:
            extra["attention_mask"] = self.make_mask()
        if self.cache is not None:
            extra[self.options["cache"]] = self.cache
        output = self.model(input_ids=fed, use_cache=self.cache is not None, **extra)
        logits: Tensor = output.logits[:, -keep:]
        return logits[:, 0] if keep == 1 else logits

    def make_mask(self) -> Tensor | None:
        """Make a mask (B, T) that hides the padding; None where there is none, unless asked."""
        if not (self.layout.always_mask or any(self.layout.paddings)):
            return None
        places = torch.arange(self.ids.shape[1], device=self.device)
        return (places >= self.paddings[:, None]).long()

    def make_positions(self, count: int) -> Tensor:
        """Number the last `count` tokens (B, count); the first after a row's padding is 0."""
        total = self.ids.shape[1]
        places = torch.arange(total - count, total, device=self.device)
        return (places - self.paddings[:, None]).clamp(min=0)

    def take_keys_values(self, row: int) -> tuple[KeysValues, ...]:
        """Copy what the cache holds of a row, one entry a layer.

        Layers with a sliding window hold the last positions alone.
        """
        return tuple(
            KeysValues(keys[row].clone(), values[row].clone())
            for keys, values in self.list_entries(row)
        )

    def write_keys_values(self, row: int, repaired: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Write a row's entries anew, in place; values are rounded to the cache's dtype.

        Args:
            row: Which; the others keep their bits.
            repaired: Keys and values of each layer, for all of the row's positions so far. Layers
                with a sliding window take the last ones.
        Raises:
            InvariantBroken: The entries do not fit the cache.
        """
        entries = self.list_entries(row)
        if len(entries) != len(repaired):
            raise InvariantBroken(
                expected=f"entries for {len(entries)} layers", found=str(len(repaired))
            )
        for old, new in zip(entries, repaired, strict=True):
            for place, written in zip(old, new, strict=True):
                write_last(place[row], written)

    def list_entries(self, row: int) -> list[tuple[Tensor, Tensor]]:
        """List views (B, H, T, D) of each layer's cache, past the row's padding."""
        if self.cache is None:
            raise InvariantBroken(expected="a reader with a KV cache", found="one without")
        return [self.view(layer, row) for layer in self.cache.layers]

    def view(self, layer: Any, row: int) -> tuple[Tensor, Tensor]:
        """View one layer's cache past the row's padding.

        Raises:
            ConfigError: The layer keeps no keys and values by position.
        """
        keys, values = (getattr(layer, name, None) for name in ("keys", "values"))
        if not isinstance(keys, Tensor) or keys.ndim != 4 or not isinstance(values, Tensor):
            raise ConfigError(
                expected="layers that keep keys and values by position",
                found=type(layer).__name__,
            )
        dropped = self.ids.shape[1] - keys.shape[2]
        start = max(0, self.layout.paddings[row] - dropped)
        return keys[:, :, start:], values[:, :, start:]


def write_last(place: Tensor, written: Tensor) -> None:
    """Write the last positions of (H, T, D) over a place (H, T', D), T' at most T.

    Raises:
        InvariantBroken: They have other heads or widths, or too few positions.
    """
    count = place.shape[1]
    last = written[:, written.shape[1] - count :] if written.shape[1] >= count else written
    if last.shape != place.shape:
        raise InvariantBroken(
            expected=f"entries of shape {tuple(place.shape)}", found=str(tuple(written.shape))
        )
    place.copy_(last)


def list_arguments(model: Any) -> set[str]:
    """List the arguments that a model's forward names."""
    return set(inspect.signature(type(model).forward).parameters)


def list_options(model: Any) -> dict[str, str]:
    """List the arguments of a model's forward, with the name it has for a cache."""
    names = {name: name for name in list_arguments(model)}
    return names | {"cache": names.get("cache", "past_key_values")}
