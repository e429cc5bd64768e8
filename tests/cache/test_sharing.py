"""Equal requests under way: one computes, the others join, and nobody waits for ever."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from samebits.cache import Answer, Control, Ending, Fetched, Outcome, OutputCache
from samebits.cache.flights import Flights
from samebits.errors import ConfigError
from tests.cache.requests import Computing, make_answer, make_request, open_cache

NUM_CALLERS = 8
LIMIT_S = 20.0


class Gate:
    """A computation that holds until a number of callers has come, and counts its calls."""

    def __init__(self, cache: OutputCache, failures: int = 0) -> None:
        self.cache = cache
        self.failures = failures
        self.num_calls = 0
        self.opened = threading.Event()
        self.lock = threading.Lock()

    def __call__(self) -> Answer:
        with self.lock:
            self.num_calls += 1
            number = self.num_calls
        assert self.opened.wait(LIMIT_S)
        if number <= self.failures:
            raise ConnectionError("upstream")
        return make_answer(f"call {number}")


def ask_together(
    cache: OutputCache, gate: Gate, control: Control, wait_for: Callable[[], bool]
) -> list[Fetched | BaseException]:
    """Ask the same from many threads; open the gate when all have come."""

    def ask() -> Fetched | BaseException:
        try:
            return cache.fetch(make_request(), gate, control=control)
        except ConnectionError as error:
            return error

    with ThreadPoolExecutor(NUM_CALLERS) as pool:
        asked = [pool.submit(ask) for _ in range(NUM_CALLERS)]
        deadline = threading.Event()
        for _ in range(2000):
            if wait_for():
                break
            deadline.wait(0.005)
        gate.opened.set()
        return [one.result(LIMIT_S) for one in asked]


def count_waiters(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Record each claim: True for a leader."""
    claims: list[bool] = []
    honest = Flights.claim

    def claim(self: Flights, key: bytes):  # type: ignore[no-untyped-def]
        made = honest(self, key)
        claims.append(made.is_leader)
        return made

    monkeypatch.setattr(Flights, "claim", claim)
    return claims


def test_B15_eight_equal_requests_are_one_call_one_miss_and_seven_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = count_waiters(monkeypatch)
    with open_cache(tmp_path) as cache:
        gate = Gate(cache)
        found = ask_together(cache, gate, Control(), lambda: len(claims) == NUM_CALLERS)
        tally = cache.tally()
    outcomes = Counter(one.outcome for one in found if isinstance(one, Fetched))
    assert gate.num_calls == 1
    assert outcomes == {Outcome.MISS: 1, Outcome.JOINED: 7}
    assert {one.answer.body for one in found if isinstance(one, Fetched)} == {b"call 1"}
    assert (tally.outcomes["miss"], tally.outcomes["joined"], tally.outcomes["hit"]) == (1, 7, 0)


@pytest.mark.parametrize("control", [Control(no_cache=True), Control(no_store=True)])
def test_B15_a_bypass_never_shares(control: Control, tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        gate = Gate(cache)
        found = ask_together(cache, gate, control, lambda: gate.num_calls == NUM_CALLERS)
    assert gate.num_calls == NUM_CALLERS
    bodies = {one.answer.body for one in found if isinstance(one, Fetched)}
    assert len(bodies) == NUM_CALLERS


def test_B15_where_the_leader_fails_one_who_waited_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = count_waiters(monkeypatch)
    with open_cache(tmp_path) as cache:
        gate = Gate(cache, failures=1)
        found = ask_together(cache, gate, Control(), lambda: len(claims) == NUM_CALLERS)
    errors = [one for one in found if isinstance(one, BaseException)]
    bodies = {one.answer.body for one in found if isinstance(one, Fetched)}
    assert (len(errors), gate.num_calls, bodies) == (1, 2, {b"call 2"})


def test_B15_an_answer_that_is_an_error_is_not_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = count_waiters(monkeypatch)
    made = Computing()

    def compute() -> Answer:
        answer = made()
        if made.num_calls > 1:
            return answer
        for _ in range(4000):
            if len(claims) == NUM_CALLERS:
                break
            threading.Event().wait(0.005)
        return Answer(body=b"sorry", ending=Ending(error="503"))

    with open_cache(tmp_path) as cache, ThreadPoolExecutor(NUM_CALLERS) as pool:
        asked = [pool.submit(cache.fetch, make_request(), compute) for _ in range(NUM_CALLERS)]
        bodies = Counter(one.result(LIMIT_S).answer.body for one in asked)
    assert bodies == {b"sorry": 1, b"answer 2": NUM_CALLERS - 1}
    assert made.num_calls == 2


def test_sampled_requests_are_never_shared(tmp_path: Path) -> None:
    made = Computing()
    with open_cache(tmp_path) as cache:
        requests = [make_request(temperature=1)] * 3
        found = cache.fetch_all(requests, lambda places: [(place, made()) for place in places])
    assert len({one.answer.body for one in found}) == 3


def test_equal_requests_of_one_call_are_computed_once(tmp_path: Path) -> None:
    made = Computing()
    with open_cache(tmp_path) as cache:
        found = cache.fetch_all(
            [make_request()] * 3, lambda places: [(place, made()) for place in places]
        )
    assert [one.outcome for one in found] == ["miss", "joined", "joined"]
    assert made.num_calls == 1


def test_a_computation_that_asks_the_same_computes_it_and_does_not_wait_for_itself(
    tmp_path: Path,
) -> None:
    with open_cache(tmp_path) as cache:

        def outer() -> Answer:
            return cache.fetch(make_request(), lambda: make_answer("inner")).answer

        assert cache.fetch(make_request(), outer).answer.body == b"inner"


def test_two_threads_that_ask_each_others_question_both_end(tmp_path: Path) -> None:
    both = threading.Barrier(2)
    with open_cache(tmp_path) as cache:

        def ask(name: str, other: str) -> bytes:
            def compute() -> Answer:
                both.wait(LIMIT_S)
                inner = cache.fetch(make_request(x=other), lambda: make_answer(f"for {name}"))
                return make_answer(f"{name} after {inner.answer.body.decode()}")

            return cache.fetch(make_request(x=name), compute).answer.body

        with ThreadPoolExecutor(2) as pool:
            asked = [pool.submit(ask, "a", "b"), pool.submit(ask, "b", "a")]
            bodies = [one.result(LIMIT_S) for one in asked]
    assert [body[:7] for body in bodies] == [b"a after", b"b after"]


def test_what_was_computed_before_a_failure_is_kept(tmp_path: Path) -> None:
    def compute(places):  # type: ignore[no-untyped-def]
        yield places[0], make_answer("first")
        raise ConnectionError("upstream")

    with open_cache(tmp_path) as cache:
        with pytest.raises(ConnectionError):
            cache.fetch_all([make_request(x=1), make_request(x=2)], compute)
        assert cache.fetch(make_request(x=1), Computing()).answer.body == b"first"
        assert cache.fetch(make_request(x=2), Computing()).outcome is Outcome.MISS


def test_a_place_in_a_flight_can_be_awaited_by_an_event_loop() -> None:
    flights = Flights()
    leader, follower = flights.claim(b"k"), flights.claim(b"k")

    async def follow() -> Answer | None:
        waiting = asyncio.ensure_future(asyncio.wrap_future(follower.landing))
        await asyncio.sleep(0)
        flights.land(b"k", leader.landing, make_answer("landed"))
        return await waiting

    assert (leader.is_leader, follower.is_leader) == (True, False)
    answer = asyncio.run(follow())
    assert answer and answer.body == b"landed"


def test_a_leader_that_ended_cannot_end_the_next_one() -> None:
    flights = Flights()
    first = flights.claim(b"k")
    flights.land(b"k", first.landing, None)
    second = flights.claim(b"k")
    flights.land(b"k", first.landing, make_answer("late"))
    assert second.is_leader and not second.landing.done()


@pytest.mark.parametrize("answered", [[], [0, 1, 5]])
def test_a_function_that_answers_other_places_is_told_so(
    answered: list[int], tmp_path: Path
) -> None:
    with open_cache(tmp_path) as cache, pytest.raises(ConfigError, match=r"places \[0, 1\]"):
        cache.fetch_all(
            [make_request(x=1), make_request(x=2)],
            lambda _: [(place, Answer(body=b"x")) for place in answered],
        )
