"""A loop over a model's forward, which hands out the raw logits of every step.

Reads the prompt as transformers' generate does (a dynamic cache, logits of the last position), or
in the parts, with the padding or without the cache that a call asks for. Runs in the worker only.
"""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from samebits.audit.condition import Call
from samebits.audit.observation import STEP_DIGITS
from samebits.audit.targets.hf_rows import cut
from samebits.errors import UnsupportedInput

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


class Step(NamedTuple):
    """One step of a batch."""

    logits: Tensor
    """(V,), of the observed row, in the model's dtype."""
    tokens: Tensor
    """(B,), chosen."""


class Reader:
    """A batch on its way through a model, pass by pass.

    Attributes:
        ids: (B, T) fed so far, padding included.
    """

    def __init__(self, model: Any, batch: Batch) -> None:
        self.model = model
        self.batch = batch
        self.ids = torch.zeros((len(batch.rows), 0), dtype=torch.long)
        self.options = list_options(model)
        # The configuration tells the cache which layers have a sliding window.
        self.cache = DynamicCache(config=model.config) if batch.kv_cache else None

    def read_prompt(self) -> Tensor:
        """Feed the prompt; (B, V), the logits after it."""
        whole = torch.tensor(self.batch.rows)
        whole = torch.nn.functional.pad(whole, (self.batch.padding, 0), value=self.batch.pad_id)
        return [self.feed(part) for part in torch.split(whole, list(self.batch.passes), dim=1)][-1]

    def feed(self, ids: Tensor, keep: int = 1) -> Tensor:
        """Feed tokens (B, t); (B, V), the logits of the last, or (B, keep, V) of the last ones."""
        self.ids = torch.cat((self.ids, ids), dim=1)
        fed = self.ids if self.cache is None else ids
        limit = {"logits_to_keep": keep} if "logits_to_keep" in self.options else {}
        cache = {} if self.cache is None else {self.options["cache"]: self.cache}
        output = self.model(
            input_ids=fed,
            attention_mask=self.make_mask(),
            position_ids=self.make_positions(fed.shape[1]),
            use_cache=self.cache is not None,
            **cache,
            **limit,
        )
        logits: Tensor = output.logits[:, -keep:]
        return logits[:, 0] if keep == 1 else logits

    def make_mask(self) -> Tensor | None:
        """Make a mask (B, T) that hides the padding; None without padding."""
        if not self.batch.padding:
            return None
        mask = torch.ones_like(self.ids)
        mask[:, : self.batch.padding] = 0
        return mask

    def make_positions(self, count: int) -> Tensor:
        """Number the last `count` tokens (B, count); the first after the padding is 0."""
        places = torch.arange(self.ids.shape[1] - count, self.ids.shape[1])
        positions = (places - self.batch.padding).clamp(min=0)
        return positions.expand(len(self.batch.rows), -1)


def list_options(model: Any) -> dict[str, str]:
    """List the arguments of a model's forward, with the name it has for a cache."""
    names = {name: name for name in inspect.signature(type(model).forward).parameters}
    return names | {"cache": names.get("cache", "past_key_values")}


def generate(reader: Reader, choose: Choose, max_tokens: int) -> Iterator[Step]:
    """Read the prompt and make tokens, as far as the steps are taken.

    Raises:
        UnsupportedInput: The model's logits are not numbers.
    """
    logits = reader.read_prompt()
    for count in range(1, max_tokens + 1):
        if bool(logits.isnan().any()):
            raise UnsupportedInput(expected="logits that are numbers", found="NaN")
        tokens = choose(logits)
        yield Step(logits[reader.batch.position], tokens)
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


def digest_bits(values: Tensor) -> str:
    """Give the first 16 hexadecimal digits of the SHA-256 of an array's bytes."""
    data = values.contiguous().view(torch.uint8).numpy().tobytes()
    return hashlib.sha256(data).hexdigest()[:STEP_DIGITS]
