"""A batch under way: reads prompts, asks a chooser row by row, until every answer has ended.

Which rows hold prompts and what is kept of a step are the caller's to say. Runs where torch is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from samebits.errors import UnsupportedInput
from samebits.remedies.choose import Chooser, RowState
from samebits.remedies.reader import Ids, Reader


@dataclass(slots=True, kw_only=True, eq=False)
class Row:
    """One answer in the making."""

    prompt: Ids
    request: int
    """Place of the prompt in the call."""
    tokens: list[int] = field(default_factory=list)
    is_live: bool = True


Note = Callable[[Row, Tensor], None]
"""Told after each step of a row, with the logits (V,) that its last token was chosen by."""


def make_rows(prompts: tuple[Ids, ...]) -> list[Row]:
    """Make a row for each prompt of a call."""
    return [Row(prompt=ids, request=place) for place, ids in enumerate(prompts)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Rows that are read together, and what ends them."""

    reader: Reader
    rows: Mapping[int, Row]
    """By place in the batch; what stands at other places is nobody's."""
    chooser: Chooser
    max_tokens: int
    stop_ids: frozenset[int]

    def run(self, note: Note | None = None) -> None:
        """Make tokens until every row has ended.

        Raises:
            UnsupportedInput: Logits that are no numbers.
        """
        logits = self.reader.read_prompt()
        while True:
            for place, row in self.rows.items():
                if row.is_live:
                    self.choose(place, row, logits[place])
                    if note is not None:
                        note(row, logits[place])
            if not any(row.is_live for row in self.rows.values()):
                return
            logits = self.reader.feed(self.list_fed())

    def choose(self, place: int, row: Row, logits: Tensor) -> None:
        """Choose what follows a row by logits (V,), repair its cache entries, end it."""
        if bool(logits.isnan().any()):
            raise UnsupportedInput(
                expected="logits that are numbers", found=f"NaN in prompt {row.request}"
            )
        state = RowState(
            logits=logits,
            ids=(*row.prompt, *row.tokens),
            num_prompt_tokens=len(row.prompt),
            request=row.request,
        )
        choice = self.chooser.choose(state)
        if choice.keys_values is not None and self.reader.cache is not None:
            self.reader.write_keys_values(place, choice.keys_values)
        row.tokens.append(choice.token)
        row.is_live = choice.token not in self.stop_ids and len(row.tokens) < self.max_tokens

    def list_fed(self) -> Tensor:
        """List what each place is fed next (B, 1); where no row goes on, padding."""
        layout = self.reader.layout
        fed = [layout.pad_id] * len(layout.rows)
        for place, row in self.rows.items():
            if row.is_live:
                fed[place] = row.tokens[-1]
        return torch.tensor(fed, device=self.reader.device)[:, None]


def list_stop_ids(model: Any) -> frozenset[int]:
    """List the ids that end an answer, by the model's generation settings."""
    named = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return frozenset(() if named is None else [named] if isinstance(named, int) else named)
