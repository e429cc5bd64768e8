"""What users of other engines ran into, as tests of ours."""

from typing import Any

import pytest

from samebits.engine import Completion, Engine, FinishedEvent, SamplingParams, TokenEvent
from samebits.engine.sample import best_ids
from samebits.errors import RequestError
from tests.engine.tiny import make_engine, make_prompts

PROMPT = make_prompts(1, seed=5, longest=40)[0]
SAMPLED: dict[str, Any] = {"max_tokens": 12, "temperature": 1.0}


def complete(engine: Engine, **params: Any) -> Completion:
    return engine.generate([PROMPT], SamplingParams(**params))[0]


def tokens(completion: Completion) -> list[tuple[int, ...]]:
    return [output.token_ids for output in completion.outputs]


def stream(engine: Engine, params: SamplingParams) -> tuple[list[TokenEvent], Completion]:
    events = list(engine.stream([PROMPT], params, receipt=True))
    *drawn, last = events
    assert isinstance(last, FinishedEvent)
    return [event for event in drawn if isinstance(event, TokenEvent)], last.completion


def test_staggered_arrivals_get_the_answer_of_arrivals_at_once() -> None:
    params = SamplingParams(max_tokens=16, temperature=0.7, seed=3)
    at_once = make_engine().generate([PROMPT] * 4, params, receipt=True)
    assert len({c.outputs for c in at_once}) == 1
    engine = make_engine(chunk_tokens=5)
    generations = []
    for steps_before in (0, 1, 5, 2):
        for _ in range(steps_before):
            engine.loop.step()
        generations.append(engine.make_generation(PROMPT, params, receipt=True))
        engine.loop.submit(generations[-1])
    while engine.loop.step():
        engine.check_integrity()
    staggered = [g.make_completion({}) for g in generations]
    assert [c.outputs for c in staggered] == [c.outputs for c in at_once]
    assert {c.receipt.digest for c in (*staggered, *at_once) if c.receipt} == {
        at_once[0].receipt.digest if at_once[0].receipt else ""
    }


def test_one_tie_rule_in_generation_scoring_and_log_probabilities() -> None:
    engine = make_engine()
    tied = SamplingParams(max_tokens=1, logit_bias=dict.fromkeys((200, 30, 77), 1e6))
    # 1e6 swallows the logits' low bits: all three become equal or nearly so.
    chosen = engine.generate([PROMPT], tied)[0].outputs[0].token_ids[0]
    z = engine.score(PROMPT)[-1].copy()
    for token in (200, 30, 77):
        z[token] += 1e6
    assert chosen == best_ids(z, 1)[0] == z.argmax()
    z[[200, 30, 77]] = 1e6
    assert best_ids(z, 3).tolist() == [30, 77, 200]


def test_n_samples_of_one_seed_differ_and_repeat_as_a_set() -> None:
    four = complete(make_engine(), **SAMPLED, n=4, seed=7)
    assert len(set(tokens(four))) == 4
    assert tokens(complete(make_engine(), **SAMPLED, n=4, seed=7)) == tokens(four)
    assert tokens(complete(make_engine(), **SAMPLED, n=1, seed=7)) == tokens(four)[:1]


def test_sample_i_of_n_is_the_only_sample_from_first_index_i() -> None:
    engine = make_engine()
    four = complete(engine, **SAMPLED, n=4, seed=7)
    single = [complete(engine, **SAMPLED, first_index=i, seed=7) for i in range(4)]
    assert [c.outputs[0] for c in single] == list(four.outputs)
    extended = complete(engine, **SAMPLED, n=2, first_index=2, seed=7)
    assert extended.outputs == four.outputs[2:]


def test_equal_requests_are_copies_of_sample_zero() -> None:
    same = make_engine().generate([PROMPT] * 3, SamplingParams(**SAMPLED, seed=7))
    assert len({c.outputs for c in same}) == 1


def test_a_seed_follows_its_request_through_shuffled_and_reused_slots() -> None:
    prompts = make_prompts(6, seed=8)
    params = [SamplingParams(max_tokens=3 + i, temperature=1.0, seed=i) for i in range(6)]
    expected = [
        make_engine().generate([p], q)[0].outputs for p, q in zip(prompts, params, strict=True)
    ]
    engine = make_engine(max_batch=2, kv_tokens=192)
    for order in ((0, 1, 2, 3, 4, 5), (5, 3, 1, 4, 2, 0), (2, 5, 0, 1, 3, 4)):
        done = engine.generate([prompts[i] for i in order], [params[i] for i in order])
        assert [c.outputs for c in done] == [expected[i] for i in order]


@pytest.mark.parametrize("given", [{}, {"seed": None}])
def test_an_omitted_seed_is_random_and_recorded(given: dict[str, None]) -> None:
    engine = make_engine()
    runs = [complete(engine, **SAMPLED, **given) for _ in range(2)]
    seeds = [c.params_in_force["seed"] for c in runs]
    assert seeds[0].value != seeds[1].value
    assert {seed.origin for seed in seeds} == {"drawn"}
    assert tokens(runs[0]) != tokens(runs[1])
    again = complete(engine, **SAMPLED, seed=seeds[0].value)
    assert tokens(again) == tokens(runs[0])


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_a_given_seed_is_fixed_zero_included(seed: int) -> None:
    runs = [complete(make_engine(), **SAMPLED, seed=seed) for _ in range(2)]
    assert tokens(runs[0]) == tokens(runs[1])
    assert runs[0].params_in_force["seed"] == (seed, "asked")
    assert tokens(complete(make_engine(), **SAMPLED, seed=1)) != tokens(runs[0])


def test_zero_is_a_value_on_every_path() -> None:
    engine = make_engine()
    greedy = complete(engine, max_tokens=12)
    params = SamplingParams(max_tokens=12, temperature=0, seed=0)
    events, streamed = stream(engine, params)
    blocking = engine.generate([PROMPT], params)[0]
    assert blocking.outputs == streamed.outputs == greedy.outputs
    assert tuple(event.token_id for event in events) == greedy.outputs[0].token_ids
    for completion in (blocking, streamed):
        assert completion.params_in_force["temperature"] == (0.0, "asked")
        assert completion.params_in_force["seed"] == (0, "asked")


@pytest.mark.parametrize("zero", [0, 0.0])
def test_a_zero_that_cannot_be_is_refused_and_not_dropped(zero: float) -> None:
    with pytest.raises(RequestError, match="top_p"):
        SamplingParams(top_p=zero)


EVERY_PARAMETER: list[dict[str, Any]] = [
    {},
    {"temperature": 0.8},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.0, "top_p": 0.5},
    {"temperature": 1.0, "min_p": 0.1},
    {"repetition_penalty": 1.5},
    {"presence_penalty": 1.0},
    {"frequency_penalty": 1.0},
    {"logit_bias": {97: 1e6}, "stop": ("aaaa",)},
    {"logit_bias": {97: 1e6, 98: 1e6}, "temperature": 1.0, "stop": ("ab", "ba")},
    {"n": 3, "temperature": 1.0},
    {"n": 2, "first_index": 5, "temperature": 1.0},
    {"logprobs": 2},
    {"logit_bias": {256: 1e6}},
    {"logit_bias": {256: 1e6}, "ignore_eos": True},
]


@pytest.mark.parametrize("params", EVERY_PARAMETER, ids=str)
def test_stream_and_non_stream_are_equal_for_every_parameter(params: dict[str, Any]) -> None:
    wanted = SamplingParams(max_tokens=10, seed=9, **params)
    blocking = make_engine().generate([PROMPT], wanted, receipt=True)[0]
    events, streamed = stream(make_engine(), wanted)
    assert streamed == blocking
    for output in blocking.outputs:
        mine = [event for event in events if event.index == output.index]
        assert "".join(event.text for event in mine) == output.text
        assert tuple(event.token_id for event in mine) == output.token_ids
        assert mine[-1].finish_reason == output.finish_reason
        if output.logprobs is not None:
            assert tuple(event.logprobs for event in mine) == output.logprobs


@pytest.mark.parametrize("params", EVERY_PARAMETER[1:12], ids=str)
def test_no_parameter_is_accepted_and_ignored(params: dict[str, Any]) -> None:
    engine = make_engine()
    plain = {name: value for name, value in params.items() if name in ("temperature",)}
    base = engine.generate([PROMPT], SamplingParams(max_tokens=30, seed=9, **plain))[0]
    changed = engine.generate([PROMPT], SamplingParams(max_tokens=30, seed=9, **params))[0]
    if plain == params:
        base = engine.generate([PROMPT], SamplingParams(max_tokens=30, seed=9))[0]
    assert changed.outputs != base.outputs


def test_preemption_cannot_be_seen_in_any_answer() -> None:
    prompts = make_prompts(5, seed=6, longest=30)
    params = SamplingParams(max_tokens=40, temperature=0.8, seed=2, logprobs=1, stop=("zq",))
    roomy = make_engine().generate(prompts, params, receipt=True)
    engine = make_engine(kv_tokens=80)
    tight = engine.generate(prompts, params, receipt=True)
    assert engine.loop.queues.num_preempted > 0
    assert tight == roomy
