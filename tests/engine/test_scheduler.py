"""The scheduler is pure, never starves, never deadlocks, and never breaks its limits."""

import copy

from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.engine.limits import Limits
from samebits.engine.queues import Queues
from samebits.engine.scheduler import Lane, Run, Step, next_step


def make_queues(**sizes: int) -> Queues:
    return Queues(Limits(**{"page_tokens": 16, "kv_tokens": 256, **sizes}))


def add_lane(queues: Queues, number: int, prompt_len: int, request: int | None = None) -> Lane:
    lane = Lane(
        number=number,
        request=number if request is None else request,
        prompt_len=prompt_len,
        tokens=[0] * prompt_len,
    )
    queues.add(lane)
    return lane


def take_step(queues: Queues) -> Step:
    """Plan, apply, and let every lane that is ready draw a token."""
    step = queues.plan()
    queues.apply(step)
    queues.advance(step)
    for run in step.runs:
        lane = queues.lanes[run.lane]
        if run.stop == len(lane.tokens):
            lane.tokens.append(0)
    queues.check_integrity(queues.lanes)
    return step


def test_choosing_changes_nothing_and_repeats() -> None:
    queues = make_queues(kv_tokens=48)
    for number in range(3):
        add_lane(queues, number, 15)
    for _ in range(2):
        take_step(queues)
    before = copy.deepcopy((queues.running, queues.waiting, queues.pages.__dict__))
    steps = [
        next_step(queues.running, queues.waiting, queues.pages, queues.limits) for _ in range(2)
    ]
    assert steps[0] == steps[1]
    assert steps[0].preempted
    after = (queues.running, queues.waiting, queues.pages.__dict__)
    assert repr(after) == repr(before)


def test_decode_rows_come_before_prompt_chunks() -> None:
    queues = make_queues(chunk_tokens=8, max_rows=10)
    add_lane(queues, 0, 4)
    take_step(queues)
    add_lane(queues, 1, 30)
    add_lane(queues, 2, 30)
    step = take_step(queues)
    assert step.runs == (
        Run(lane=0, start=4, stop=5),
        Run(lane=1, start=0, stop=8),
        Run(lane=2, start=0, stop=1),
    )


def test_the_youngest_gives_way_and_comes_back() -> None:
    queues = make_queues(kv_tokens=48)
    lanes = [add_lane(queues, number, 15) for number in range(2)]
    preempted: list[int] = []
    for _ in range(20):
        preempted += take_step(queues).preempted
    assert preempted == [1]
    assert len(lanes[0].tokens) == 35
    queues.remove(lanes[0])
    before = len(lanes[1].tokens)
    take_step(queues)
    assert len(lanes[1].tokens) == before + 1


def test_samples_of_one_prompt_share_its_full_pages() -> None:
    queues = make_queues(chunk_tokens=20)
    lanes = [add_lane(queues, number, 40, request=9) for number in range(3)]
    assert [a.lane for a in take_step(queues).admitted] == [0]
    assert [a.lane for a in take_step(queues).admitted] == []
    step = take_step(queues)
    assert [(a.lane, a.shared) for a in step.admitted] == [(1, (0, 1)), (2, (0, 1))]
    assert [lane.pages[:2] for lane in lanes] == [[0, 1]] * 3
    assert len({lane.pages[2] for lane in lanes}) == 3
    assert queues.pages.num_free == 16 - 5


def test_a_full_prompt_page_is_computed_once_and_its_last_token_by_each() -> None:
    queues = make_queues()
    for number in range(2):
        add_lane(queues, number, 32, request=9)
    take_step(queues)
    step = take_step(queues)
    assert Run(lane=1, start=16, stop=32) in step.runs


SIZES = st.fixed_dictionaries(
    {
        "kv_tokens": st.sampled_from([64, 80, 160, 256]),
        "max_rows": st.sampled_from([1, 3, 16, 64]),
        "chunk_tokens": st.sampled_from([1, 7, 64]),
        "max_batch": st.sampled_from([1, 2, 8]),
    }
)
REQUESTS = st.lists(
    st.tuples(st.integers(1, 40), st.integers(1, 24), st.integers(1, 3), st.integers(0, 12)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(SIZES, REQUESTS)
def test_every_lane_finishes_within_the_limits(
    sizes: dict[str, int], requests: list[tuple[int, int, int, int]]
) -> None:
    queues = make_queues(**sizes)
    arrivals: list[tuple[int, int, int, int]] = []
    wanted: dict[int, int] = {}
    for request, (prompt_len, output_len, n, delay) in enumerate(requests):
        for _ in range(n):
            number = len(arrivals)
            arrivals.append((delay, number, prompt_len, request))
            wanted[number] = prompt_len + output_len
    finished: set[int] = set()
    for clock in range(10_000):
        for _, number, prompt_len, request in [a for a in arrivals if a[0] == clock]:
            add_lane(queues, number, prompt_len, request)
        if not queues.lanes:
            if clock > 12:
                break
            continue
        step = take_step(queues)
        check_limits(step, queues)
        for lane in [x for x in queues.lanes.values() if len(x.tokens) == wanted[x.number]]:
            queues.remove(lane)
            finished.add(lane.number)
    assert finished == set(wanted)
    assert queues.pages.num_free == queues.pages.num_pages


def check_limits(step: Step, queues: Queues) -> None:
    limits = queues.limits
    lengths = [run.stop - run.start for run in step.runs]
    assert step.runs
    assert sum(lengths) <= limits.max_rows
    assert max(lengths) <= limits.chunk_tokens
    assert len(queues.running) <= limits.max_batch
    assert len({run.lane for run in step.runs}) == len(step.runs)
    for run in step.runs:
        assert run.stop <= len(queues.lanes[run.lane].pages) * limits.page_tokens
