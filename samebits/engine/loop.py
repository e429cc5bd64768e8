"""The loop under every request: choose a step, compute it, draw tokens, free what is finished.

Knows token ids only. An exception in a step, an interrupt included, drops every request and frees
every page: nothing half done is left.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import count
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.engine.generation import Generation, SampleState
from samebits.engine.limits import Limits
from samebits.engine.output import TokenEvent
from samebits.engine.queues import Queues
from samebits.engine.runner import run_step
from samebits.engine.sample import SamplerKernels
from samebits.engine.scheduler import Lane
from samebits.errors import RequestError
from samebits.model.decoder import Decoder
from samebits.numerics import reference
from samebits.numerics.order_free import OrderFree
from samebits.numerics.selftest import check_modes


class Loop:
    """Serve requests step by step.

    Attributes:
        decoder: The model.
        limits: Sizes of pool and steps.
        cache: Keys and values, one handle a layer.
        queues: What runs and waits.
        samples: The sample that each lane computes, by number of the lane.
        lock: Held while any of these changes: callers may be threads, and serve one another.
    """

    def __init__(self, decoder: Decoder, limits: Limits) -> None:
        self.decoder = decoder
        self.limits = limits
        self.cache: Sequence[Any] = decoder.make_cache(
            num_pages=limits.num_pages, page_tokens=limits.page_tokens
        )
        self.numbers = count()
        self.lock = RLock()
        self.reset()

    def reset(self) -> None:
        """Drop every request and free every page."""
        with self.lock:
            self.queues = Queues(self.limits)
            self.samples: dict[int, SampleState] = {}

    @property
    def kernels(self) -> SamplerKernels:
        """What draws tokens: the arithmetic's own kernel set, or the reference under plain ones."""
        arithmetic = self.decoder.arithmetic
        return arithmetic.kernels if isinstance(arithmetic, OrderFree) else reference

    def submit(self, generation: Generation) -> None:
        """Let a request wait for its turn; `step` serves it."""
        with self.lock:
            request = next(self.numbers)
            for sample in generation.samples:
                lane = Lane(
                    number=next(self.numbers),
                    request=request,
                    prompt_len=len(generation.prompt_ids),
                    tokens=list(generation.prompt_ids),
                )
                self.samples[lane.number] = sample
                self.queues.add(lane)

    def cancel(self, generation: Generation) -> None:
        """Drop a request, finished or not, and free its pages."""
        with self.lock:
            for number, sample in list(self.samples.items()):
                if sample.generation is generation:
                    self.finish(number)

    def take_news(self, generation: Generation) -> tuple[list[TokenEvent], bool]:
        """Take the tokens drawn since the last call; say whether those are the last."""
        with self.lock:
            news = list(generation.events)
            generation.events.clear()
            return news, generation.is_finished

    def advance(self, generation: Generation) -> None:
        """Run one step, unless another thread's step has already brought news for `generation`.

        Raises:
            RequestError: The request was dropped with a failed step.
            UnsupportedInput: The numbers overflowed; every request is dropped.
        """
        with self.lock:
            if not generation.events and not generation.is_finished:
                self.check_under_way(generation)
                self.step()

    def step(self) -> bool:
        """Run one step; False if there was nothing to do.

        Raises:
            UnsupportedInput: The numbers overflowed; every request is dropped.
        """
        with self.lock:
            if not self.queues.lanes:
                return False
            check_modes()
            with ExitStack() as undo:
                undo.callback(self.reset)
                step = self.queues.plan()
                self.queues.apply(step)
                numbers, logits = run_step(
                    step.runs,
                    self.queues.lanes,
                    self.decoder,
                    self.cache,
                    page_tokens=self.limits.page_tokens,
                )
                self.queues.advance(step)
                for number, row in zip(numbers, logits, strict=True):
                    self.accept(number, row)
                undo.pop_all()
            return True

    def accept(self, number: int, logits: NDArray[np.float32]) -> None:
        """Draw a lane's next token; free the lane if that was the last."""
        sample = self.samples[number]
        event = sample.accept(logits, self.kernels)
        sample.generation.events.append(event)
        self.queues.lanes[number].tokens.append(event.token_id)
        if event.finish_reason:
            self.finish(number)

    def finish(self, number: int) -> None:
        """Free a lane."""
        del self.samples[number]
        self.queues.remove(self.queues.lanes[number])

    def check_under_way(self, generation: Generation) -> None:
        """Refuse to wait for a request that was dropped with a failed step.

        Raises:
            RequestError: Nobody computes it any more.
        """
        if not any(sample.generation is generation for sample in self.samples.values()):
            raise RequestError(
                expected="the request under way",
                found="dropped, because a step failed or was interrupted",
                remedy="Send it again.",
            )

    def check_integrity(self) -> None:
        """Compare samples, queues and pages with one another.

        Raises:
            InvariantBroken: They disagree.
        """
        self.queues.check_integrity(self.samples)
