"""What a user of a cache sees: replays, controls, tenants, and faults that cost no answer."""

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from samebits.cache import Admission, Answer, Control, Ending, Outcome, Refusal, Request
from samebits.errors import ConfigError, NotCached
from tests.cache.requests import (
    SURFACE,
    Clock,
    Computing,
    digest,
    make_answer,
    make_identity,
    make_request,
    open_cache,
    open_with_clock,
)


def test_B12_a_hit_is_the_answer_byte_for_byte_with_its_mark_beside_it(tmp_path: Path) -> None:
    body = b'{"id":"chatcmpl-1",  "created":1,"x":"\xff"}\r\n'
    answer = Answer(body=body, ending=Ending(finish_reasons=("stop", "tool_calls")))
    clock = Clock()
    with open_with_clock(tmp_path, clock) as cache:
        first = cache.fetch(make_request(), lambda: answer)
        clock.now += 60
        again = cache.fetch(make_request(), Computing())
    assert again.answer == answer
    assert (first.outcome, again.outcome) == (Outcome.MISS, Outcome.HIT)
    assert first.key == again.key
    assert first.created_s == again.created_s == 1_800_000_000.0


def test_B11_a_stream_is_replayed_with_its_boundaries_or_whole(tmp_path: Path) -> None:
    events = (b'data: {"r":"think"}\n\n', b"", b"data: [DONE]\n\n", bytes(range(256)))
    answer = Answer(body=b"whole", events=events)
    with open_cache(tmp_path) as cache:
        cache.fetch(make_request(), lambda: answer)
        found = cache.fetch(make_request(), Computing()).answer
    assert (found.body, found.events) == (b"whole", events)


def test_B11_a_stream_is_kept_after_it_was_read_and_found_by_whoever_asks_whole(
    tmp_path: Path,
) -> None:
    with open_cache(tmp_path) as cache:
        assert cache.look(make_request()) is None
        assert cache.keep(make_request(), make_answer("streamed")).outcome is Outcome.MISS
        found = cache.look(make_request())
        assert found and found.answer.body == b"streamed"
        assert cache.fetch(make_request(), Computing()).outcome is Outcome.HIT


def test_B14_only_the_very_same_text_is_answered(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        for text in ("turn the light on", "turn the light off", "turn the light on "):
            found = cache.fetch(
                make_request(messages=[{"role": "user", "content": text}]), Computing()
            )
            assert found.outcome is Outcome.MISS


def test_B6_an_entry_carries_the_digest_of_the_weights_that_made_it(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.fetch(make_request(), Computing())
        other = make_request(identity=make_identity(weights=digest("one value changed")))
        assert cache.fetch(other, Computing()).outcome is Outcome.MISS
        weights = [entry.weights for entry in cache.store.entries()]
    assert weights == [digest("weights"), digest("one value changed")]


def test_B16_no_cache_computes_and_replaces_what_was_kept(tmp_path: Path) -> None:
    computing = Computing()
    with open_cache(tmp_path) as cache:
        cache.fetch(make_request(), computing)
        fresh = cache.fetch(make_request(), computing, control=Control(no_cache=True))
        again = cache.fetch(make_request(), computing)
        assert cache.tally().outcomes["bypassed"] == 1
        assert len(list(cache.store.entries())) == 1
    assert (fresh.outcome, fresh.answer.body) == (Outcome.BYPASSED, b"answer 2")
    assert again.answer == fresh.answer


def test_B16_no_store_keeps_nothing_and_may_be_answered_from_what_is_kept(tmp_path: Path) -> None:
    computing = Computing()
    with open_cache(tmp_path) as cache:
        first = cache.fetch(make_request(), computing, control=Control(no_store=True))
        assert (first.outcome, first.refusal) == (Outcome.MISS, Refusal.NO_STORE)
        assert list(cache.store.entries()) == []
        cache.fetch(make_request(), computing)
        last = cache.fetch(make_request(), computing, control=Control(no_store=True))
    assert (last.outcome, computing.num_calls) == (Outcome.HIT, 2)


def test_B16_max_age_and_time_to_live_make_old_entries_misses(tmp_path: Path) -> None:
    clock, computing = Clock(), Computing()
    with open_with_clock(tmp_path, clock, ttl_s=100) as cache:
        cache.fetch(make_request(), computing)
        clock.now += 50
        young = Control(max_age_s=60)
        assert cache.fetch(make_request(), computing, control=young).outcome is Outcome.HIT
        for limit in (0, 50):
            control = Control(max_age_s=limit, no_store=True)
            assert cache.fetch(make_request(), computing, control=control).outcome is Outcome.MISS
        clock.now += 50
        assert cache.fetch(make_request(), computing).outcome is Outcome.MISS
        assert cache.fetch(make_request(), computing).outcome is Outcome.HIT


def test_B16_an_entry_from_the_future_has_no_age_to_trust(tmp_path: Path) -> None:
    clock, computing = Clock(), Computing()
    with open_with_clock(tmp_path, clock) as cache:
        cache.fetch(make_request(), computing)
        clock.now -= 10
        old = Control(max_age_s=1e9)
        assert cache.fetch(make_request(), computing, control=old).outcome is Outcome.MISS
        assert cache.fetch(make_request(), computing).outcome is Outcome.HIT


def test_B16_only_if_cached_replays_and_never_computes(tmp_path: Path) -> None:
    replay = Control(only_if_cached=True)
    computing = Computing()
    with open_cache(tmp_path) as cache:
        with pytest.raises(NotCached):
            cache.fetch(make_request(), computing, control=replay)
        with pytest.raises(NotCached):
            cache.look(make_request(), control=replay)
        assert computing.num_calls == 0
        cache.fetch(make_request(), computing)
        assert cache.fetch(make_request(), computing, control=replay).outcome is Outcome.HIT


def test_B17_a_miss_in_replay_names_what_differs_from_the_nearest_recording(
    tmp_path: Path,
) -> None:
    long = "A long prompt that is the same for a long while, until it says "
    near = [{"role": "system", "content": "s"}, {"role": "user", "content": long + "left"}]
    asked = [{"role": "system", "content": "s"}, {"role": "user", "content": long + "right"}]
    with open_cache(tmp_path) as cache:
        for messages in ([{"role": "user", "content": "far"}], near):
            cache.fetch(make_request(messages=messages, top_k=1), Computing())
        replay = cache.derive(control=Control(only_if_cached=True))
        with pytest.raises(NotCached) as caught:
            replay.fetch(make_request(messages=asked, x_new=1), Computing())
    found = {d.field: (d.recorded, d.asked) for d in caught.value.differences}  # type: ignore[attr-defined]
    assert set(found) == {"body.messages[1].content", "body.top_k", "body.x_new"}
    assert found["body.top_k"] == ("1", "absent")
    recorded, now = found["body.messages[1].content"]
    assert "left" in recorded and "right" in now and len(recorded) < 70
    assert "body.messages[1].content" in str(caught.value)


def test_B17_the_nearest_recording_is_of_the_same_surface_and_tenant(tmp_path: Path) -> None:
    with open_cache(tmp_path, namespace="b") as cache:
        cache.derive(namespace="a").fetch(make_request(secret="of a"), Computing())
        body, identity = make_request(other="surface").body, make_identity()
        cache.fetch(Request(surface="other", body=body, identity=identity), Computing())
        with pytest.raises(NotCached, match="no recording to compare"):
            cache.fetch(make_request(), Computing(), control=Control(only_if_cached=True))


def test_a_tenant_gets_its_own_answers_and_no_other_ones(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        a, b = cache.derive(namespace="a"), cache.derive(namespace="b")
        mine = a.fetch(make_request(), lambda: make_answer("of a"))
        theirs = b.fetch(make_request(), lambda: make_answer("of b"))
        assert (mine.outcome, theirs.outcome) == (Outcome.MISS, Outcome.MISS)
        again = a.fetch(make_request(), Computing())
        assert (again.outcome, again.answer.body) == (Outcome.HIT, b"of a")
        assert cache.fetch(make_request(), Computing()).outcome is Outcome.MISS


def test_B8_drawn_samples_are_replayed_in_order_and_extended(tmp_path: Path) -> None:
    drawn: list[int] = []

    def draw(places: Sequence[int]) -> Iterator[tuple[int, Answer]]:
        for place in places:
            drawn.append(place)
            yield place, make_answer(f"draw {place}")

    def ask(count: int) -> list[bytes]:
        body, identity = make_request(temperature=1, seed=7).body, make_identity()
        requests = [
            Request(surface=SURFACE, body=body, identity=identity, index=index)
            for index in range(count)
        ]
        return [one.answer.body for one in cache.fetch_all(requests, draw)]

    with open_cache(tmp_path) as cache:
        assert ask(2) == [b"draw 0", b"draw 1"]
        assert ask(4) == [b"draw 0", b"draw 1", b"draw 2", b"draw 3"]
        assert ask(1) == [b"draw 0"]
    assert drawn == [0, 1, 2, 3]


def test_an_error_that_is_no_unicode_is_given_and_not_kept(tmp_path: Path) -> None:
    answer = Answer(body=b"x", ending=Ending(finish_reasons=(), error="\udc80"))
    allowed = Admission(allow=frozenset({Refusal.ERROR, Refusal.UNFINISHED}))
    with open_cache(tmp_path, admission=allowed) as cache:
        fetched = cache.fetch(make_request(), lambda: answer)
        assert (fetched.answer, fetched.refusal) == (answer, Refusal.ERROR)
        assert list(cache.store.entries()) == []


@pytest.mark.parametrize("ttl_s", [0, -1, float("nan")])
def test_a_time_to_live_that_is_none_is_refused(tmp_path: Path, ttl_s: float) -> None:
    with pytest.raises(ConfigError, match="ttl_s"):
        open_cache(tmp_path, ttl_s=ttl_s)


def test_contradicting_controls_are_refused() -> None:
    with pytest.raises(ConfigError, match="both"):
        Control(no_cache=True, only_if_cached=True)
    for age in (-1.0, float("nan")):
        with pytest.raises(ConfigError, match="max_age_s"):
            Control(max_age_s=age)


def test_a_failure_of_the_computation_is_raised_and_nothing_is_kept(tmp_path: Path) -> None:
    def fail() -> Answer:
        raise OSError("upstream")

    with open_cache(tmp_path) as cache:
        with pytest.raises(OSError, match="upstream"):
            cache.fetch(make_request(), fail)
        assert cache.fetch(make_request(), Computing()).outcome is Outcome.MISS


def test_a_closed_cache_still_lets_answers_through(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = open_cache(tmp_path)
    cache.close()
    with caplog.at_level(logging.WARNING, "samebits.cache"):
        found = cache.fetch(make_request(), Computing())
    assert (found.outcome, found.trouble) == (Outcome.MISS, "closed")
    assert cache.tally().unread == {"closed": 1}
    assert cache.tally().unstored == {"closed": 1}
    assert "not kept" in caplog.text


def test_an_answer_survives_the_process_that_computed_it(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.fetch(make_request(), Computing())
    with open_cache(tmp_path) as cache:
        assert cache.fetch(make_request(), Computing()).outcome is Outcome.HIT
