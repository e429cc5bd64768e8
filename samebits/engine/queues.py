"""The lanes that run and wait, and their pages: what steps are chosen from and applied to.

Knows no sampling and no arithmetic.
"""

from bisect import insort
from collections.abc import Collection
from operator import attrgetter

from samebits.engine.limits import Limits
from samebits.engine.pages import Pages
from samebits.engine.scheduler import Lane, Step, next_step
from samebits.errors import InvariantBroken

BY_ARRIVAL = attrgetter("number")


class Queues:
    """Hold lanes in order of arrival.

    Attributes:
        lanes: Every lane, running or waiting, by number.
        num_preempted: Lanes that gave their pages back, in all.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.pages = Pages(limits.num_pages)
        self.running: list[Lane] = []
        self.waiting: list[Lane] = []
        self.lanes: dict[int, Lane] = {}
        self.num_preempted = 0

    def add(self, lane: Lane) -> None:
        """Let a new lane wait."""
        self.lanes[lane.number] = lane
        insort(self.waiting, lane, key=BY_ARRIVAL)

    def plan(self) -> Step:
        """Choose the next step.

        Raises:
            InvariantBroken: Lanes are there and none of them can advance.
        """
        step = next_step(self.running, self.waiting, self.pages, self.limits)
        if self.lanes and not step.runs:
            raise InvariantBroken(expected="a lane that can advance", found="none")
        return step

    def apply(self, step: Step) -> None:
        """Move lanes and pages as the step says, preemptions first."""
        for number in step.preempted:
            self.preempt(self.lanes[number])
        for number in step.grown:
            self.lanes[number].pages += self.pages.take(1)
        for admission in step.admitted:
            lane = self.lanes[admission.lane]
            lane.pages = self.pages.share(admission.shared) + self.pages.take(admission.num_new)
            lane.computed = len(admission.shared) * self.limits.page_tokens
            self.waiting.remove(lane)
            insort(self.running, lane, key=BY_ARRIVAL)

    def advance(self, step: Step) -> None:
        """Note that the runs of a step are computed."""
        for run in step.runs:
            self.lanes[run.lane].computed = run.stop

    def preempt(self, lane: Lane) -> None:
        """Take a running lane's pages and let it wait; its tokens are computed again later."""
        self.running.remove(lane)
        self.release(lane)
        insort(self.waiting, lane, key=BY_ARRIVAL)
        self.num_preempted += 1

    def remove(self, lane: Lane) -> None:
        """Forget a lane, finished or cancelled."""
        del self.lanes[lane.number]
        (self.running if lane in self.running else self.waiting).remove(lane)
        self.release(lane)

    def release(self, lane: Lane) -> None:
        """Give a lane's pages back."""
        held, lane.pages, lane.computed = lane.pages, [], 0
        self.pages.give_back(held)

    def check_integrity(self, expected: Collection[int]) -> None:
        """Compare queues, lanes and pages and the lanes expected with one another.

        Raises:
            InvariantBroken: They disagree.
        """
        queued = [lane.number for lane in (*self.running, *self.waiting)]
        if not sorted(queued) == sorted(self.lanes) == sorted(expected):
            raise InvariantBroken(expected=f"lanes {sorted(expected)}", found=str(queued))
        if any(lane.pages for lane in self.waiting):
            raise InvariantBroken(expected="no pages in waiting lanes", found="some")
        self.pages.check_integrity([lane.pages for lane in self.running])
