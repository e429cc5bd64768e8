"""The engine serves what can be served, refuses the rest by name, and keeps its books."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samebits.engine import Completion, FinishedEvent, SamplingParams, TokenEvent
from samebits.errors import ConfigError, RequestError, RequestTooLong, UnsupportedInput
from samebits.model.decoder import Decoder
from samebits.model.template import ChatTemplate
from samebits.numerics.values import Rows
from samebits.record.digest import tagged_digest
from tests.engine.tiny import (
    CONFIG,
    EOS,
    SHARED,
    ByteTokenizer,
    make_decoder,
    make_engine,
    make_prompts,
)

GREEDY = SamplingParams(max_tokens=8)


def force(token: int, **others: Any) -> SamplingParams:
    """Make one token certain."""
    return SamplingParams(**{"logit_bias": {token: 1e6}, "max_tokens": 8, **others})


def test_tokens_follow_the_best_of_the_scored_logits() -> None:
    engine = make_engine()
    prompt = make_prompts(1)[0]
    output = engine.generate([prompt], GREEDY)[0].outputs[0]
    logits = engine.score([*prompt, *output.token_ids])
    best = logits.argmax(axis=1)[len(prompt) - 1 : -1]
    assert output.token_ids == tuple(best.tolist())
    assert output.finish_reason == "length"


def test_completions_come_in_the_order_of_prompts_each_with_its_own_params() -> None:
    engine = make_engine()
    params = [SamplingParams(max_tokens=m) for m in (9, 1, 5)]
    done = engine.generate([[1], [2], [3]], params)
    assert [c.prompt_ids for c in done] == [(1,), (2,), (3,)]
    assert [len(c.outputs[0].token_ids) for c in done] == [9, 1, 5]
    assert engine.generate([]) == []


def test_text_messages_and_ids_of_one_prompt_are_one_prompt() -> None:
    engine = make_engine()
    source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    engine.template = ChatTemplate(source)
    text = "<user>né"
    messages = [{"role": "user", "content": "né"}]
    a, b, c = engine.generate([text, list(text.encode()), messages], GREEDY, receipt=True)
    assert a.outputs == b.outputs == c.outputs
    for completion in (a, c):
        assert completion.receipt is not None
        digest = tagged_digest("samebits/prompt/v1", text.encode())
        assert completion.receipt.header.prompt == digest
    assert b.receipt is not None
    assert b.receipt.header.prompt is None


def test_numpy_ids_are_ids() -> None:
    engine = make_engine()
    ids = np.array([1, 2, 3])
    assert engine.generate([ids], GREEDY) == engine.generate([[1, 2, 3]], GREEDY)  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("", "empty prompt"),
        ([], "empty prompt"),
        ("a\ud800", "valid Unicode"),
        ([1, 260], "260"),
        ([-1], "-1"),
        ([1.0], "integer token ids"),
        ([True], "integer token ids"),
        ([[1]], "integer token ids"),
        (["a"], "integer token ids"),
        (b"abc", "bytes"),
        (7, "int"),
        ({"role": "user"}, "dict"),
        ([{"role": "user", "content": "x"}], "no chat template"),
    ],
)
def test_an_impossible_prompt_is_refused(prompt: Any, message: str) -> None:
    engine = make_engine()
    with pytest.raises(RequestError, match=message):
        engine.generate([prompt, [1]])
    engine.check_integrity()
    assert not engine.loop.queues.lanes


def test_one_prompt_instead_of_a_list_is_refused() -> None:
    with pytest.raises(RequestError, match="list of prompts"):
        make_engine().generate("hello")


def test_params_for_another_number_of_prompts_are_refused() -> None:
    with pytest.raises(RequestError, match="2 prompts"):
        make_engine().generate([[1], [2]], [GREEDY])


def test_a_bias_on_a_token_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RequestError, match="logit_bias"):
        make_engine().generate([[1]], SamplingParams(logit_bias={260: 1.0}))


def test_a_prompt_that_leaves_no_room_is_refused_and_the_longest_is_served() -> None:
    engine = make_engine()
    context = CONFIG.context_len
    with pytest.raises(RequestTooLong, match=str(context - 1)):
        engine.generate([[1] * context])
    done = engine.generate([[1] * (context - 1)], SamplingParams(max_tokens=50))[0]
    assert len(done.outputs[0].token_ids) == 1
    assert done.outputs[0].finish_reason == "length"
    assert done.params_in_force["max_tokens"] == (1, "context")


def test_a_request_larger_than_the_pool_is_refused_at_once() -> None:
    engine = make_engine(kv_tokens=32)
    with pytest.raises(RequestTooLong, match="kv_tokens"):
        engine.generate([[1] * 30], SamplingParams(max_tokens=4))
    assert len(engine.generate([[1] * 30], SamplingParams(max_tokens=3))[0].outputs) == 1


def test_an_end_of_sequence_token_ends_a_sample_unless_ignored() -> None:
    engine = make_engine()
    ended, ignored = engine.generate([[1], [1]], [force(EOS), force(EOS, ignore_eos=True)])
    assert (ended.outputs[0].token_ids, ended.outputs[0].finish_reason) == ((EOS,), "stop")
    assert ended.outputs[0].text == ""
    assert (len(ignored.outputs[0].token_ids), ignored.outputs[0].finish_reason) == (8, "length")


def test_a_stop_string_cuts_the_text_and_keeps_the_tokens() -> None:
    engine = make_engine()
    output = engine.generate([[1]], force(ord("a"), stop=("aaa",)))[0].outputs[0]
    assert (output.text, output.finish_reason) == ("", "stop")
    assert output.token_ids == (ord("a"),) * 3
    whole = engine.generate([[1]], force(ord("a"), stop=("b",)))[0].outputs[0]
    assert (whole.text, whole.finish_reason) == ("a" * 8, "length")


def test_log_probabilities_come_with_every_token_if_asked_for() -> None:
    engine = make_engine()
    for count in (0, 5):
        output = engine.generate([[1, 2]], SamplingParams(max_tokens=4, logprobs=count))[0].outputs[
            0
        ]
        assert output.logprobs is not None
        assert [entry.token_id for entry in output.logprobs] == list(output.token_ids)
        assert all(len(entry.top) == count for entry in output.logprobs)
    assert engine.generate([[1, 2]], GREEDY)[0].outputs[0].logprobs is None


def test_params_in_force_say_where_each_comes_from() -> None:
    asked = SamplingParams(temperature=0.0, top_k=0, max_tokens=3)
    done = make_engine().generate([[1]], asked)[0]
    origins = {name: setting.origin for name, setting in done.params_in_force.items()}
    assert {name for name, origin in origins.items() if origin == "asked"} == {
        *("temperature", "top_k", "max_tokens")
    }
    assert set(origins.values()) == {"asked", "default"}


class BrokenDecoder(Decoder):
    """Gives one bad logit, or an interrupt, at its third step."""

    def __init__(self, decoder: Decoder, fault: float | BaseException) -> None:
        self.__dict__ = dict(decoder.__dict__)
        self.fault = fault
        self.calls = 0

    def forward(
        self,
        token_ids: NDArray[np.int64],
        rows: Rows,
        cache: Sequence[Any],
        picked: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        self.calls += 1
        logits = super().forward(token_ids, rows, cache, picked)
        if self.calls == 3 and isinstance(self.fault, BaseException):
            raise self.fault
        if self.calls == 3 and isinstance(self.fault, float):
            logits[0, 5] = self.fault
        return logits


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_bad_logit_is_an_error_and_leaves_the_engine_clean(bad: float) -> None:
    engine = make_engine(BrokenDecoder(SHARED, bad))
    with pytest.raises(UnsupportedInput, match="finite logits"):
        engine.generate([[1], [2]], GREEDY)
    check_clean(engine)


def test_an_interrupt_leaves_the_engine_clean() -> None:
    engine = make_engine(BrokenDecoder(SHARED, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        engine.generate(make_prompts(4), GREEDY)
    check_clean(engine)


def check_clean(engine: Any) -> None:
    engine.check_integrity()
    assert engine.loop.queues.pages.num_free == engine.limits.num_pages
    prompts = make_prompts(3)
    assert engine.generate(prompts, GREEDY) == make_engine().generate(prompts, GREEDY)


def test_a_failed_step_is_told_to_every_stream_under_way() -> None:
    engine = make_engine(BrokenDecoder(SHARED, KeyboardInterrupt()))
    first, second = (engine.stream([[1]], GREEDY) for _ in range(2))
    next(first)
    next(second)
    with pytest.raises(KeyboardInterrupt):
        list(first)
    with pytest.raises(RequestError, match="dropped"):
        list(second)
    check_clean(engine)


def test_a_stream_left_early_frees_its_pages_and_spares_others() -> None:
    engine = make_engine()
    left, kept = engine.stream([[1], [2]], GREEDY), engine.stream([[3]], GREEDY, receipt=True)
    next(left)
    next(kept)
    left.close()  # type: ignore[attr-defined]
    engine.check_integrity()
    finished = [e.completion for e in kept if isinstance(e, FinishedEvent)]
    assert finished == make_engine().generate([[3]], GREEDY, receipt=True)
    assert engine.loop.queues.pages.num_free == engine.limits.num_pages


def test_on_token_is_told_every_token_and_its_text() -> None:
    events: list[TokenEvent] = []
    params = SamplingParams(max_tokens=6, n=2, temperature=1.0, seed=1)
    done = make_engine().generate([[1], [2]], params, on_token=events.append)
    for place, completion in enumerate(done):
        for output in completion.outputs:
            mine = [e for e in events if (e.prompt, e.index) == (place, output.index)]
            assert tuple(e.token_id for e in mine) == output.token_ids
            assert "".join(e.text for e in mine) == output.text
            assert [e.finish_reason for e in mine] == [None] * 5 + [output.finish_reason]


def test_scores_are_the_logits_at_every_position_for_any_chunk() -> None:
    ids = make_prompts(1, longest=60)[0] * 2
    whole = make_engine().score(ids)
    assert whole.shape == (len(ids), CONFIG.vocab_size)
    for chunk in (1, 7, 16):
        assert make_engine(chunk_tokens=chunk).score(ids).tobytes() == whole.tobytes()


@pytest.mark.parametrize("ids", [[], [260], [1] * 513])
def test_what_cannot_be_scored_is_refused(ids: list[int]) -> None:
    engine = make_engine()
    with pytest.raises(RequestError):
        engine.score(ids)
    engine.check_integrity()


def test_scoring_frees_its_pages_and_needs_free_ones() -> None:
    engine = make_engine(kv_tokens=32)
    engine.score([1] * 32)
    engine.check_integrity()
    with pytest.raises(RequestTooLong, match="free pages"):
        engine.score([1] * 33)


def test_a_closed_engine_refuses() -> None:
    with make_engine() as engine:
        under_way = engine.stream([[1]], GREEDY)
        next(under_way)
    for call in (lambda: engine.generate([[1]]), lambda: engine.score([1])):
        with pytest.raises(ConfigError, match="closed"):
            call()
    with pytest.raises(RequestError, match="dropped"):
        list(under_way)


@pytest.mark.parametrize(
    "sizes",
    [
        {"page_tokens": 8},
        {"page_tokens": 0},
        {"page_tokens": 24},
        {"kv_tokens": 15},
        {"max_rows": 0},
        {"chunk_tokens": -1},
        {"max_batch": 0},
        {"max_batch": True},
    ],
)
def test_impossible_sizes_are_refused_by_name(sizes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(sizes))):
        make_engine(**sizes)


def test_other_weights_give_other_tokens() -> None:
    def tokens(done: list[Completion]) -> list[tuple[int, ...]]:
        return [c.outputs[0].token_ids for c in done]

    prompts = make_prompts(3)
    other = make_engine(make_decoder(seed=1)).generate(prompts, GREEDY)
    assert tokens(other) != tokens(make_engine().generate(prompts, GREEDY))


def test_a_tokenizer_of_another_digest_shows_in_the_identity() -> None:
    engine = make_engine()
    before = engine.identity
    engine.tokenizer = ByteTokenizer(digest=tagged_digest("other"))
    assert engine.identity.tokenizer != before.tokenizer
    assert engine.identity.weights == before.weights


def test_callers_in_several_threads_get_the_bits_each_has_alone() -> None:
    prompts = ["hello", "abcdef", "zzzzzzzz", "q" * 30]
    with make_engine() as engine:
        params = SamplingParams(max_tokens=12, ignore_eos=True)

        def complete(prompt: str) -> object:
            [completion] = engine.generate([prompt], params, receipt=True)
            assert completion.receipt is not None
            return completion.receipt.samples

        alone = [complete(prompt) for prompt in prompts]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            with ThreadPoolExecutor(len(prompts)) as threads:
                for _ in range(10):
                    assert list(threads.map(complete, prompts)) == alone
        finally:
            sys.setswitchinterval(interval)
        engine.check_integrity()
