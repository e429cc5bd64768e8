"""What a request says to the guard, and what it may not say beside it.

Flat keys: vLLM's HTTP interface passes texts, numbers and lists of these, no objects.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from samebits.engine.request import check_integer, check_number, refuse
from samebits.errors import RequestError, UnknownParameter

PREFIX = "samebits"
ACTION, EPSILON, PRIORITY = KEYS = ("samebits_guard", "samebits_epsilon", "samebits_priority")
ACTIONS = ("lowest", "priority", "escalate")
MAX_EPSILON = 10.0
"""Nats; e**10 is 22,026. Tokens that far apart are no near-tie: more is a slip of the keyboard."""
MAX_PRIORITY = 1024

NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "temperature": (0,),
    "n": (1,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "min_tokens": (0,),
    "logit_bias": (None, {}),
    "bad_words": (None, []),
    "allowed_token_ids": (None,),
    "structured_outputs": (None,),
    "thinking_token_budget": (None,),
    "trace_decode_token_ids": (None,),
}
"""Fields of vLLM's SamplingParams to the values that leave raw logits and greedy search alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What one request asks of the guard."""

    action: str
    """lowest, priority or escalate."""
    epsilon: float
    """Nats, on raw logits; in [0, MAX_EPSILON]."""
    priority: tuple[int, ...] = ()
    """Token ids, best first; empty unless the action is priority."""


def read_arguments(extra: Mapping[str, Any] | None) -> Arguments | None:
    """Read the guard's keys among a request's extra arguments; None if there are none.

    Raises:
        UnknownParameter: A key that begins like ours and that nobody reads.
        RequestError: A value that cannot be served, or a key that is missing or too many.
    """
    given = {key: value for key, value in (extra or {}).items() if key.startswith(PREFIX)}
    if not given:
        return None
    if unknown := sorted(set(given) - set(KEYS)):
        raise UnknownParameter(expected=f"one of {', '.join(KEYS)}", found=", ".join(unknown))
    for key in (ACTION, EPSILON):
        if key not in given:
            raise RequestError(expected=f"{key} beside {', '.join(sorted(given))}", found="none")
    if (action := given[ACTION]) not in ACTIONS:
        raise refuse(ACTION, f"one of {', '.join(ACTIONS)}", action)
    rule = f"in [0, {MAX_EPSILON:g}]"
    return Arguments(
        action=action,
        epsilon=check_number(EPSILON, given[EPSILON], 0, MAX_EPSILON, rule),
        priority=read_priority(action, given.get(PRIORITY)),
    )


def read_priority(action: str, value: Any) -> tuple[int, ...]:
    """Read the list that the action priority needs and no other takes."""
    if action != "priority":
        if value is not None:
            raise refuse(PRIORITY, f"none with {ACTION} {action}", value)
        return ()
    if not isinstance(value, list | tuple) or not 1 <= len(value) <= MAX_PRIORITY:
        raise refuse(PRIORITY, f"a list of 1 to {MAX_PRIORITY} token ids", value)
    ids = tuple(check_integer(PRIORITY, token, 0, None) for token in value)
    if len(set(ids)) < len(ids):
        raise refuse(PRIORITY, "each token id once", value)
    return ids


def check_sampling(params: Any) -> None:
    """Refuse sampling, and whatever vLLM would do to the logits before or after the guard.

    Args:
        params: vLLM's SamplingParams.
    Raises:
        RequestError: Names the field.
    """
    for name, neutral in NEUTRAL.items():
        value = getattr(params, name, neutral[0])
        if value not in neutral:
            raise RequestError(
                expected=f"{name} {neutral[0]} with {ACTION}",
                found=repr(value),
                remedy="The guard decides greedy steps on raw logits. A value that the request did"
                " not name comes from the server's generation config.",
            )
