"""An engine's loop that lets an audit look on: the raw logits of one sample, step by step.

Nothing that is computed changes; receipts bring the bits of a step, this brings its margin.
"""

from collections.abc import Callable
from threading import Condition

import numpy as np
from numpy.typing import NDArray

from samebits.engine import Limits
from samebits.engine.generation import Generation, SampleState
from samebits.engine.loop import Loop
from samebits.engine.queues import Queues
from samebits.engine.sample import best_ids
from samebits.engine.scheduler import Step
from samebits.errors import TargetError
from samebits.model.decoder import Decoder

GATE_S = 60.0
"""How long a request waits for those that are to run beside it."""


class Notes:
    """What was seen of one sample's raw logits.

    Attributes:
        margins: Largest minus second largest, a step. seconds: Id of the second.
        logits: Those of step `keep`, (V,), or None.
    """

    def __init__(self, keep: int | None = None) -> None:
        self.keep = keep
        self.margins: list[float] = []
        self.seconds: list[int] = []
        self.logits: NDArray[np.float32] | None = None

    def take(self, logits: NDArray[np.float32]) -> None:
        """Note a step's raw (V,) logits; among equal ones the lower id is the better."""
        if len(self.margins) == self.keep:
            self.logits = logits.copy()
        best, second = best_ids(logits, 2)
        self.margins.append(float(logits[best]) - float(logits[second]))
        self.seconds.append(int(second))


class WatchedQueues(Queues):
    """Queues that remember the step under way."""

    last: Step = Step()

    def plan(self) -> Step:
        """Choose the next step."""
        self.last = super().plan()
        return self.last


class WatchedLoop(Loop):
    """Serve requests, and look on at one sample."""

    queues: WatchedQueues

    def __init__(self, decoder: Decoder, limits: Limits) -> None:
        super().__init__(decoder, limits)
        self.watched: SampleState | None = None
        self.notes = Notes()
        self.arrivals = Condition()
        self.num_arrived = 0
        self.num_expected = 0

    def reset(self) -> None:
        """Drop every request and free every page."""
        with self.lock:
            super().reset()
            self.queues = WatchedQueues(self.limits)

    def watch(self, sample: SampleState, notes: Notes) -> None:
        """Look on at a sample from now on."""
        self.watched, self.notes = sample, notes

    def expect(self, count: int) -> None:
        """Let the next `count` requests, each of its own thread, start together.

        They arrive in the order of their places, however their threads run: an order of arrival
        that is left to chance would be a second thing that changes.
        """
        self.num_arrived, self.num_expected = 0, count

    def submit(self, generation: Generation) -> None:
        """Let a request wait for its turn, and for all that it is to start with.

        Raises:
            TargetError: Another of them never came.
        """
        if not self.num_expected:
            super().submit(generation)
            return
        with self.arrivals:
            self.wait_until(lambda: self.num_arrived == generation.prompt)
            super().submit(generation)
            self.num_arrived += 1
            self.arrivals.notify_all()
            self.wait_until(lambda: self.num_arrived == self.num_expected)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Wait for other requests.

        Raises:
            TargetError: They never came.
        """
        if not self.arrivals.wait_for(is_so, GATE_S):
            raise TargetError(
                expected=f"{self.num_expected} requests under way", found=str(self.num_arrived)
            )

    def accept(self, number: int, logits: NDArray[np.float32]) -> None:
        """Draw a lane's next token."""
        if self.samples[number] is self.watched:
            self.notes.take(logits)
        super().accept(number, logits)

    def locate(self) -> int | None:
        """Give the place of the watched sample among the runs of the step under way, if any."""
        for place, run in enumerate(self.queues.last.runs):
            if self.samples[run.lane] is self.watched:
                return place
        return None
