"""What goes over the wire: bodies of requests, and JSON whose numbers keep their spelling.

Two log-probabilities are the same bits if they are spelled alike, and a server that rounds them is
seen as it is. Knows nothing of connections.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.audit.condition import Call
from samebits.errors import TargetError

Sent = str | Sequence[Mapping[str, str]]
"""A prompt as it is sent: text, or messages."""

EXCERPT_CHARS = 80


class NoAnswer(TargetError):
    """Report that one call has no answer; others may."""


class Number(float):
    """A number that knows how the JSON spelled it."""

    __slots__ = ("spelling",)
    spelling: str

    def __new__(cls, spelling: str) -> "Number":
        """Read a number."""
        number = super().__new__(cls, spelling)
        number.spelling = spelling
        return number


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What one server takes on one path."""

    api: str
    """completions or chat."""
    limit_field: str = "max_tokens"
    max_logprobs: int = 0
    """Most alternatives it reports; 0: no log-probabilities."""
    id_fields: tuple[str, ...] = ()
    """Fields, all true, that make it report token ids."""
    reports: tuple[str, ...] = ("text",)
    cold: str = ""
    """Field that keeps a request out of the prefix cache: cache_salt, cache_prompt or none."""
    takes_temperature: bool = True
    takes_seed: bool = True
    takes_lists: bool = False
    """Several prompts in one request."""
    takes_stream: bool = False
    takes_stream_usage: bool = False
    n_greedy: str = ""
    """Why it gives no several greedy samples; empty if it does, here and below."""
    n_sampled: str = ""
    echo_tokens: int | None = None
    """Output tokens to ask for to have a prompt scored; None: it does not score."""
    notes: tuple[str, ...] = ()
    """What it refused, in its own words."""


def make_body(
    dialect: Dialect,
    model: str,
    prompts: Sequence[Sent],
    call: Call,
    max_tokens: int,
    *,
    seed: str,
    unseen: str | None,
) -> dict[str, Any]:
    """Spell a request.

    Args:
        prompts: One, or for a list several texts.
        seed: absent, null or a decimal number; the observed request's or a neighbour's.
        unseen: A salt that keeps the prompt out of what was cached under another; None lets the
            server use its cache.
    """
    body: dict[str, Any] = {"model": model, dialect.limit_field: max_tokens}
    if dialect.api == "chat":
        body["messages"] = as_messages(prompts[0])
    else:
        body["prompt"] = prompts[0] if len(prompts) == 1 else list(prompts)
    if dialect.takes_temperature:
        body["temperature"] = call.temperature
    if call.n > 1:
        body["n"] = call.n
    if seed != "absent":
        body["seed"] = None if seed == "null" else int(seed)
    if dialect.cold == "cache_salt" and unseen is not None:
        body["cache_salt"] = unseen
    if dialect.cold == "cache_prompt":
        body["cache_prompt"] = unseen is None
    return body | _ask_for_more(dialect, call)


def _ask_for_more(dialect: Dialect, call: Call) -> dict[str, Any]:
    """Spell what only changes how much is reported."""
    more: dict[str, Any] = dict.fromkeys(dialect.id_fields, True)
    wanted = dialect.max_logprobs if call.logprobs is None else call.logprobs
    if wanted:
        is_chat = dialect.api == "chat"
        more |= {"logprobs": True, "top_logprobs": wanted} if is_chat else {"logprobs": wanted}
    if call.scoring and dialect.echo_tokens is not None:
        more |= {"echo": True, dialect.limit_field: dialect.echo_tokens}
    if call.stream:
        more["stream"] = True
        if dialect.takes_stream_usage:
            more["stream_options"] = {"include_usage": True}
    return more


def as_messages(prompt: Sent) -> list[dict[str, str]]:
    """Give the messages of a chat; a text becomes the user's."""
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return [dict(message) for message in prompt]


def parse(raw: bytes | str) -> dict[str, Any]:
    """Read a JSON object; floats keep their spelling.

    Raises:
        NoAnswer: It is none; shows how it begins.
    """
    try:
        value = json.loads(raw, parse_float=Number, parse_int=_read_int, parse_constant=Number)
    except (ValueError, RecursionError) as error:
        raise NoAnswer(
            expected="JSON",
            found=excerpt(raw),
            remedy="Is this the address of an OpenAI-compatible endpoint?",
        ) from error
    if not isinstance(value, dict):
        raise NoAnswer(expected="a JSON object", found=excerpt(raw))
    return value


def _read_int(spelling: str) -> int | float:
    """Read an integer; Python's has no negative zero and no more than some thousand digits."""
    return Number(spelling) if spelling == "-0" or len(spelling) > 20 else int(spelling)


def excerpt(raw: bytes | str) -> str:
    """Show how something begins."""
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    text = " ".join(text[: 4 * EXCERPT_CHARS].split())
    kind = "HTML, " if text[:15].lower().startswith(("<!doctype html", "<html")) else ""
    return f"{kind}{text[:EXCERPT_CHARS]!r}" if text else "an empty reply"


def error_message(table: Mapping[str, Any]) -> str:
    """Find what a server says went wrong; empty if it says nothing."""
    error = table.get("error") or table.get("detail")
    if isinstance(error, Mapping):
        error = error.get("message") or error.get("type") or error.get("code") or dict(error)
    if not error and table.get("object") == "error":
        error = table.get("message") or "an error"
    return str(error or "")


def take(table: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """Take a field that may be absent or null.

    Raises:
        NoAnswer: It has another type.
    """
    value = table.get(name)
    return default if value is None else check(value, kind, name)


def check(value: Any, kind: type, name: str) -> Any:
    """Check the type of a value; a number may be spelled as an integer.

    Raises:
        NoAnswer: It has another type.
    """
    wanted = (int, float) if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise NoAnswer(
            expected=f"{name} of type {kind.__name__} in the reply",
            found=f"{type(value).__name__} {value!r:.80}",
        )
    if isinstance(value, str):
        check_text(value, name)
    return value


def check_text(text: str, name: str) -> None:
    """Check that text can be written down.

    Raises:
        NoAnswer: It holds half of a surrogate pair, which JSON can spell and UTF-8 cannot.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NoAnswer(
            expected=f"Unicode in {name} of the reply", found=f"half a surrogate pair: {text!r:.80}"
        ) from error
