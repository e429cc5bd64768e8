import json
from typing import Any

import pytest

from samebits.audit.condition import Call
from samebits.audit.observation import Answer
from samebits.audit.targets.http_answers import make_answer
from samebits.audit.targets.http_reply import read_events, read_reply
from samebits.audit.targets.http_stream import Event
from samebits.audit.targets.http_wire import NoAnswer


def answer_of(choice: str | dict[str, Any], **call: Any) -> Answer:
    text = choice if isinstance(choice, str) else json.dumps(choice)
    reply = read_reply(f'{{"choices": [{text}]}}'.encode())
    return make_answer(reply, Call(**call), echo_tokens=0, elapsed_s=1.0)


def steps_of(*spellings: str) -> tuple[str, ...]:
    values = ", ".join(spellings)
    names = json.dumps([" a"] * len(spellings))
    logprobs = f'{{"tokens": {names}, "token_logprobs": [{values}]}}'
    answer = answer_of(f'{{"text": "x", "logprobs": {logprobs}}}')
    assert answer.steps is not None
    return answer.steps


@pytest.mark.parametrize(
    ("one", "other"),
    [("-0.0", "0.0"), ("0", "-0"), ("0.10", "0.1"), ("1e-7", "0.0000001"), ("NaN", "-Infinity")],
)
def test_numbers_that_are_spelled_otherwise_are_other_bits(one: str, other: str) -> None:
    first, second, third = steps_of(one, other, one)
    assert first == third != second


def test_neighbouring_doubles_are_other_bits() -> None:
    first, second = steps_of("-0.2399434745311737", "-0.23994347453117373")
    assert first != second


def test_log_probabilities_that_are_no_numbers_are_left_out_but_their_bits_stay() -> None:
    answer = answer_of('{"text": "x", "logprobs": {"tokens": ["a"], "token_logprobs": [NaN]}}')
    assert answer.logprobs is None
    assert answer.steps is not None


def chat_entry(token: str, *values: float, **more: Any) -> dict[str, Any]:
    tops = [{"token": f"{token}{place}", "logprob": v} for place, v in enumerate(values)]
    tops[0]["token"] = token
    return {"token": token, "logprob": values[0], "top_logprobs": tops, **more}


def test_margins_are_differences_of_the_two_best_log_probabilities() -> None:
    content = [chat_entry("a", -0.25, -1.5, -3.0), chat_entry("b", -0.5, -0.5)]
    answer = answer_of({"message": {"content": "ab"}, "logprobs": {"content": content}})
    assert answer.margins == (1.25, 0.0)
    assert answer.seconds == ("a1", "b1")
    assert answer.tokens == ("a", "b")


def test_of_two_equal_ones_the_second_is_that_which_was_not_chosen() -> None:
    tops = [{"token": "z", "logprob": -0.5}, {"token": "b", "logprob": -0.5}]
    content = [{"token": "b", "logprob": -0.5, "top_logprobs": tops}]
    answer = answer_of({"message": {"content": "b"}, "logprobs": {"content": content}})
    assert answer.seconds == ("z",)


def test_a_single_alternative_gives_no_margin() -> None:
    content = [chat_entry("a", -0.25, -1.5), chat_entry("b", -0.5)]
    answer = answer_of({"message": {"content": "ab"}, "logprobs": {"content": content}})
    assert answer.margins is None
    assert answer.steps is not None


def test_ids_are_read_from_names_from_entries_and_from_their_own_field() -> None:
    named = {
        "tokens": ["token_id:7"],
        "token_logprobs": [-0.5],
        "top_logprobs": [{"token_id:7": -0.5, "token_id:9": -1}],
    }
    answer = answer_of({"text": "x", "logprobs": named})
    assert (answer.token_ids, answer.tokens, answer.seconds) == ((7,), None, (9,))
    content = [{"token": "a", "id": 7, "logprob": -1}]
    assert answer_of({"text": "x", "logprobs": {"content": content}}).token_ids == (7,)
    assert answer_of({"text": "x", "token_ids": [7, 8]}).token_ids == (7, 8)


def test_ids_that_do_not_fit_the_tokens_are_left_out() -> None:
    content = [chat_entry("a", -0.25)]
    choice = {"text": "a", "token_ids": [1, 2], "logprobs": {"content": content}}
    assert answer_of(choice).token_ids is None


def test_what_a_model_reasons_and_refuses_is_part_of_its_text() -> None:
    message = {"content": None, "reasoning_content": "hm", "reasoning": "hm", "refusal": "no"}
    assert answer_of({"message": message}).text == "hmno"


BAD = {
    "no choices": ('{"choices": []}', "at least one choice"),
    "no field": ("{}", "at least one choice"),
    "an error in a 200": ('{"error": {"message": "overloaded"}}', "overloaded"),
    "an error as vLLM spells it": ('{"object": "error", "message": "bad"}', "bad"),
    "HTML": ("<!DOCTYPE html><html><body>hello</body>", "HTML, '<!DOCTYPE html>"),
    "nothing": ("", "an empty reply"),
    "a list": ("[]", "a JSON object"),
    "nesting": ("[" * 100_000, "expected JSON"),
    "choices of another type": ('{"choices": {}}', "choices of type list"),
    "a choice of another type": ('{"choices": [1]}', "a choice of type dict"),
    "text of another type": ('{"choices": [{"text": 1}]}', "text of type str"),
    "a flag as an index": ('{"choices": [{"index": true}]}', "index of type int"),
    "ids of another type": ('{"choices": [{"token_ids": ["1"]}]}', "token_ids of type int"),
    "half a pair": ('{"choices": [{"text": "\\ud800"}]}', "half a surrogate pair"),
    "too few values": (
        '{"choices": [{"logprobs": {"tokens": ["a", "b"], "token_logprobs": [-1]}}]}',
        "2 log-probabilities",
    ),
    "a value of another type": (
        '{"choices": [{"logprobs": {"tokens": ["a"], "token_logprobs": ["-1"]}}]}',
        "token_logprobs of type float",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_reply_that_is_none_is_refused_by_name(name: str) -> None:
    raw, said = BAD[name]
    with pytest.raises(NoAnswer) as caught:
        read_reply(raw.encode())
    assert said in str(caught.value)


def test_a_long_page_is_shown_by_its_first_80_characters() -> None:
    with pytest.raises(NoAnswer) as caught:
        read_reply(b"<html>" + b"x" * 1000)
    assert len(caught.value.found) < 100


def event(**choice: Any) -> Event:
    return Event("message", json.dumps({"choices": [choice]}))


def test_a_stream_is_joined_choice_by_choice() -> None:
    events = [
        event(index=0, delta={"content": "a"}, token_ids=[1]),
        event(index=1, delta={"content": "x"}, token_ids=[9]),
        event(index=0, delta={"content": "b"}, token_ids=[2], finish_reason="stop"),
        event(index=1, delta={}, finish_reason="length"),
        Event("message", '{"choices": [], "usage": {"completion_tokens": 3, "prompt_tokens": 5}}'),
    ]
    reply = read_events(events)
    assert [(c.text, c.token_ids, c.finish_reason) for c in reply.choices.values()] == [
        ("ab", (1, 2), "stop"),
        ("x", (9,), "length"),
    ]
    assert (reply.num_tokens, reply.num_prompt_tokens) == (3, 5)


def test_a_stream_without_done_is_whole_if_it_says_how_it_finished() -> None:
    assert read_events([event(text="a", finish_reason="stop")]).choices[0].text == "a"


def test_half_a_stream_is_no_answer() -> None:
    with pytest.raises(NoAnswer, match="half a stream"):
        read_events([event(text="a"), Event("message", "[DONE]")])


def test_an_error_in_the_middle_of_a_stream_is_no_answer() -> None:
    bad = Event("error", '{"message": "out of memory"}')
    with pytest.raises(NoAnswer, match="out of memory"):
        read_events([event(text="a", finish_reason="stop"), bad])
    with pytest.raises(NoAnswer, match="overloaded"):
        read_events([event(text="a"), Event("message", '{"error": "overloaded"}')])
