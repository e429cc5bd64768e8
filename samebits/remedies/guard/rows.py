"""Guarded generation of a batch as it comes: rows of any lengths, padded at the left.

No fixed shape: batching stays cheap, and the guard pays for the few steps that are too close.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from samebits.errors import ConfigError, UnsupportedInput
from samebits.remedies.batch import Batch, list_stop_ids, make_rows
from samebits.remedies.choose import Choice, RowState
from samebits.remedies.guard.guard import Guard
from samebits.remedies.guard.oracles import check_evaluating, to_numpy
from samebits.remedies.guard.tally import Tally
from samebits.remedies.reader import Ids, Layout, Reader


class GuardChooser:
    """A `Chooser` that asks a guard; rows are tallied by the request's place.

    Attributes:
        guard: The guard. tally: What it did.
    """

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.tally = Tally(guard.epsilon)

    def choose(self, row: RowState) -> Choice:
        """Choose what follows a row, and repair its entries where an oracle has them."""
        decision = self.guard.decide(to_numpy(row.logits), row.ids)
        self.tally.add(decision, row.request)
        return Choice(token=decision.token, keys_values=decision.keys_values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guarded:
    """What a guarded batch came to."""

    tokens: tuple[Ids, ...]
    """Of each prompt, the end-of-sequence token included."""
    tally: Tally
    """Rows are the places of the prompts."""


def guarded_generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    guard: Guard,
    *,
    max_tokens: int,
    stop_ids: Collection[int] | None = None,
    kv_cache: bool = True,
) -> Guarded:
    """Complete a batch by greedy search under a guard.

    With `Escalate`, and epsilon at least twice the drift of this batch, each row's tokens are those
    it has in any other batch. After a step that asked a repairing oracle, the row's cache entries
    are those of the oracle's pass, rounded to the cache's dtype.

    Args:
        model: A causal language model of transformers, in evaluation mode.
        prompts: Token ids; lengths may differ.
        stop_ids: Tokens that end a row; None: those of the model's generation configuration.
        kv_cache: False: read everything anew at every step; nothing is left to repair.
    Raises:
        ConfigError: Training mode, or max_tokens below 1.
        UnsupportedInput: No prompts, an empty one, or logits that are not finite.
    """
    check_evaluating(model)
    check_batch(prompts, max_tokens)
    rows = make_rows(tuple(map(tuple, prompts)))
    chooser = GuardChooser(guard)
    batch = Batch(
        reader=Reader(model, lay_out(prompts, kv_cache=kv_cache)),
        rows=dict(enumerate(rows)),
        chooser=chooser,
        max_tokens=max_tokens,
        stop_ids=list_stop_ids(model) if stop_ids is None else frozenset(stop_ids),
    )
    with torch.no_grad():
        batch.run()
    return Guarded(tokens=tuple(tuple(row.tokens) for row in rows), tally=chooser.tally)


def lay_out(prompts: Sequence[Sequence[int]], *, padding: int = 0, kv_cache: bool = True) -> Layout:
    """Lay prompts out as a batch, padded to the longest and by so many more."""
    rows = tuple(map(tuple, prompts))
    return Layout(rows=rows, length=max(map(len, rows)) + padding, pad_id=0, kv_cache=kv_cache)


def check_batch(prompts: Sequence[Sequence[int]], max_tokens: int) -> None:
    """Refuse what cannot be completed.

    Raises:
        ConfigError: max_tokens below 1.
        UnsupportedInput: No prompts, or an empty one.
    """
    if max_tokens < 1:
        raise ConfigError(expected="max_tokens of at least 1", found=str(max_tokens))
    if not prompts or min(map(len, prompts)) == 0:
        raise UnsupportedInput(
            expected="prompts of at least one token", found=f"lengths {[*map(len, prompts)]}"
        )
