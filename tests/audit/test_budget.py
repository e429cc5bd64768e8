import pytest

from samebits.audit.budget import Budget, Cost, Meter, parse_budget
from samebits.audit.condition import Call
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.errors import ConfigError

PROMPT = AuditPrompt(id="p", text="one two three")


def make_meter(**limits: float) -> Meter:
    return Meter(budget=Budget(**limits), max_tokens=8, clock=lambda: 0.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200 calls", Budget(calls=200)),
        ("1 call", Budget(calls=1)),
        ("50000tokens", Budget(tokens=50_000)),
        ("10min", Budget(seconds=600)),
        ("1.5 h", Budget(seconds=5400)),
        ("90 s", Budget(seconds=90)),
        ("200 calls, 10 min", Budget(calls=200, seconds=600)),
    ],
)
def test_a_budget_is_read_in_calls_tokens_or_time(text: str, expected: Budget) -> None:
    assert parse_budget(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "200", "0 calls", "-1 calls", "2.5 calls", "10 dollars", "1 call, 2 calls", "1 h, 5 min"],
)
def test_what_is_no_budget_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="a budget in calls, tokens or minutes"):
        parse_budget(text)


def test_requests_that_run_beside_count_as_calls() -> None:
    meter = make_meter()
    assert meter.price(Call(concurrency=8), PROMPT).calls == 8
    assert meter.price(Call(batch=8), PROMPT).calls == 1
    assert meter.price(Call(batch=8), PROMPT).tokens == 8 * meter.price(Call(), PROMPT).tokens


def test_a_call_that_would_exceed_the_budget_may_not_start() -> None:
    meter = make_meter(calls=4)
    assert meter.allows(Call(concurrency=4), PROMPT)
    assert not meter.allows(Call(concurrency=5), PROMPT)
    meter.add(Call(), PROMPT, Answer(num_tokens=8))
    assert meter.spent.calls == 1
    assert not meter.allows(Call(concurrency=4), PROMPT)


def test_the_count_of_the_target_replaces_the_estimate() -> None:
    meter = make_meter()
    bound = meter.price(Call(), PROMPT).tokens
    meter.add(Call(), PROMPT, Answer(num_prompt_tokens=3, num_tokens=2))
    assert meter.spent == Cost(calls=1, tokens=5)
    assert meter.price(Call(), PROMPT).tokens == 3 + 8 < bound


def test_what_the_target_does_not_count_is_counted_in_full() -> None:
    meter = make_meter()
    meter.add(Call(), PROMPT, Answer())
    assert meter.spent.tokens == make_meter().price(Call(), PROMPT).tokens


def test_a_call_without_an_answer_costs_a_call_and_no_tokens() -> None:
    meter = make_meter()
    meter.add(Call(), PROMPT, Answer(error="gone"))
    assert meter.spent == Cost(calls=1, tokens=0)


def test_time_ends_a_budget_between_calls() -> None:
    now = [0.0]
    meter = Meter(budget=Budget(seconds=10), max_tokens=8, clock=lambda: now[0])
    now[0] = 9.9
    assert meter.allows(Call(), PROMPT)
    now[0] = 10.0
    assert not meter.allows(Call(), PROMPT)


def test_messages_are_counted_like_a_text() -> None:
    meter = make_meter()
    asked = AuditPrompt(id="m", messages=(("system", "x" * 100), ("user", "y" * 100)))
    assert meter.price(Call(), asked).tokens > 100
