"""What runs next: a pure choice over queues and pages. It reaches speed, never bits.

Decode rows first, then prompts in chunks, then newcomers, all in order of arrival. A sequence gets
the pages of its known tokens when it is admitted, and one more page whenever it outgrows them. If
none is left, the youngest running sequence gives its pages back and waits; its tokens are computed
again later. The oldest can always take the pages of all others, and a request that does not fit
alone is refused when it is submitted: so the oldest always advances, and nothing starves.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from samebits.engine.limits import Limits
from samebits.engine.pages import Pages


@dataclass(slots=True, kw_only=True, eq=False)
class Lane:
    """One sequence: the tokens of one sample of one request, and how far they are computed."""

    number: int
    """Order of arrival; lower is older."""
    request: int
    """Lanes of one request share a prompt."""
    prompt_len: int
    tokens: list[int]
    """Prompt and output so far."""
    computed: int = 0
    """Leading tokens whose keys and values are in the pages."""
    pages: list[int] = field(default_factory=list)

    @property
    def pending(self) -> int:
        """Tokens to compute before the next one can be chosen; at least 1."""
        return len(self.tokens) - self.computed


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A waiting lane that starts to run."""

    lane: int
    shared: tuple[int, ...]
    """Full prompt pages of a running sibling."""
    num_new: int
    """Pages to take besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Tokens [start, stop) of one lane, computed in one step."""

    lane: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step: who gives its pages back, who starts, who gets a page, what is computed."""

    preempted: tuple[int, ...] = ()
    admitted: tuple[Admission, ...] = ()
    grown: tuple[int, ...] = ()
    runs: tuple[Run, ...] = ()


class Plan:
    """The books kept while one step is chosen; the real ones stay untouched."""

    def __init__(self, running: Sequence[Lane], pages: Pages) -> None:
        self.running = list(running)
        self.holders = pages.holders
        self.free = pages.num_free
        self.released: Counter[int] = Counter()
        self.preempted: list[int] = []
        self.grown: list[int] = []
        self.runs: list[Run] = []

    def preempt_youngest(self) -> None:
        """Release the pages of the youngest running lane."""
        lane = self.running.pop()
        self.preempted.append(lane.number)
        for page in lane.pages:
            self.released[page] += 1
            self.free += self.released[page] == self.holders[page]

    def grow(self, lane: Lane) -> bool:
        """Find a page for a lane, from the youngest if need be; False if it was the youngest."""
        while not self.free and lane in self.running:
            self.preempt_youngest()
        if lane not in self.running:
            return False
        self.free -= 1
        self.grown.append(lane.number)
        return True

    def count_rows(self) -> int:
        """Count the rows chosen so far."""
        return sum(run.stop - run.start for run in self.runs)


def next_step(
    running: Sequence[Lane], waiting: Sequence[Lane], pages: Pages, limits: Limits
) -> Step:
    """Choose the next step; change nothing.

    Args:
        running, waiting: each in order of arrival.
    """
    plan = Plan(running, pages)
    plan_decode(plan, limits)
    for lane in plan.running:
        if lane.pending > 1:
            plan_chunk(plan, lane.number, lane.computed, len(lane.tokens), limits)
    admitted = () if plan.preempted else plan_admissions(plan, waiting, limits)
    return Step(
        preempted=tuple(plan.preempted),
        admitted=admitted,
        grown=tuple(plan.grown),
        runs=tuple(plan.runs),
    )


def plan_decode(plan: Plan, limits: Limits) -> None:
    """Give each lane with one pending token its row, oldest first."""
    for lane in list(plan.running):
        if lane.pending > 1 or lane not in plan.running:
            continue
        if len(plan.runs) == limits.max_rows:
            return
        if lane.computed < len(lane.pages) * limits.page_tokens or plan.grow(lane):
            plan.runs.append(Run(lane=lane.number, start=lane.computed, stop=lane.computed + 1))


def plan_chunk(plan: Plan, lane: int, start: int, stop: int, limits: Limits) -> None:
    """Add the next chunk of a prompt, as far as the step has rows left."""
    rows = min(stop - start, limits.chunk_tokens, limits.max_rows - plan.count_rows())
    if rows > 0:
        plan.runs.append(Run(lane=lane, start=start, stop=start + rows))


def plan_admissions(plan: Plan, waiting: Sequence[Lane], limits: Limits) -> tuple[Admission, ...]:
    """Admit waiting lanes in order, while each finds rows, pages and a place.

    A free page is kept for each lane already running, so that a newcomer is not preempted at once.
    """
    admitted: list[Admission] = []
    for lane in waiting:
        num_running = len(plan.running) + len(admitted)
        if num_running == limits.max_batch or plan.count_rows() >= limits.max_rows:
            break
        siblings = [other for other in plan.running if other.request == lane.request]
        shareable = (lane.prompt_len - 1) // limits.page_tokens
        shared = find_shared(siblings, shareable, limits.page_tokens)
        if len(shared) < shareable and (siblings or is_sibling_admitted(lane, admitted, waiting)):
            continue
        num_new = -(-len(lane.tokens) // limits.page_tokens) - len(shared)
        if num_new + num_running > plan.free:
            break
        plan.free -= num_new
        admitted.append(Admission(lane=lane.number, shared=shared, num_new=num_new))
        start = len(shared) * limits.page_tokens
        plan_chunk(plan, lane.number, start, len(lane.tokens), limits)
    return tuple(admitted)


def find_shared(siblings: Sequence[Lane], shareable: int, page_tokens: int) -> tuple[int, ...]:
    """Find a sibling whose full prompt pages are all computed."""
    for other in siblings:
        if other.computed >= shareable * page_tokens:
            return tuple(other.pages[:shareable])
    return ()


def is_sibling_admitted(lane: Lane, admitted: Sequence[Admission], waiting: Sequence[Lane]) -> bool:
    """Answer whether a lane of the same request starts in this very step."""
    numbers = {admission.lane for admission in admitted}
    return any(other.number in numbers and other.request == lane.request for other in waiting)
