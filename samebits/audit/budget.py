"""What an audit may spend: calls, tokens or minutes, and what each call costs.

Knows nothing of plans or records. A call of a caller that keeps several requests under way at once
costs as many calls; companions' tokens count like the observed prompt's own.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from samebits.audit.condition import Call
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.errors import ConfigError

AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)", re.ASCII)
UNITS = {
    "call": ("calls", 1),
    "calls": ("calls", 1),
    "token": ("tokens", 1),
    "tokens": ("tokens", 1),
    "s": ("seconds", 1),
    "min": ("seconds", 60),
    "minute": ("seconds", 60),
    "minutes": ("seconds", 60),
    "h": ("seconds", 3600),
}
TEMPLATE_TOKENS = 16
"""Allowance for a chat template around a prompt whose tokens were not counted yet."""
MARK_TOKENS = 24
"""Allowance for the mark before a prompt whose prefix is controlled."""
BYTES_A_TOKEN = 2
"""Fewer than the tokenizers in use need, so that the estimate lies above the count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits; None sets no limit."""

    calls: int | None = None
    """Requests, those that only run beside others included."""
    tokens: int | None = None
    """Prompt and output tokens of all requests."""
    seconds: float | None = None
    """By the clock, from the start of this attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What some calls cost, at most."""

    calls: int = 0
    tokens: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(calls=self.calls + other.calls, tokens=self.tokens + other.tokens)

    def fits(self, budget: Budget) -> bool:
        """Answer whether calls and tokens stay within the limits."""
        return (budget.calls is None or self.calls <= budget.calls) and (
            budget.tokens is None or self.tokens <= budget.tokens
        )


def parse_budget(text: str) -> Budget:
    """Read limits such as "200 calls", "50000tokens", "10min" or "200 calls, 10 min".

    Raises:
        ConfigError: Another unit, no number, zero, or one unit twice.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        found = AMOUNT.fullmatch(part.strip().lower())
        if found is None or found[2] not in UNITS or not float(found[1]):
            raise bad_budget(text)
        name, factor = UNITS[found[2]]
        amount = float(found[1]) * factor
        if name in limits or (name != "seconds" and amount != int(amount)):
            raise bad_budget(text)
        limits[name] = amount
    calls, tokens = limits.get("calls"), limits.get("tokens")
    return Budget(
        calls=None if calls is None else int(calls),
        tokens=None if tokens is None else int(tokens),
        seconds=limits.get("seconds"),
    )


def bad_budget(text: str) -> ConfigError:
    """Make the error for a budget that cannot be read."""
    return ConfigError(
        expected="a budget in calls, tokens or minutes, above zero and each at most once",
        found=repr(text),
        remedy='Write it like "200 calls", "50000 tokens" or "10 min".',
    )


def num_requests(call: Call) -> int:
    """Count the requests that one call sends."""
    return call.concurrency


def num_rows(call: Call) -> int:
    """Count the answers that one call computes."""
    return call.concurrency * call.batch * call.n


def estimate_prompt_tokens(prompt: AuditPrompt) -> int:
    """Bound the tokens of a prompt from its length in bytes."""
    messages = prompt.messages or ()
    text = prompt.text or "".join(content for _, content in messages)
    return len(text.encode(errors="replace")) // BYTES_A_TOKEN + TEMPLATE_TOKENS * max(
        1, len(messages)
    )


def extra_tokens(call: Call) -> int:
    """Bound the tokens that a call puts before a prompt."""
    return call.padding + (MARK_TOKENS if call.prefix is not None else 0)


@dataclass(slots=True, kw_only=True)
class Meter:
    """Counts what is spent and says whether one more call may start."""

    budget: Budget
    max_tokens: int
    clock: Callable[[], float]
    """Seconds, monotonic."""
    spent: Cost = field(default_factory=Cost)
    lengths: dict[str, int] = field(default_factory=dict)
    """Tokens of each prompt, by id, where the target told them."""
    began_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.began_s = self.clock()

    def price(self, call: Call, prompt: AuditPrompt) -> Cost:
        """Bound the cost of one call."""
        length = self.lengths.get(prompt.id) or estimate_prompt_tokens(prompt)
        tokens = num_rows(call) * (length + extra_tokens(call) + self.max_tokens)
        return Cost(calls=num_requests(call), tokens=tokens)

    def allows(self, call: Call, prompt: AuditPrompt) -> bool:
        """Answer whether a call may start."""
        limit = self.budget.seconds
        if limit is not None and self.clock() - self.began_s >= limit:
            return False
        return (self.spent + self.price(call, prompt)).fits(self.budget)

    def add(self, call: Call, prompt: AuditPrompt, answer: Answer) -> None:
        """Count a call that was made; the dearest case where the target does not count."""
        length = answer.num_prompt_tokens
        if length is None:
            length = estimate_prompt_tokens(prompt) + extra_tokens(call)
        elif not extra_tokens(call):
            self.lengths.setdefault(prompt.id, length)
        given = self.max_tokens if answer.num_tokens is None else answer.num_tokens
        tokens = 0 if answer.error else num_rows(call) * (length + given)
        self.spent += Cost(calls=num_requests(call), tokens=tokens)
