"""Logits after sequences that grow: what an oracle asks, step by step.

Sequences are kept from one question to the next, so that a token is computed once. sb1 gives the
same bits however a sequence is cut, so this reaches speed and never a bit.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from samebits.engine.in_force import check_token_ids
from samebits.engine.limits import Limits
from samebits.engine.pages import Pages
from samebits.engine.runner import run_step
from samebits.engine.scheduler import Lane, Run
from samebits.errors import RequestTooLong, SamebitsError
from samebits.model.decoder import Decoder


class Contexts:
    """Logits after any sequence of tokens; remembers the sequences it was asked last."""

    def __init__(self, decoder: Decoder, limits: Limits) -> None:
        """Keep nothing yet, in a key-value cache of its own; memory is used as pages are.

        Args:
            decoder: Of sb1, which gives the same bits however a sequence is cut.
        """
        self.decoder = decoder
        self.limits = limits
        self.cache = decoder.make_cache(num_pages=limits.num_pages, page_tokens=limits.page_tokens)
        self.pages = Pages(limits.num_pages)
        self.lanes: list[Lane] = []
        """Kept sequences, the one asked last at the end."""

    def score_last(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Give the raw logits (V,) after the last of `ids`.

        Raises:
            RequestError: None, or ids that are no tokens of this model.
            RequestTooLong: More than the model's context or all pages.
            UnsupportedInput: The numbers overflowed.
        """
        lane = self.take_lane(self.check(ids))
        try:
            return self.compute(lane)
        except SamebitsError:
            self.drop(lane)
            raise

    def check(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Refuse what has no logits."""
        config = self.decoder.config
        tokens = check_token_ids(ids, config)
        most = min(config.context_len, self.limits.num_pages * self.limits.page_tokens)
        if len(tokens) > most:
            raise RequestTooLong(expected=f"at most {most} tokens", found=str(len(tokens)))
        return tokens

    def take_lane(self, ids: Sequence[int]) -> Lane:
        """Continue the kept sequence that `ids` begin with, all but one token at most; or start."""
        lane = next((kept for kept in self.lanes if is_start(kept.tokens, ids)), None)
        if lane is None:
            lane = Lane(number=0, request=0, prompt_len=len(ids), tokens=[])
        else:
            self.lanes.remove(lane)
        needed = -(-len(ids) // self.limits.page_tokens) - len(lane.pages)
        while needed > self.pages.num_free:
            self.drop(self.lanes[0])
        lane.pages += self.pages.take(max(needed, 0))
        lane.tokens = list(ids)
        lane.computed = min(lane.computed, len(ids) - 1)
        self.lanes.append(lane)
        return lane

    def drop(self, lane: Lane) -> None:
        """Forget a sequence."""
        self.lanes.remove(lane)
        self.pages.give_back(lane.pages)

    def compute(self, lane: Lane) -> NDArray[np.float32]:
        """Compute what is missing of a sequence, in chunks; give the logits after its end."""
        size = min(self.limits.chunk_tokens, self.limits.max_rows)
        while True:
            stop = min(lane.computed + size, len(lane.tokens))
            run = Run(lane=0, start=lane.computed, stop=stop)
            _, logits = run_step(
                [run], {0: lane}, self.decoder, self.cache, page_tokens=self.limits.page_tokens
            )
            lane.computed = stop
            if stop == len(lane.tokens):
                last: NDArray[np.float32] = logits[0]
                return last


def is_start(kept: Sequence[int], ids: Sequence[int]) -> bool:
    """Answer whether all kept tokens are the first of `ids`, or all of `ids` are kept."""
    common = min(len(kept), len(ids))
    return common > 0 and list(kept[:common]) == list(ids[:common])
