"""An engine's loop that lets an audit look on: the raw logits of one sample, step by step.

Nothing that is computed changes; receipts bring the bits of a step, this brings its margin.
"""

from threading import Barrier, BrokenBarrierError

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

    def __init__(self, decoder: Decoder, limits: Limits, *, num_together: int = 1) -> None:
        """Build a loop.

        Args:
            num_together: Requests, each of its own thread, that wait for one another before the
                first of them is served; 1: nobody waits.
        """
        super().__init__(decoder, limits)
        self.watched: SampleState | None = None
        self.notes = Notes()
        self.gate = Barrier(num_together)

    def reset(self) -> None:
        """Drop every request and free every page."""
        with self.lock:
            super().reset()
            self.queues = WatchedQueues(self.limits)

    def watch(self, sample: SampleState, notes: Notes) -> None:
        """Look on at a sample from now on."""
        self.watched, self.notes = sample, notes

    def submit(self, generation: Generation) -> None:
        """Let a request wait for its turn, and for the others of its call.

        Raises:
            TargetError: Another request of the call never came.
        """
        super().submit(generation)
        try:
            self.gate.wait(GATE_S)
        except BrokenBarrierError as error:
            raise TargetError(
                expected=f"{self.gate.parties} requests under way", found="fewer"
            ) from error

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
