from collections.abc import Sequence
from typing import Any

import pytest

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask
from samebits.audit.targets.http import HttpTarget
from tests.audit.endpoints import Endpoint, run_endpoint

PROMPTS = (
    AuditPrompt(id="a", text="The capital of France is"),
    AuditPrompt(id="b", text="Once upon a time there was"),
)
COMPANIONS = (
    AuditPrompt(id="k", text="one two three four five six seven"),
    AuditPrompt(id="l", text="eight nine ten eleven twelve"),
)


def answers_of(
    endpoint: Endpoint,
    *calls: Call,
    block: str = "block",
    prompts: Sequence[AuditPrompt] = PROMPTS,
    **settings: Any,
) -> list[list[Answer]]:
    """Ask under each call in one session; the probing calls are forgotten before."""
    target = HttpTarget(endpoint.url, backoff_s=0.005, **settings)
    with target.open(Process()) as session:
        endpoint.sent.clear()
        endpoint.most_at_once = 0
        asks = (
            Ask(call=call, prompts=prompts, max_tokens=4, block=block, companions=COMPANIONS)
            for call in calls
        )
        return [list(session.ask(ask)) for ask in asks]


def bare(answer: Answer) -> dict[str, Any]:
    return {n: getattr(answer, n) for n in Answer.__slots__ if n != "elapsed_s"}


def test_answers_come_one_at_a_time() -> None:
    with (
        run_endpoint(Endpoint()) as endpoint,
        HttpTarget(endpoint.url).open(Process()) as session,
    ):
        endpoint.sent.clear()
        ask = Ask(call=Call(), prompts=PROMPTS, max_tokens=4, block="", companions=())
        answers = session.ask(ask)
        next(answers)
        assert len(endpoint.calls()) == 1
        next(answers)
        assert len(endpoint.calls()) == 2
        assert next(answers, None) is None


def test_there_is_no_looking_into_a_server() -> None:
    with (
        run_endpoint(Endpoint()) as endpoint,
        HttpTarget(endpoint.url).open(Process()) as session,
    ):
        assert session.probe(Condition(), Condition(call=Call(batch=2)), PROMPTS[0]) is None


@pytest.mark.parametrize("api", ["completions", "chat"])
@pytest.mark.parametrize("kind", ["vllm", ""])
def test_a_stream_gives_the_same_answer_as_a_whole_reply(api: str, kind: str) -> None:
    with run_endpoint(Endpoint(kind=kind)) as endpoint:
        [whole, stream] = answers_of(endpoint, Call(), Call(stream=True), api=api)
        assert endpoint.calls()[-1]["stream_options"] == {"include_usage": True}
    assert all(answer.error is None for answer in stream)
    assert [bare(a) | {"fingerprint": None} for a in whole] == [bare(a) for a in stream]


def test_every_request_is_new_to_the_cache_unless_the_prefix_is_asked_for() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        answers_of(endpoint, Call(), Call(), Call(concurrency=4))
        salts = [body["cache_salt"] for body in endpoint.calls()]
        assert len(set(salts)) == len(salts) == 12


def test_a_warm_prompt_shares_the_part_of_the_cache_of_the_cold_one_only() -> None:
    cold, warm = Call(prefix="cold"), Call(prefix="warm")
    with run_endpoint(Endpoint()) as endpoint:
        answers = answers_of(endpoint, cold, warm, warm)
        salts = [body["cache_salt"] for body in endpoint.calls()]
        assert salts[:2] == salts[2:4] == salts[4:6]
        assert len(set(salts)) == 2
        assert {body["prompt"] for body in endpoint.calls()} == {p.text for p in PROMPTS}
        assert all(answer.error is None for row in answers for answer in row)
        answers_of(endpoint, cold, block="another")
        assert not {body["cache_salt"] for body in endpoint.calls()} & set(salts)


def test_a_server_without_a_salt_gets_a_mark_that_does_not_depend_on_cold_or_warm() -> None:
    with run_endpoint(Endpoint(kind="")) as endpoint:
        answers_of(endpoint, Call(prefix="cold"), Call(prefix="warm"))
        first, second, *again = [body["prompt"] for body in endpoint.calls()]
        assert [first, second] == again
        assert first.endswith("] The capital of France is")
        assert first.split("]")[0] != second.split("]")[0]
        answers_of(endpoint, Call(prefix="cold"), api="chat")
        assert endpoint.calls()[0]["messages"][0]["content"].startswith("[")


def test_a_mark_goes_before_the_first_message() -> None:
    chat = AuditPrompt(id="m", messages=(("system", "Be brief."), ("user", "Hello")))
    with run_endpoint(Endpoint(kind="")) as endpoint:
        answers_of(endpoint, Call(prefix="cold"), prompts=(chat,), api="chat")
        system, user = endpoint.calls()[0]["messages"]
    assert system["content"].endswith("] Be brief.")
    assert user["content"] == "Hello"


def test_llama_cpp_is_told_whether_to_use_its_cache() -> None:
    calls = (Call(), Call(prefix="cold"), Call(prefix="warm"))
    with run_endpoint(Endpoint(kind="llama.cpp")) as endpoint:
        answers_of(endpoint, *calls, prompts=PROMPTS[:1])
        assert [body["cache_prompt"] for body in endpoint.calls()] == [False, False, True]


def test_a_warm_prompt_that_was_never_seen_is_shown_first() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        answers_of(endpoint, Call(prefix="warm"), prompts=PROMPTS[:1])
        one, other = endpoint.calls()
    assert one == other


def test_a_cold_prompt_cannot_be_asked_twice_in_a_block() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        _, second = answers_of(endpoint, Call(prefix="cold"), Call(prefix="cold"))
    assert all("not seen before" in str(answer.error) for answer in second)


@pytest.mark.parametrize("position", [0, 7])
def test_a_batch_is_one_request_and_its_row_is_observed(position: int) -> None:
    with run_endpoint(Endpoint()) as endpoint:
        call = Call(batch=8, position=position, neighbours="others")
        [alone, row] = answers_of(endpoint, Call(), call)
        body = endpoint.calls()[-1]
    assert len(body["prompt"]) == 8
    assert body["prompt"].count(PROMPTS[1].text) == 1
    assert body["prompt"][position] == PROMPTS[1].text
    assert [a.text for a in alone] == [a.text for a in row]
    assert [a.steps for a in alone] == [a.steps for a in row]
    assert row[0].num_tokens == 4


def test_copies_are_copies() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        answers_of(endpoint, Call(batch=3), prompts=PROMPTS[:1])
        assert endpoint.calls()[0]["prompt"] == [PROMPTS[0].text] * 3


@pytest.mark.parametrize("kind", ["vllm", ""])
def test_neighbours_have_the_length_of_the_prompt_and_more_are_others(kind: str) -> None:
    with run_endpoint(Endpoint(kind=kind)) as endpoint:
        rows = {}
        for name in ("others", "more"):
            answers_of(endpoint, Call(batch=6, neighbours=name), prompts=PROMPTS[:1])
            rows[name] = endpoint.calls()[-1]["prompt"][1:]
    text = PROMPTS[0].text or ""
    for prompts in rows.values():
        assert text not in prompts
        assert len(set(prompts)) == 5
        lengths = {len(one.split()) for one in prompts} if kind else {len(one) for one in prompts}
        assert lengths == {len(text.split()) if kind else len(text)}
    assert not set(rows["others"]) & set(rows["more"])


def test_neighbours_of_a_chat_have_its_other_messages() -> None:
    chat = AuditPrompt(id="m", messages=(("system", "Be brief."), ("user", "Hello there you")))
    with run_endpoint(Endpoint(delay_s=0.05)) as endpoint:
        answers_of(endpoint, Call(concurrency=2, neighbours="others"), prompts=(chat,), api="chat")
        bodies = endpoint.calls()
    assert {body["messages"][0]["content"] for body in bodies} == {"Be brief."}
    assert len({body["messages"][1]["content"] for body in bodies}) == 2


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_the_same_question_is_asked_in_the_same_words(api: str) -> None:
    with run_endpoint(Endpoint()) as endpoint:
        answers_of(endpoint, Call(), Call(), api=api)
        bodies = [{k: v for k, v in b.items() if k != "cache_salt"} for b in endpoint.calls()]
    assert bodies[:2] == bodies[2:]


def test_concurrent_requests_are_under_way_at_once_and_the_observed_one_is_among_them() -> None:
    with run_endpoint(Endpoint(delay_s=0.1)) as endpoint:
        [alone, beside] = answers_of(
            endpoint, Call(), Call(concurrency=8, neighbours="others"), prompts=PROMPTS[:1]
        )
        assert endpoint.most_at_once == 8
        assert len(endpoint.calls()) == 9
        answers_of(endpoint, Call(concurrency=8), prompts=PROMPTS[:1])
        assert {body["prompt"] for body in endpoint.calls()} == {PROMPTS[0].text}
    assert bare(alone[0]) == bare(beside[0])


def test_staggered_requests_start_one_after_another() -> None:
    with run_endpoint(Endpoint(delay_s=0.01)) as endpoint:
        answers_of(endpoint, Call(concurrency=4, stagger_ms=100), prompts=PROMPTS[:1])
        assert len(endpoint.calls()) == 4
        assert endpoint.most_at_once < 4


SEEDS = {"absent": "no field", "null": None, "0": 0, "42": 42}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_is_absent_null_or_a_number_and_zero_is_one(seed: str) -> None:
    with run_endpoint(Endpoint()) as endpoint:
        answers_of(endpoint, Call(seed=seed, temperature=1.0), prompts=PROMPTS[:1])
        [body] = endpoint.calls()
    assert body.get("seed", "no field") == SEEDS[seed]
    assert body["temperature"] == 1.0


def test_neighbours_may_have_another_seed() -> None:
    call = Call(seed="42", temperature=1.0, concurrency=4, neighbour_seed=7)
    with run_endpoint(Endpoint()) as endpoint:
        answers_of(endpoint, call, prompts=PROMPTS[:1])
        assert sorted(body["seed"] for body in endpoint.calls()) == [7, 7, 7, 42]


@pytest.mark.parametrize("stream", [False, True])
def test_further_samples_are_kept(stream: bool) -> None:
    call = Call(n=4, temperature=1.0, seed="42", stream=stream)
    with run_endpoint(Endpoint()) as endpoint:
        [[answer]] = answers_of(endpoint, call, prompts=PROMPTS[:1])
    assert len({answer.text, *answer.others}) == 4
    assert answer.num_tokens == 4


def test_scoring_gives_the_bits_of_the_prompts_own_tokens() -> None:
    scored = Call(scoring=True)
    with run_endpoint(Endpoint()) as endpoint:
        [alone, row] = answers_of(endpoint, scored, Call(scoring=True, batch=8, position=3))
        assert endpoint.calls()[0]["echo"] is True
    for one, other, prompt in zip(alone, row, PROMPTS, strict=True):
        assert one.error is None
        assert one.text == ""
        assert one.steps is not None
        assert len(one.steps) == len((prompt.text or "").split()) - 1
        assert one.token_ids is not None
        assert len(one.token_ids) == len(one.steps)
        assert one.steps == other.steps
