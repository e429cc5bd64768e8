"""Which requests are answered from the cache, and which answers are kept."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.cache import Admission, Control, Fetched, Outcome, Refusal, Request
from samebits.errors import ConfigError
from tests.cache.requests import Computing, make_answer, make_identity, make_request, open_cache

REPEATABLE: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 0.0},
    {"temperature": -0.0},
    {"temperature": 1, "seed": 0},
    {"temperature": None, "seed": 42},
]
SAMPLED: list[dict[str, Any]] = [
    {"temperature": None},
    {"temperature": 0.7},
    {"temperature": 1, "seed": None},
    {"temperature": False},
    {"temperature": "0"},
    {"temperature": 1, "seed": False},
]


@pytest.mark.parametrize("body", REPEATABLE)
def test_temperature_0_or_a_seed_makes_a_request_repeatable(
    body: dict[str, Any], tmp_path: Path
) -> None:
    computing = Computing()
    with open_cache(tmp_path) as cache:
        first, second = (cache.fetch(make_request(**body), computing) for _ in range(2))
    assert (first.outcome, second.outcome) == (Outcome.MISS, Outcome.HIT)
    assert first.answer == second.answer
    assert computing.num_calls == 1


@pytest.mark.parametrize("body", SAMPLED)
def test_other_requests_are_computed_each_time_and_the_reason_is_told_and_counted(
    body: dict[str, Any], tmp_path: Path
) -> None:
    computing = Computing()
    with open_cache(tmp_path) as cache:
        found = [cache.fetch(make_request(**body), computing) for _ in range(2)]
        tally = cache.tally()
        assert list(cache.store.entries()) == []
    assert [one.outcome for one in found] == [Outcome.REFUSED] * 2
    assert {one.refusal for one in found} == {Refusal.SAMPLED}
    assert found[0].answer != found[1].answer
    assert (tally.outcomes["refused"], tally.refused) == (2, {"sampled": 2})


def test_an_absent_temperature_is_not_temperature_0(tmp_path: Path) -> None:
    request = Request(surface="s", body={"prompt": "x"}, identity=make_identity())
    with open_cache(tmp_path) as cache:
        assert cache.fetch(request, Computing()).refusal is Refusal.SAMPLED


def test_B8_a_draw_asked_by_name_is_kept_without_a_seed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def ask(index: int | None, **body: Any) -> Fetched:
        whole = make_request(**body).body
        named = Request(
            surface="s", body=whole, identity=make_identity(), index=index, is_draw=True
        )
        return cache.fetch(named, computing)

    computing = Computing()
    with open_cache(tmp_path) as cache:
        bodies = [ask(index, temperature=1).answer.body for index in (0, 1, 0, 1, 2)]
        assert bodies == [b"answer 1", b"answer 2", b"answer 1", b"answer 2", b"answer 3"]
        assert ask(None, temperature=1).refusal is Refusal.SAMPLED
        assert caplog.text == ""
        ask(0)
        assert caplog.text == ""
        ask(1)
    assert "every draw is the same" in caplog.text


def test_what_the_caller_doubts_is_left_alone(tmp_path: Path) -> None:
    body = make_request().body
    doubted = Request(surface="s", body=body, identity=make_identity(), doubt="depends on company")
    with open_cache(tmp_path) as cache:
        assert cache.fetch(doubted, Computing()).refusal is Refusal.DOUBTFUL
        allowing = cache.derive(admission=Admission(allow=frozenset({Refusal.DOUBTFUL})))
        assert [allowing.fetch(doubted, Computing()).outcome for _ in range(2)] == ["miss", "hit"]
        assert cache.fetch(doubted, Computing()).outcome is Outcome.REFUSED


FLAWS: dict[Refusal, dict[str, Any]] = {
    Refusal.LENGTH: {"finish_reasons": ("length",)},
    Refusal.UNFINISHED: {"finish_reasons": ("content_filter",)},
    Refusal.EMPTY: {"is_empty": True},
    Refusal.REFUSED: {"is_refusal": True},
    Refusal.ERROR: {"error": "502 inside a 200"},
}


@pytest.mark.parametrize("why", FLAWS)
def test_B9_an_answer_that_is_not_whole_is_given_and_not_kept_unless_asked(
    why: Refusal, tmp_path: Path
) -> None:
    computing = Computing(lambda text: make_answer(text, **FLAWS[why]))
    with open_cache(tmp_path) as cache:
        found = [cache.fetch(make_request(), computing) for _ in range(2)]
        assert [one.outcome for one in found] == ["miss", "miss"]
        assert [one.refusal for one in found] == [why, why]
        assert cache.tally().refused == {why: 2}
        asked = cache.derive(admission=Admission(allow=frozenset({why})))
        kept = [asked.fetch(make_request(), computing) for _ in range(2)]
    assert [one.outcome for one in kept] == ["miss", "hit"]
    assert kept[0].answer == kept[1].answer


@pytest.mark.parametrize("reasons", [(), ("",), ("stop", "length"), ("stop", "error")])
def test_B9_one_unfinished_choice_keeps_the_whole_answer_out(
    reasons: tuple[str, ...], tmp_path: Path
) -> None:
    answer = make_answer(finish_reasons=reasons)
    with open_cache(tmp_path) as cache:
        assert cache.fetch(make_request(), lambda: answer).refusal is not None
        assert list(cache.store.entries()) == []


def test_B9_an_empty_body_is_not_kept(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        found = cache.fetch(make_request(), lambda: make_answer(""))
    assert found.refusal is Refusal.EMPTY


def test_a_tool_call_is_a_whole_answer(tmp_path: Path) -> None:
    answer = make_answer(finish_reasons=("tool_calls",))
    with open_cache(tmp_path) as cache:
        assert cache.fetch(make_request(), lambda: answer).refusal is None
        assert cache.fetch(make_request(), Computing()).answer == answer


def nest(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "request_",
    [
        make_request(x=math.nan),
        make_request(x=nest(5000)),
        make_request(x=10**5000),
        make_request(x="\ud800"),
        replace(make_request(), surface="\ud800"),
        replace(make_request(), index=True),
        replace(make_request(), index=1.5),  # type: ignore[arg-type]
        replace(make_request(), index=-1),
    ],
    ids=["nan", "deep", "long", "surrogate", "surface", "true", "half", "negative"],
)
def test_a_request_without_a_key_is_answered_and_not_kept(
    request_: Request, tmp_path: Path
) -> None:
    computing = Computing()
    with open_cache(tmp_path) as cache:
        found = cache.fetch(request_, computing)
    assert (found.outcome, found.refusal, found.key) == ("refused", Refusal.UNKEYABLE, b"")
    assert found.answer.body == b"answer 1"


def test_an_entry_that_would_push_out_many_others_is_not_kept(tmp_path: Path) -> None:
    with open_cache(tmp_path, max_bytes=2**17) as cache:
        found = cache.fetch(make_request(), lambda: make_answer("x" * 2**15))
    assert found.refusal is Refusal.TOO_LARGE


def test_allowing_what_nobody_knows_or_nobody_can_allow_is_refused_by_name() -> None:
    for name in ("lenght", Refusal.TOO_LARGE, Refusal.NO_STORE, Refusal.UNKEYABLE):
        with pytest.raises(ConfigError, match=str(name)):
            Admission(allow=frozenset({name}))  # type: ignore[arg-type]


def test_an_entry_kept_under_a_lax_policy_is_not_given_under_a_strict_one(tmp_path: Path) -> None:
    request = make_request(temperature=1)
    with open_cache(tmp_path) as cache:
        lax = cache.derive(admission=Admission(allow=frozenset({Refusal.SAMPLED})))
        kept = lax.fetch(request, Computing())
        assert lax.fetch(request, Computing()).answer == kept.answer
        fresh = cache.fetch(request, lambda: make_answer("fresh"), control=Control())
    assert fresh.answer.body == b"fresh"
