import json
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from samebits.audit.condition import Call, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask
from samebits.audit.targets import http_client
from samebits.audit.targets.http import HttpTarget
from samebits.audit.targets.http_failures import read_retry_after
from samebits.errors import SamebitsError, TargetError
from tests.audit.endpoints import (
    Endpoint,
    Fault,
    hang_up,
    run_endpoint,
    sleep,
    with_body,
    with_status,
    with_stream,
)

KEY = "sk-a-very-secret-key"
PROMPT = AuditPrompt(id="a", text="The capital of France is")
PART = b'data: {"choices": [{"text": "a", "index": 0}]}\n\n'


def answer_with(*faults: Fault | None, call: Call | None = None, **settings: Any) -> Answer:
    """Ask once while the server fails so."""
    with run_endpoint(Endpoint()) as endpoint:
        target = HttpTarget(endpoint.url, **{"retries": 2, "backoff_s": 0.005, **settings})
        with target.open(Process()) as session:
            endpoint.faults += faults
            ask = Ask(call=call or Call(), prompts=[PROMPT], max_tokens=4, block="", companions=())
            [answer] = session.ask(ask)
            return answer


def open_at(url: str, **settings: Any) -> None:
    with HttpTarget(url, **{"retries": 1, "backoff_s": 0.005, **settings}).open(Process()):
        pass


def test_a_closed_port_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    with pytest.raises(TargetError, match=f"no connection to 127.0.0.1:{port}.*running"):
        open_at(f"http://127.0.0.1:{port}/v1")


def test_a_host_that_does_not_exist_is_named() -> None:
    with pytest.raises(TargetError, match=r"no host named nowhere\.invalid"):
        open_at("http://nowhere.invalid/v1")


def test_a_server_without_tls_is_named() -> None:
    with (
        run_endpoint(Endpoint()) as endpoint,
        pytest.raises(TargetError, match="TLS with a certificate"),
    ):
        open_at(endpoint.url.replace("http://", "https://"))


def test_a_server_that_accepts_and_says_nothing_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(TargetError, match=r"no whole reply in 0\.2 s.*longer timeout"):
            open_at(f"http://127.0.0.1:{port}/v1", timeout_s=0.2)


@pytest.mark.parametrize("given", [None, KEY])
def test_a_wrong_key_is_refused_and_never_shown(given: str | None) -> None:
    with run_endpoint(Endpoint(key="another")) as endpoint:
        with pytest.raises(TargetError, match="status 401") as caught:
            open_at(endpoint.url, api_key=given)
        chain: BaseException | None = caught.value
        while chain is not None:
            assert KEY not in str(chain)
            chain = chain.__cause__ or chain.__context__


def test_the_right_key_opens() -> None:
    with (
        run_endpoint(Endpoint(key=KEY)) as endpoint,
        HttpTarget(endpoint.url, api_key=KEY).open(Process()) as session,
    ):
        assert KEY not in str(session.facts)


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_key_that_an_answer_says_back_is_not_shown(is_stream: bool) -> None:
    said = json.dumps({"error": {"message": f"bad header: Bearer {KEY}"}})
    fault = with_stream(f"data: {said}\n\n".encode()) if is_stream else with_body(said)
    answer = answer_with(fault, call=Call(stream=is_stream), api_key=KEY)
    assert answer.error is not None and "Bearer (key)" in answer.error


def test_a_placeholder_for_a_key_may_be_a_word_of_an_answer() -> None:
    said = '{"choices": [{"text": "EMPTY", "index": 0, "finish_reason": "stop"}]}'
    assert answer_with(with_body(said), api_key="EMPTY").text == "EMPTY"


def test_a_key_that_expires_ends_the_audit() -> None:
    with pytest.raises(TargetError, match="status 403"):
        answer_with(with_status(403))


def test_a_model_that_goes_away_ends_the_audit_with_those_that_are_left() -> None:
    with pytest.raises(TargetError, match="There are: tiny"):
        answer_with(with_status(404, "The model tiny does not exist"))


def test_a_rate_limited_request_is_sent_again() -> None:
    assert answer_with(with_status(429, Retry_After="0.01"), with_status(429)).error is None


def test_the_servers_pause_is_kept() -> None:
    start = time.monotonic()
    answer_with(with_status(429, Retry_After="0.5"))
    assert time.monotonic() - start >= 0.5


def test_a_server_that_goes_on_limiting_ends_the_audit() -> None:
    with pytest.raises(TargetError, match=r"429.*lower rate limit"):
        answer_with(*[with_status(429)] * 3)


def test_too_long_a_pause_is_not_waited_for() -> None:
    with pytest.raises(TargetError, match="asks for 3600 s"):
        answer_with(with_status(429, Retry_After="3600"))


def test_used_up_credit_is_not_tried_again() -> None:
    with pytest.raises(TargetError, match="credit left"):
        answer_with(with_status(429, '"insufficient_quota": You exceeded your quota'))


def test_a_pause_is_given_in_seconds_or_as_a_date() -> None:
    assert read_retry_after("2.5") == 2.5
    assert read_retry_after("-1") == 0.0
    assert read_retry_after("soon") is None
    assert read_retry_after(None) is None
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert 25 < (read_retry_after(later) or 0) <= 30


@pytest.mark.parametrize("status", [500, 502, 503, 408])
def test_an_error_of_the_server_is_tried_again(status: int) -> None:
    assert answer_with(with_status(status), with_status(status)).error is None


MISSING = {
    "status 500: no": [with_status(500)] * 3,
    "status 400: too long": [with_status(400, "too long")],
    "HTML": [with_body("<html>down for maintenance</html>", "text/html")],
    "at least one choice": [with_body('{"choices": []}')],
    "overloaded": [with_body('{"error": {"message": "overloaded"}}')],
    "choices of type list": [with_body('{"choices": 1}')],
    "1 choices": [with_body('{"choices": [{"index": 0}, {"index": 1}]}')],
    "an empty reply": [with_body("")],
    "a stream": [with_stream(PART)],
    "connection to": [hang_up()] * 3,
    "no whole reply in": [sleep(2)] * 3,
    "gave up": [with_status(418, "gave up")],
}


@pytest.mark.parametrize("said", MISSING)
def test_a_call_that_fails_is_a_missing_answer_and_nothing_else(said: str) -> None:
    settings: dict[str, Any] = {"timeout_s": 0.3} if "whole" in said else {}
    answer = answer_with(*MISSING[said], **settings)
    assert said in str(answer.error)
    assert answer == Answer(error=answer.error)


BROKEN = {
    "half a stream": [with_stream(PART)],
    "half a stream after": [with_stream(PART, b"data: [DONE]\n\n")],
    "connection to": [hang_up(PART)] * 3,
    "out of memory": [with_stream(PART, b'event: error\ndata: {"message": "out of memory"}\n\n')],
    "JSON": [with_stream(b"data: {nonsense\n\n")],
    "UTF-8": [with_stream(b"data: \xff\n\n")],
    "a whole reply": [with_body('{"choices": [{"text": "a"}]}')],
}


@pytest.mark.parametrize("said", ["half a stream", *BROKEN])
def test_a_broken_stream_is_a_missing_answer(said: str) -> None:
    answer = answer_with(*BROKEN[said], call=Call(stream=True))
    assert said.removesuffix(" after") in str(answer.error)
    assert answer == Answer(error=answer.error)


def test_an_audit_goes_on_after_a_call_that_failed() -> None:
    with (
        run_endpoint(Endpoint()) as endpoint,
        HttpTarget(endpoint.url).open(Process()) as session,
    ):
        endpoint.faults.append(with_status(400))
        ask = Ask(call=Call(), prompts=[PROMPT] * 2, max_tokens=4, block="", companions=())
        assert [answer.error is None for answer in session.ask(ask)] == [False, True]


def test_a_server_that_dies_ends_the_audit() -> None:
    with run_endpoint(Endpoint()) as endpoint:
        manager = HttpTarget(endpoint.url, retries=1, backoff_s=0.005).open(Process())
        session = manager.__enter__()
    try:
        ask = Ask(call=Call(), prompts=[PROMPT], max_tokens=4, block="", companions=())
        with pytest.raises(TargetError, match="no connection to"):
            list(session.ask(ask))
    finally:
        manager.__exit__(None, None, None)


def test_an_enormous_reply_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "REPLY_LIMIT_BYTES", 1 << 20)
    answer = answer_with(with_body(b" " * (2 << 20)))
    assert "at most 1 MiB" in str(answer.error)
    answer = answer_with(with_stream(*[b"data: " + b"x" * 65536] * 40), call=Call(stream=True))
    assert "at most 1 MiB" in str(answer.error)


def test_if_one_of_several_requests_fails_all_are_sent_again() -> None:
    with (
        run_endpoint(Endpoint(delay_s=0.02)) as endpoint,
        HttpTarget(endpoint.url, backoff_s=0.005).open(Process()) as session,
    ):
        endpoint.sent.clear()
        endpoint.faults += [None, with_status(503)]
        call = Call(concurrency=4)
        ask = Ask(call=call, prompts=[PROMPT], max_tokens=4, block="", companions=())
        [answer] = session.ask(ask)
        assert answer.error is None
        assert len(endpoint.calls()) > 4
        salts = [body["cache_salt"] for body in endpoint.calls()]
        assert len(set(salts)) == len(salts)


def test_a_failed_companion_is_a_missing_answer() -> None:
    faults = [with_body('{"error": "no memory"}')]
    assert "no memory" in str(answer_with(*faults, call=Call(concurrency=2)).error)


def test_a_cold_call_that_may_have_been_worked_on_is_not_repeated() -> None:
    cold = Call(prefix="cold")
    assert "500" in str(answer_with(with_status(500), call=cold).error)
    assert answer_with(with_status(429), call=cold).error is None


def test_a_redirect_within_the_server_is_followed() -> None:
    with run_endpoint(Endpoint(kind="")) as endpoint:
        there = endpoint.url + "/completions?again"
        endpoint.faults.append(with_status(307, Location=there))
        open_at(endpoint.url)
        assert endpoint.faults == []
        assert [path for path, _ in endpoint.sent[:2]] == ["/v1/completions"] * 2


def test_a_key_is_not_sent_to_another_server() -> None:
    with run_endpoint(Endpoint()) as other, run_endpoint(Endpoint(key=KEY)) as endpoint:
        endpoint.faults.append(with_status(307, Location=other.url + "/completions"))
        with pytest.raises(TargetError, match=r"a redirect to.*not sent to another address"):
            open_at(endpoint.url, api_key=KEY)
        assert other.headers == []


def test_a_redirect_in_a_circle_ends() -> None:
    with run_endpoint(Endpoint(kind="")) as endpoint:
        for place in range(4):
            there = f"{endpoint.url}/completions?{place}"
            endpoint.faults.append(with_status(307, Location=there))
        with pytest.raises(TargetError, match="at most 3 redirects"):
            open_at(endpoint.url)


def test_the_rate_limit_is_kept() -> None:
    with (
        run_endpoint(Endpoint(kind="")) as endpoint,
        HttpTarget(endpoint.url, rate_limit=100.0).open(Process()) as session,
    ):
        num_before = len(endpoint.headers)
        start = time.monotonic()
        ask = Ask(call=Call(), prompts=[PROMPT] * 30, max_tokens=1, block="", companions=())
        list(session.ask(ask))
        took = time.monotonic() - start
        assert took >= (len(endpoint.headers) - num_before - 1) / 100.0


def test_every_failure_says_what_was_expected_and_found() -> None:
    with pytest.raises(SamebitsError) as caught:
        open_at("http://nowhere.invalid")
    assert caught.value.expected
    assert caught.value.found
    assert caught.value.remedy
