"""Completions out of a cache equal those that are computed, in every field and every bit."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from samebits.cache import Admission, Control, OutputCache, Refusal
from samebits.engine import Completion, Engine, FinishedEvent, SamplingParams, TokenEvent
from samebits.engine.kept import Kept, read_kept, spell_kept
from samebits.engine.output import Output
from samebits.engine.sample import TokenLogprobs
from samebits.errors import ConfigError, NotCached
from samebits.numerics.select import select_arithmetic
from tests.engine.tiny import CONFIG, EOS, make_decoder, make_engine, make_prompts

PROMPTS = make_prompts(4, seed=9, longest=30)
CUT = Admission(allow=frozenset({Refusal.LENGTH, Refusal.EMPTY}))
PARAMS = {
    "greedy": SamplingParams(max_tokens=8),
    "log-probabilities": SamplingParams(max_tokens=8, logprobs=4),
    "seeded": SamplingParams(max_tokens=8, temperature=1.3, seed=2**64 - 1, top_p=0.9),
    "samples": SamplingParams(max_tokens=8, temperature=1.0, seed=3, n=3, first_index=2),
    "stop text": SamplingParams(max_tokens=30, temperature=2.0, seed=0, stop=("e", "zz")),
    "shifts": SamplingParams(max_tokens=8, logit_bias={7: -2.5, EOS: 1.0}, presence_penalty=0.25),
}


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[OutputCache]:
    with OutputCache.open(tmp_path / "outputs.sqlite3", admission=CUT) as opened:
        yield opened


class Counting:
    """Counts the samples that an engine is made to compute."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.samples: list[tuple[int, int]] = []
        honest = engine.follow

        def follow(generations: Any) -> Any:
            self.samples += [(g.prompt, s.index) for g in generations for s in g.samples]
            return honest(generations)

        monkeypatch.setattr(engine, "follow", follow)


@pytest.mark.parametrize("name", PARAMS)
def test_B12_computed_kept_and_replayed_completions_are_equal_in_every_field(
    name: str, cache: OutputCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, params = make_engine(), PARAMS[name]
    plain = engine.generate(PROMPTS, params)
    counting = Counting(engine, monkeypatch)
    kept = engine.generate(PROMPTS, params, cache=cache)
    num_computed = len(counting.samples)
    replayed = engine.generate(PROMPTS, params, cache=cache)
    assert kept == plain
    assert replayed == plain
    assert num_computed == len(counting.samples) == len(PROMPTS) * params.n
    assert cache.tally().outcomes["hit"] == num_computed


def events_by_sample(engine: Engine, params: SamplingParams, **options: Any) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for event in engine.stream(PROMPTS, params, **options):
        if isinstance(event, FinishedEvent):
            found[event.prompt] = event.completion
        else:
            found.setdefault((event.prompt, event.index), []).append(event)
    return found


@pytest.mark.parametrize("name", PARAMS)
def test_B11_C11_a_replayed_stream_has_the_events_of_the_first_one(
    name: str, cache: OutputCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, params = make_engine(), PARAMS[name]
    plain = events_by_sample(engine, params)
    assert events_by_sample(engine, params, cache=cache) == plain
    counting = Counting(engine, monkeypatch)
    assert events_by_sample(engine, params, cache=cache) == plain
    told: list[TokenEvent] = []
    whole = engine.generate(PROMPTS, params, cache=cache, on_token=told.append)
    assert counting.samples == []
    assert whole == [plain[place] for place in range(len(PROMPTS))]
    assert sorted(map(str, told)) == sorted(
        str(event) for one in plain.values() if isinstance(one, list) for event in one
    )


@pytest.mark.parametrize("streams", [False, True])
def test_B8_C4_C5_a_set_of_samples_is_extended_without_doing_it_again(
    streams: bool, cache: OutputCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    drawn = SamplingParams(max_tokens=6, temperature=1.0, seed=7, n=2, first_index=1)
    more = replace(drawn, n=5, first_index=0)
    plain = engine.generate(PROMPTS[:1], more)
    engine.generate(PROMPTS[:1], drawn, cache=cache)
    counting = Counting(engine, monkeypatch)
    found = complete(engine, more, cache, streams=streams)
    assert found.outputs == plain[0].outputs
    assert counting.samples == [(0, 0), (0, 3), (0, 4)]
    assert len({output.token_ids for output in found.outputs}) == 5


def complete(
    engine: Engine, params: SamplingParams, cache: OutputCache, *, streams: bool
) -> Completion:
    if not streams:
        return engine.generate(PROMPTS[:1], params, cache=cache)[0]
    *_, last = engine.stream(PROMPTS[:1], params, cache=cache)
    assert isinstance(last, FinishedEvent)
    return last.completion


def test_B15_equal_prompts_of_one_call_are_computed_once(
    cache: OutputCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    counting = Counting(engine, monkeypatch)
    found = engine.generate([PROMPTS[0]] * 3, SamplingParams(max_tokens=4), cache=cache)
    assert found[0] == found[1] == found[2]
    assert len(counting.samples) == 1
    assert cache.tally().outcomes["joined"] == 2


def test_what_a_call_asked_is_its_own_whoever_filled_the_cache(cache: OutputCache) -> None:
    engine = make_engine()
    by_default, asked = SamplingParams(max_tokens=4), SamplingParams(max_tokens=4, temperature=0)
    engine.generate(PROMPTS, by_default, cache=cache)
    replayed = engine.generate(PROMPTS, asked, cache=cache)
    assert replayed == engine.generate(PROMPTS, asked)
    assert replayed[0].params_in_force["temperature"].origin == "asked"
    assert cache.tally().outcomes["hit"] == len(PROMPTS)


def test_a_seed_that_was_drawn_is_never_replayed(cache: OutputCache) -> None:
    engine = make_engine()
    sampled = SamplingParams(max_tokens=8, temperature=1.5)
    first, second = (engine.generate(PROMPTS[:1], sampled, cache=cache)[0] for _ in range(2))
    assert first.outputs != second.outputs
    assert cache.tally().refused == {"sampled": 2}


def test_B9_an_answer_at_the_token_limit_is_kept_only_if_asked(cache: OutputCache) -> None:
    engine = make_engine()
    strict = cache.derive(admission=Admission())
    for _ in range(2):
        found = engine.generate(PROMPTS[:1], SamplingParams(max_tokens=4), cache=strict)
        assert found[0].outputs[0].finish_reason == "length"
    assert cache.tally().refused == {"length": 2}


@pytest.mark.parametrize("name", ["plain-f32", "plain-bf16"])
def test_plain_arithmetics_are_not_provably_repeatable(name: str, cache: OutputCache) -> None:
    engine = make_engine(make_decoder(select_arithmetic(name, threads=1)))
    engine.generate(PROMPTS[:1], SamplingParams(max_tokens=4), cache=cache)
    assert cache.tally().refused == {"doubtful": 1}
    assert list(cache.store.entries()) == []


def test_B6_one_changed_weight_is_a_miss(cache: OutputCache) -> None:
    params = SamplingParams(max_tokens=4)
    make_engine().generate(PROMPTS[:1], params, cache=cache)
    make_engine(make_decoder(seed=1)).generate(PROMPTS[:1], params, cache=cache)
    assert cache.tally().outcomes["miss"] == 2
    make_engine(page_tokens=32, chunk_tokens=5).generate(PROMPTS[:1], params, cache=cache)
    assert cache.tally().outcomes["hit"] == 1


def test_bits_of_weights_are_part_of_the_identity() -> None:
    identities = {
        make_engine(make_decoder(arithmetic)).cache_identity.framed
        for arithmetic in (
            select_arithmetic("sb1", threads=1),
            select_arithmetic("sb1", bits=8, threads=1),
            select_arithmetic("plain-f32", threads=1),
        )
    }
    assert len(identities) == 3


@pytest.mark.parametrize("streams", [False, True])
def test_a_receipt_is_made_by_computing_and_its_answer_is_kept(
    streams: bool, cache: OutputCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, params = make_engine(), PARAMS["samples"]
    plain = engine.generate(PROMPTS, params, receipt=True)
    counting = Counting(engine, monkeypatch)
    for _ in range(2):
        if streams:
            found = events_by_sample(engine, params, receipt=True, cache=cache)
            assert [found[place] for place in range(len(PROMPTS))] == plain
        else:
            assert engine.generate(PROMPTS, params, receipt=True, cache=cache) == plain
    assert len(counting.samples) == 2 * 3 * len(PROMPTS)
    assert cache.tally().outcomes["bypassed"] == 2 * 3 * len(PROMPTS)
    engine.generate(PROMPTS, params, cache=cache)
    assert cache.tally().outcomes["hit"] == 3 * len(PROMPTS)


def test_B17_a_replay_names_what_differs_and_computes_nothing(
    cache: OutputCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = make_engine()
    engine.generate(PROMPTS[:1], SamplingParams(max_tokens=4), cache=cache)
    counting = Counting(engine, monkeypatch)
    replay = cache.derive(control=Control(only_if_cached=True))
    other = SamplingParams(max_tokens=5)
    for call in (engine.generate, engine.stream):
        with pytest.raises(NotCached, match=r"body\.max_tokens: recorded 4, asked 5"):
            call(PROMPTS[:1], other, cache=replay)
    with pytest.raises(ConfigError, match="receipt"):
        engine.generate(PROMPTS[:1], cache=replay, receipt=True)
    assert counting.samples == []


def test_a_stream_that_is_left_keeps_nothing_and_blocks_nobody(cache: OutputCache) -> None:
    engine, params = make_engine(), SamplingParams(max_tokens=8)
    left = engine.stream(PROMPTS[:1], params, cache=cache)
    next(left)
    whole = engine.generate(PROMPTS[:1], params, cache=cache)
    assert whole == engine.generate(PROMPTS[:1], params)
    left.close()  # type: ignore[attr-defined]
    engine.check_integrity()
    assert not engine.loop.samples
    assert cache.tally().outcomes["miss"] == 1


def test_an_unservable_request_is_refused_before_the_cache_is_asked(cache: OutputCache) -> None:
    with pytest.raises(Exception, match="token ids"):
        make_engine().stream([[CONFIG.vocab_size]], cache=cache)
    assert sum(cache.tally().outcomes.values()) == 0


def test_log_probabilities_keep_every_bit() -> None:
    odd = [-0.0, 0.0, -np.inf, float(np.float32(-1e-45)), float(np.float32(0.1)), -88.0]
    entries = tuple(
        TokenLogprobs(token_id=place, logprob=value, top=tuple(enumerate(odd)))
        for place, value in enumerate(odd)
    )
    output = Output(
        index=2**31, token_ids=tuple(range(6)), text="é\0", finish_reason="stop", logprobs=entries
    )
    kept = Kept(output=output, pieces=("é", "", "", "", "", "\0"))
    found = read_kept(spell_kept(kept))
    assert repr(found) == repr(kept)
