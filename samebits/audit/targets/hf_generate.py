"""An audit's batch, step by step: the raw logits of the observed row, and tokens for all rows.

The loop over the model's forward is samebits.remedies.reader's; here stand the parts, the padding
and the cache that a call asks for. Runs in the worker only.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from samebits.audit.condition import Call
from samebits.audit.targets.hf_rows import cut
from samebits.errors import UnsupportedInput
from samebits.remedies.reader import Layout, Reader

Choose = Callable[[Tensor], Tensor]
"""Logits (B, V) to token ids (B,)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Prompts to read together."""

    rows: tuple[tuple[int, ...], ...]
    """Token ids; all of one length."""
    position: int
    """The observed row."""
    padding: int
    pad_id: int
    passes: tuple[int, ...]
    """Tokens of each pass over the prompt, padding included."""
    kv_cache: bool

    @classmethod
    def of(cls, call: Call, rows: tuple[tuple[int, ...], ...], pad_id: int) -> "Batch":
        """Lay a batch out as a call says."""
        return cls(
            rows=rows,
            position=call.position,
            padding=call.padding,
            pad_id=pad_id,
            passes=cut(call, len(rows[0])),
            kv_cache=call.kv_cache,
        )

    def open(self, model: Any) -> Reader:
        """Give a reader that has read nothing yet."""
        layout = Layout(
            rows=self.rows,
            length=self.padding + len(self.rows[0]),
            pad_id=self.pad_id,
            passes=self.passes,
            kv_cache=self.kv_cache,
        )
        return Reader(model, layout)


class Step(NamedTuple):
    """One step of a batch."""

    logits: Tensor
    """(V,), of the observed row, in the model's dtype."""
    tokens: Tensor
    """(B,), chosen."""


def generate(reader: Reader, position: int, choose: Choose, max_tokens: int) -> Iterator[Step]:
    """Read the prompt and make tokens, as far as the steps are taken.

    Raises:
        UnsupportedInput: The model's logits are not numbers.
    """
    logits = reader.read_prompt()
    for count in range(1, max_tokens + 1):
        if bool(logits.isnan().any()):
            raise UnsupportedInput(expected="logits that are numbers", found="NaN")
        tokens = choose(logits)
        yield Step(logits[position], tokens)
        if count < max_tokens:
            logits = reader.feed(tokens[:, None])


def make_choose(call: Call) -> Choose:
    """Give the rule by which a call picks tokens; a seed is set here, once for the call.

    Sampling draws all rows from torch's one generator, as transformers' generate does.

    Raises:
        UnsupportedInput: A seed that torch does not take.
    """
    if call.temperature == 0:
        return PICKS[call.pick]
    set_seed(call.seed)

    def draw(logits: Tensor) -> Tensor:
        scores = logits.float() / call.temperature
        return torch.multinomial(scores.softmax(dim=-1), 1)[:, 0]

    return draw


def set_seed(seed: str) -> None:
    """Seed torch's generator; from the system if there is no seed."""
    if seed in ("absent", "null"):
        torch.seed()
        return
    try:
        torch.manual_seed(int(seed))
    except (ValueError, RuntimeError) as error:
        raise UnsupportedInput(expected="a seed of 64 bits", found=repr(seed)) from error


def pick_lowest(logits: Tensor) -> Tensor:
    """Choose the lowest id among the greatest logits (B, V)."""
    return rank(logits).min(dim=-1).values


def pick_highest(logits: Tensor) -> Tensor:
    """Choose the highest id among the greatest logits (B, V)."""
    ids = rank(logits)
    return ids.masked_fill(ids == logits.shape[-1], -1).max(dim=-1).values


def pick_after_softmax(logits: Tensor) -> Tensor:
    """Choose after a log-softmax in the logits' own dtype, which makes ties."""
    return pick_lowest(logits.log_softmax(dim=-1))


def rank(logits: Tensor) -> Tensor:
    """Give the id where a logit is its row's greatest, V elsewhere."""
    ids = torch.arange(logits.shape[-1])
    return torch.where(logits == logits.max(dim=-1, keepdim=True).values, ids, len(ids))


PICKS: dict[str, Choose] = {
    "lowest": pick_lowest,
    "highest": pick_highest,
    "log-softmax": pick_after_softmax,
}
