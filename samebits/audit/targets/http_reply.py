"""Replies, whole or in the parts of a stream, to outputs by index.

Both forms of log-probabilities are read: the lists of completions and the entries of chat, wherever
a server puts them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.audit.targets.http_stream import Event
from samebits.audit.targets.http_wire import NoAnswer, check, error_message, excerpt, parse, take

_TOKEN_ID = re.compile(r"token_id:(\d+)")
_DONE = "[DONE]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One output; fields are None where the server did not report them."""

    text: str
    finish_reason: str | None
    token_ids: tuple[int, ...] | None
    tokens: tuple[str, ...] | None
    logprobs: tuple[float | None, ...] | None
    """None within is the first token of a scored prompt."""
    tops: tuple[tuple[tuple[str, float], ...], ...] | None
    """At each step (name, log-probability) of the alternatives, best first."""
    prompt_ids: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """All outputs of one request, by index."""

    choices: Mapping[int, Choice]
    num_prompt_tokens: int | None
    num_tokens: int | None
    fingerprint: str | None


def read_reply(raw: bytes) -> Reply:
    """Read a whole reply.

    Raises:
        NoAnswer: It is no JSON, an error, or not of the protocol; says where.
    """
    return join([parse(raw)])


def read_events(events: Sequence[Event]) -> Reply:
    """Join the parts of a stream.

    Raises:
        NoAnswer: One is an error or not of the protocol, or the end is missing.
    """
    tables = []
    for event in events:
        if event.data == _DONE:
            break
        table = parse(event.data)
        if event.kind == "error":
            raise NoAnswer(expected="a stream without errors", found=_said(table, event.data))
        tables.append(table)
    reply = join(tables)
    cut = [index for index, choice in reply.choices.items() if choice.finish_reason is None]
    if cut:
        raise NoAnswer(
            expected="a finish_reason before the stream ends",
            found=f"none after {len(tables)} events: half a stream",
        )
    return reply


def _said(table: Mapping[str, Any], data: str) -> str:
    return error_message(table)[:300] or excerpt(data)


def join(tables: Iterable[Mapping[str, Any]]) -> Reply:
    """Join replies, or parts of one, choice by choice."""
    parts: dict[int, list[_Part]] = {}
    usage: Mapping[str, Any] = {}
    fingerprint: str | None = None
    for table in tables:
        if said := error_message(table):
            raise NoAnswer(expected="an answer", found=f"an error: {said[:300]}")
        for place, raw in enumerate(take(table, "choices", list, [])):
            choice = check(raw, dict, "a choice")
            index = take(choice, "index", int, place)
            parts.setdefault(index, []).append(_read_part(choice))
        usage = take(table, "usage", dict, usage)
        fingerprint = take(table, "system_fingerprint", str, fingerprint)
    if not parts:
        raise NoAnswer(expected="at least one choice", found="none")
    return Reply(
        choices={index: _join_parts(parts[index]) for index in sorted(parts)},
        num_prompt_tokens=take(usage, "prompt_tokens", int, None),
        num_tokens=take(usage, "completion_tokens", int, None),
        fingerprint=fingerprint,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A choice, or a piece of one."""

    text: str
    finish_reason: str | None
    ids: list[int] | None
    names: list[str]
    logprobs: list[float | None]
    tops: list[list[tuple[str, float]]]
    prompt_ids: list[int] | None


def _read_part(choice: Mapping[str, Any]) -> _Part:
    message = take(choice, "message", dict, None) or take(choice, "delta", dict, None)
    table = take(choice, "logprobs", dict, {})
    steps = _read_content(table) if table.get("content") is not None else _read_lists(table)
    ids = _take_ids(choice, "token_ids")
    if ids is None and steps.ids is not None:
        ids = steps.ids
    return _Part(
        text=take(choice, "text", str, "") if message is None else _read_message(message),
        finish_reason=take(choice, "finish_reason", str, None),
        ids=ids,
        names=steps.names,
        logprobs=steps.logprobs,
        tops=steps.tops,
        prompt_ids=_take_ids(choice, "prompt_token_ids"),
    )


def _read_message(message: Mapping[str, Any]) -> str:
    """Give the text of a message: what it reasoned, said and refused, in this order."""
    names = ("reasoning_content", "reasoning", "content", "refusal")
    texts = {name: take(message, name, str, "") for name in names}
    if texts["reasoning"] == texts["reasoning_content"]:
        texts["reasoning"] = ""
    return "".join(texts.values())


def _take_ids(table: Mapping[str, Any], name: str) -> list[int] | None:
    ids = take(table, name, list, None)
    return None if ids is None else [check(one, int, name) for one in ids]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    names: list[str]
    logprobs: list[float | None]
    tops: list[list[tuple[str, float]]]
    ids: list[int] | None


def _read_lists(table: Mapping[str, Any]) -> _Steps:
    """Read log-probabilities as completions gives them: one list for each thing."""
    names = [check(one, str, "tokens") for one in take(table, "tokens", list, [])]
    values = [
        None if one is None else check(one, float, "token_logprobs")
        for one in take(table, "token_logprobs", list, [])
    ]
    tops = [
        [
            (check(name, str, "top_logprobs"), check(value, float, "top_logprobs"))
            for name, value in check(one or {}, dict, "top_logprobs").items()
        ]
        for one in take(table, "top_logprobs", list, [])
    ]
    return _Steps(names=names, logprobs=values, tops=tops, ids=None)


def _read_content(table: Mapping[str, Any]) -> _Steps:
    """Read log-probabilities as chat gives them: one entry for each step."""
    entries = [check(one, dict, "content") for one in take(table, "content", list, [])]
    ids = [entry["id"] for entry in entries if type(entry.get("id")) is int]
    has_ids = bool(ids) and len(ids) == len(entries)
    tops = [
        [_read_top(check(one, dict, "top_logprobs")) for one in take(e, "top_logprobs", list, [])]
        for e in entries
    ]
    return _Steps(
        names=[check(entry.get("token"), str, "token") for entry in entries],
        logprobs=[check(entry.get("logprob"), float, "logprob") for entry in entries],
        tops=tops,
        ids=ids if has_ids else None,
    )


def _read_top(entry: Mapping[str, Any]) -> tuple[str, float]:
    name = check(entry.get("token"), str, "token")
    place = entry.get("id")
    name = f"token_id:{place}" if type(place) is int else name
    return name, check(entry.get("logprob"), float, "logprob")


def _join_parts(parts: Sequence[_Part]) -> Choice:
    names = [name for part in parts for name in part.names]
    values = [value for part in parts for value in part.logprobs]
    tops = [top for part in parts for top in part.tops]
    if values and len(values) != len(names):
        raise NoAnswer(
            expected=f"{len(names)} log-probabilities, one for each token", found=str(len(values))
        )
    is_whole = bool(tops) and len(tops) == len(names) and bool(values)
    return Choice(
        text="".join(part.text for part in parts),
        finish_reason=next((p.finish_reason for p in reversed(parts) if p.finish_reason), None),
        token_ids=_join_ids(parts, names),
        tokens=tuple(names) if names and not all(map(_TOKEN_ID.fullmatch, names)) else None,
        logprobs=tuple(values) if values else None,
        tops=tuple(_sort_top(top) for top in tops) if is_whole else None,
        prompt_ids=next((tuple(p.prompt_ids) for p in parts if p.prompt_ids), None),
    )


def _join_ids(parts: Sequence[_Part], names: Sequence[str]) -> tuple[int, ...] | None:
    """Give ids from their own field or from names; None if neither tells all."""
    named = [read_id(name) for name in names]
    if names and all(one is not None for one in named):
        return tuple(one for one in named if one is not None)
    ids = [one for part in parts for one in part.ids or ()]
    is_told = any(part.ids is not None for part in parts)
    return tuple(ids) if is_told and (not names or len(ids) == len(names)) else None


def read_id(name: str) -> int | None:
    """Read the id in a name such as token_id:42; None if it is no such name."""
    match = _TOKEN_ID.fullmatch(name)
    return int(match[1]) if match else None


def _sort_top(top: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    # Stable: equal ones stay in the server's order.
    return tuple(sorted(top, key=lambda pair: -pair[1]))
