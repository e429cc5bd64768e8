from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.http import HttpTarget
from samebits.errors import ConfigError, TargetError
from tests.audit.endpoints import Endpoint, Fault, run_endpoint, with_body, with_status

PROMPTS = (
    AuditPrompt(id="a", text="The capital of France is"),
    AuditPrompt(id="b", text="Once upon a time there was"),
)
COMPANIONS = (
    AuditPrompt(id="k", text="one two three four five six seven"),
    AuditPrompt(id="l", text="eight nine ten eleven twelve"),
)


def target_of(endpoint: Endpoint, **settings: Any) -> HttpTarget:
    return HttpTarget(endpoint.url, **{"retries": 2, "backoff_s": 0.005, **settings})


def facts_of(endpoint: Endpoint, **settings: Any) -> TargetFacts:
    with target_of(endpoint, **settings).open(Process()) as session:
        return session.facts


def ask_of(call: Call, prompts: Sequence[AuditPrompt] = PROMPTS, block: str = "block") -> Ask:
    return Ask(call=call, prompts=prompts, max_tokens=4, block=block, companions=COMPANIONS)


def answers_of(endpoint: Endpoint, *calls: Call, **settings: Any) -> list[list[Answer]]:
    """Ask under each call in one session; the probing calls are forgotten before."""
    with target_of(endpoint, **settings).open(Process()) as session:
        endpoint.sent.clear()
        endpoint.most_at_once = 0
        return [list(session.ask(ask_of(call))) for call in calls]


BAD_URLS = {
    "ftp://host/v1": "http://127.0.0.1",
    "host:8000": "http://127.0.0.1",
    "http://": "http://127.0.0.1",
    "http://host:99999": "an address",
    "http://host:x": "an address",
    "http://user:secret@host/v1": "without a user",
    "http://host/v1?key=secret": r"without \?",
    "": "http://127.0.0.1",
}


@pytest.mark.parametrize("url", BAD_URLS)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match=BAD_URLS[url]) as caught:
        HttpTarget(url)
    assert "secret@" not in str(caught.value)


@pytest.mark.parametrize(
    "settings",
    [
        {"api": "responses"},
        {"max_concurrency": 0},
        {"rate_limit": 0.0},
        {"timeout_s": float("nan")},
        {"timeout_s": float("inf")},
        {"api_key": "secret\n"},
        {"api_key": "secr\udce9t"},
        {"retries": -1},
        {"extra_body": {"temperature": 1}},
    ],
)
def test_a_setting_out_of_range_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        HttpTarget("http://127.0.0.1:1", **settings)


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "/v1/chat/completions"])
def test_an_address_is_taken_with_and_without_its_version(end: str) -> None:
    with run_endpoint(Endpoint()) as endpoint:
        root = endpoint.url.removesuffix("/v1")
        target = HttpTarget(root + end)
        with target.open(Process()) as session:
            assert session.facts.in_force["url"] == endpoint.url
            assert session.facts.name == "tiny"


def test_a_server_without_version_in_its_address_is_found_too() -> None:
    with run_endpoint(Endpoint(prefix="/api", kind="")) as endpoint:
        assert facts_of(endpoint).in_force["url"] == endpoint.url


def test_of_several_models_one_must_be_named() -> None:
    with run_endpoint(Endpoint(models=("one", "two"))) as endpoint:
        with pytest.raises(TargetError, match=r"one, two.*--model"):
            facts_of(endpoint)
        assert facts_of(endpoint, model="two").name == "two"


def test_a_model_that_is_not_there_is_refused_with_those_that_are() -> None:
    with (
        run_endpoint(Endpoint(models=("one", "two"))) as endpoint,
        pytest.raises(TargetError, match=r"'three'.*There are: one, two"),
    ):
        facts_of(endpoint, model="three")


def test_a_server_that_lists_no_models_needs_a_name() -> None:
    with run_endpoint(Endpoint(models=None)) as endpoint:
        with pytest.raises(TargetError, match="no list of models"):
            facts_of(endpoint)
        facts = facts_of(endpoint, model="x")
        assert facts.name == "x"
        assert not facts.in_force["model_listed"]


def test_auto_takes_completions_where_it_exists_and_chat_elsewhere() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        assert facts_of(endpoint).in_force["dialect"]["api"] == "completions"
    with run_endpoint(Endpoint(apis=("chat",))) as endpoint:
        assert facts_of(endpoint).in_force["dialect"]["api"] == "chat"
        with pytest.raises(TargetError, match="no path for completions"):
            facts_of(endpoint, api="completions")
    with (
        run_endpoint(Endpoint(apis=())) as endpoint,
        pytest.raises(TargetError, match="neither completions nor chat"),
    ):
        facts_of(endpoint)


def test_a_model_that_only_chats_is_asked_to_chat() -> None:
    said = "This is a chat model and not supported in the v1/completions endpoint"
    with run_endpoint(Endpoint(faults=[with_status(404, said)])) as endpoint:
        assert facts_of(endpoint).in_force["dialect"]["api"] == "chat"


def test_messages_go_to_chat_and_texts_to_completions() -> None:
    messages = AuditPrompt(id="m", messages=(("system", "Be brief."), ("user", "Hello")))
    with run_endpoint(Endpoint()) as endpoint:
        with target_of(endpoint).open(Process()) as session:
            answers = list(session.ask(ask_of(Call(), (messages, PROMPTS[0]))))
        assert [answer.error for answer in answers] == [None, None]
        assert endpoint.calls()[-2]["messages"][0] == {"role": "system", "content": "Be brief."}
        assert endpoint.calls()[-1]["prompt"] == PROMPTS[0].text
        with (
            target_of(endpoint, api="completions").open(Process()) as session,
            pytest.raises(ConfigError, match="messages in 'm'"),
        ):
            list(session.ask(ask_of(Call(), (messages,))))


def test_vllm_reports_ids_bits_and_margins() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        facts = facts_of(endpoint)
        assert set(facts.reports) == {"text", "token_ids", "steps", "margins", "logprobs"}
        assert facts.max_logprobs == 20
        assert (facts.in_force["server"], facts.in_force["version"]) == ("vllm", "1.2.3")
        assert not facts.is_local
        [[answer, _]] = answers_of(endpoint, Call())
    assert answer.token_ids is not None
    assert answer.text == "".join(f" t{one}" for one in answer.token_ids)
    assert answer.tokens is None
    assert answer.margins == (0.5,) * 4
    assert answer.seconds == tuple(one + 1 for one in answer.token_ids)
    assert answer.steps is not None
    assert len(answer.steps) == 4
    assert (answer.num_prompt_tokens, answer.num_tokens) == (5, 4)
    assert (answer.finish_reason, answer.fingerprint) == ("length", "fp")
    assert answer.elapsed_s > 0


def test_llama_cpp_reports_ids_in_its_entries() -> None:
    with run_endpoint(Endpoint(kind="llama.cpp")) as endpoint:
        facts = facts_of(endpoint)
        assert facts.in_force["server"] == "llama.cpp"
        assert {"token_ids", "tokens"} <= set(facts.reports)
        assert facts.in_force["dialect"]["id_fields"] == ()


def test_a_plain_server_reports_spellings() -> None:
    with run_endpoint(Endpoint(kind="")) as endpoint:
        assert set(facts_of(endpoint).reports) == {"text", "tokens", "steps", "margins", "logprobs"}
        [[answer, _]] = answers_of(endpoint, Call())
    assert answer.token_ids is None
    assert answer.tokens is not None


def test_the_largest_number_of_alternatives_is_found() -> None:
    with run_endpoint(Endpoint(most_logprobs=5)) as endpoint:
        facts = facts_of(endpoint)
        assert facts.max_logprobs == 5
        answers_of(endpoint, Call(), Call(logprobs=1), Call(logprobs=0))
        assert [body.get("logprobs") for body in endpoint.calls()[::2]] == [5, 1, None]


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_without_log_probabilities_it_goes_on_and_says_so(api: str) -> None:
    with run_endpoint(Endpoint(refused=("logprobs",))) as endpoint:
        facts = facts_of(endpoint, api=api)
        [[answer, _]] = answers_of(endpoint, Call(), api=api)
    assert facts.max_logprobs == 0
    assert "steps" not in facts.reports
    assert "logprobs is not supported" in facts.in_force["dialect"]["notes"][0]
    assert answer.error is None
    assert answer.steps is None
    assert answer.text


def test_log_probabilities_that_are_ignored_are_said_to_be() -> None:
    with run_endpoint(Endpoint(ignored=("logprobs", "top_logprobs"))) as endpoint:
        assert "ignored" in facts_of(endpoint, api="chat").in_force["dialect"]["notes"][0]


STRICT = ("return_token_ids", "return_tokens_as_token_ids", "cache_salt", "seed", "stream", "echo")


@pytest.mark.parametrize("api", ["completions", "chat"])
def test_fields_that_a_server_refuses_are_not_sent_again(api: str) -> None:
    with run_endpoint(Endpoint(refused=STRICT)) as endpoint:
        facts = facts_of(endpoint, api=api)
        [[answer, _]] = answers_of(endpoint, Call(), api=api)
        assert answer.error is None
        assert not set(STRICT) & endpoint.calls()[0].keys()
        target = target_of(endpoint)
    for call in (Call(seed="0"), Call(stream=True), Call(scoring=True)):
        assert target.refuse(Condition(call=call), facts)


def test_a_model_that_wants_another_limit_and_no_temperature_gets_them() -> None:
    said = "Use 'max_completion_tokens' instead"
    faults: list[Fault | None] = [with_status(400, said)]
    faults += [with_status(400, "Unsupported value: 'temperature'")]
    with run_endpoint(Endpoint(faults=faults, apis=("chat",))) as endpoint:
        facts = facts_of(endpoint, api="chat")
        body = endpoint.calls()[-1]
        assert "temperature" not in body
        assert "max_completion_tokens" in body
        target = target_of(endpoint)
    assert "temperature" in facts.in_force["dialect"]["notes"][0]
    sampled = Condition(call=Call(temperature=1.0))
    assert target.refuse(sampled, facts) == "the server refuses a temperature"


REFUSED = {
    "padding": Call(padding=1),
    "first call": Call(first="first"),
    "chunk size": Call(chunk_tokens=7),
    "KV cache": Call(kv_cache=False),
    "clock": Call(clock="2024-02-29T12:00:00"),
    "equal logits": Call(pick="highest"),
    "more than 16": Call(concurrency=17),
    "share one seed": Call(batch=2, neighbour_seed=7),
    "no row 2": Call(batch=2, position=2),
    "at most 20": Call(logprobs=21),
    "greedy": Call(n=4),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_no_request_can_say_is_refused_with_a_reason(reason: str) -> None:
    with run_endpoint(Endpoint()) as endpoint, target_of(endpoint).open(Process()) as session:
        target = target_of(endpoint)
        assert reason in target.refuse(Condition(call=REFUSED[reason]), session.facts)
        with pytest.raises(ConfigError):
            list(session.ask(ask_of(REFUSED[reason])))


@pytest.mark.parametrize("call", [Call(batch=2), Call(batch=2, scoring=True)])
def test_chat_takes_no_lists(call: Call) -> None:
    with run_endpoint(Endpoint()) as endpoint:
        facts = facts_of(endpoint, api="chat")
        assert "one conversation" in target_of(endpoint).refuse(Condition(call=call), facts)


@pytest.mark.parametrize(
    "process",
    [Process(instance=1), Process(threads=1), Process(dtype="float32"), Process(compile=True)],
)
def test_a_servers_process_is_not_ours(process: Process) -> None:
    with run_endpoint(Endpoint()) as endpoint:
        facts = facts_of(endpoint)
        target = target_of(endpoint)
        assert "samebits audit --record" in target.refuse(Condition(process=process), facts)
        with pytest.raises(ConfigError), target.open(process):
            pass
        restarted = target_of(endpoint, can_restart=True)
        is_instance = process == Process(instance=1)
        assert bool(restarted.refuse(Condition(process=process), facts)) != is_instance


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
def test_a_date_in_the_rendered_prompt_is_reported(kind: str) -> None:
    today = datetime.now(UTC)
    for date, is_there in ((today.strftime("%d %b %Y"), True), ("26 Jul 2024", False)):
        with run_endpoint(Endpoint(kind=kind, date=date)) as endpoint:
            assert facts_of(endpoint).in_force["date_in_prompt"] is is_there
    with run_endpoint(Endpoint(kind="")) as endpoint:
        assert facts_of(endpoint).in_force["date_in_prompt"] is None


def test_yesterday_counts_as_today_since_servers_live_in_other_zones() -> None:
    date = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d}"
    with run_endpoint(Endpoint(date=date)) as endpoint:
        assert facts_of(endpoint).in_force["date_in_prompt"] is True


def test_further_fields_go_into_every_request() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        answers_of(endpoint, Call(), extra_body={"top_p": 1})
        assert all(body["top_p"] == 1 for body in endpoint.calls())


def test_a_page_is_no_endpoint() -> None:
    page = with_body("<html><body>Welcome to nginx</body></html>", "text/html")
    with (
        run_endpoint(Endpoint(faults=[page] * 2)) as endpoint,
        pytest.raises(TargetError, match="HTML, '<html><body>Welcome"),
    ):
        facts_of(endpoint)
