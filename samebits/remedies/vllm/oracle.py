"""Our engine as the judge of near-ties: loaded when first asked, from the folder that vLLM serves.

Its logits are a function of the token ids alone, whatever vLLM computes besides. Contexts are kept
from step to step, so that a request's tokens are computed once; sb1 gives the same bits however a
text is cut, so this reaches speed and never a decision.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.engine import Engine, Limits
from samebits.engine.pages import Pages
from samebits.engine.runner import run_step
from samebits.engine.scheduler import Lane, Run
from samebits.errors import RequestError, RequestTooLong, SamebitsError
from samebits.model.decoder import Decoder


class Contexts:
    """Logits after any sequence of tokens; remembers the sequences it was asked last."""

    def __init__(self, decoder: Decoder, cache: Sequence[Any], limits: Limits) -> None:
        """Keep nothing yet.

        Args:
            cache: Keys and values, `limits.num_pages` pages; touched as pages are first used.
        """
        self.decoder = decoder
        self.limits = limits
        self.cache = cache
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
        self.check(ids)
        lane = self.take_lane(ids)
        try:
            return self.compute(lane)
        except SamebitsError:
            self.drop(lane)
            raise

    def check(self, ids: Sequence[int]) -> None:
        """Refuse what has no logits."""
        config = self.decoder.config
        if not ids or min(ids) < 0 or max(ids) >= config.vocab_size:
            raise RequestError(
                expected=f"token ids from 0 to {config.vocab_size - 1}", found=f"{len(ids)} others"
            )
        most = min(config.context_len, self.limits.num_pages * self.limits.page_tokens)
        if len(ids) > most:
            raise RequestTooLong(expected=f"at most {most} tokens", found=str(len(ids)))

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


@dataclass(slots=True, kw_only=True)
class LazyOracle:
    """Logits of sb1 for one model folder; loads it when first asked, and tries that once."""

    model: Path
    threads: int
    contexts: Contexts | None = field(default=None, repr=False)
    failure: SamebitsError | None = None
    """Why loading failed; raised again each time."""

    def decide(self, ids: Sequence[int]) -> NDArray[np.float32]:
        """Give the raw logits (V,) after the last id.

        Raises:
            SamebitsError: The model cannot be loaded, or not be asked this.
        """
        return self.load().score_last(ids)

    def load(self) -> Contexts:
        """Load the model, or fail as it failed before."""
        if self.failure is not None:
            raise self.failure
        if self.contexts is None:
            try:
                engine = Engine.load(self.model, threads=self.threads)
            except SamebitsError as error:
                self.failure = error
                raise
            self.contexts = Contexts(engine.decoder, engine.loop.cache, engine.limits)
        return self.contexts

    def describe(self) -> str:
        """Say in one line how the logits are made."""
        return f"sb1, w16, of {self.model.name}"
