"""How a token is chosen in a stable generation: by one row alone, never by its companions.

The loop (samebits.remedies.batch) reads logits and asks a chooser once for every row that
has not ended, in row order. A chooser sees one row, gives a token, and may give the row's KV
entries anew: it repairs what it computed better, the loop writes that into its own cache in place
of the row's entries before the token is fed, and feeds the token. So a chooser never touches a
cache, and the loop never recomputes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from samebits.engine.request import SamplingParams
from samebits.engine.sample import check_logits, draw
from samebits.numerics import reference
from samebits.numerics.philox import draw_u64
from samebits.remedies.reader import Ids


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowState:
    """One row before its next token."""

    logits: Tensor
    """(V,), raw and without NaN, in the dtype that the model gave."""
    ids: Ids
    """Prompt and output so far, without padding. The cache holds an entry for each."""
    num_prompt_tokens: int
    request: int
    """Place of the prompt in the call; to report by, never to choose by."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Choice:
    """What follows a row."""

    token: int
    keys_values: Sequence[tuple[Tensor, Tensor]] | None = None
    """None, or the entries of all `ids`, one (H, T, D) pair a layer, in row order and without
    padding. They are rounded to the cache's dtype; layers with a sliding window take the last."""


class Chooser(Protocol):
    """Chooses tokens.

    What it does must depend on logits, ids and its own settings alone: then a generation through
    it stays invariant to companions.
    """

    def choose(self, row: RowState) -> Choice:
        """Choose what follows a row."""
        ...


class Greedy:
    """Chooses the lowest id among the greatest raw logits."""

    def choose(self, row: RowState) -> Choice:
        """Choose what follows a row."""
        return Choice(token=lowest_greatest(row.logits))


def lowest_greatest(logits: Tensor) -> int:
    """Give the lowest id among the greatest of logits (V,)."""
    # argmax does not say which of equals it gives.
    return int((logits == logits.max()).nonzero()[0, 0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Draws from the softmax of the logits, rounded to float32, by integers.

    A draw depends on (seed, sample index, position of the token, logits): equal prompts under one
    seed get equal answers, in whatever company. torch's generators are not used.

    Source: docs/numerics.md, "Sampling".
    """

    temperature: float
    """Above 0."""
    seed: int
    """In [0, 2**64)."""
    sample_index: int = 0

    def choose(self, row: RowState) -> Choice:
        """Choose what follows a row.

        Raises:
            UnsupportedInput: A logit is infinite once it is rounded to float32.
        """
        logits = row.logits.detach().to("cpu", torch.float32).numpy().astype(np.float32)
        check_logits(logits)
        params = SamplingParams(temperature=self.temperature, seed=self.seed)
        u = draw_u64(self.seed, self.sample_index, len(row.ids))
        return Choice(token=draw(logits, params, u, reference))
