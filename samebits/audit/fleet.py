"""What several servers tell of themselves, and how they differ.

Each is asked on the paths that its kind has; nothing is generated. Values that look like no setting
are masked, since what a server says is shown to people.
"""

import asyncio
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.audit.targets.http_client import Client, Link
from samebits.audit.targets.http_server import Server, check_url, fetch_json, find_server
from samebits.errors import ConfigError, TargetError
from samebits.lock.compare import Difference, make_difference
from samebits.lock.flags import select_flags
from samebits.lock.masking import mask

LONGEST_CHARS = 200
EFFECTS: Mapping[str, str] = {
    "kind": "other kernels and another scheduler",
    "version": "other kernels or another order of operations",
    "models": "another model",
    "template": "prompts may become other tokens",
    "unanswered": "it tells less of itself",
}
"""What a difference can do; a setting of the engine has the last word of `FLAG`."""
FLAG = "the engine batches, places or computes otherwise"
PATHS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("/version",),
    "sglang": ("/get_server_info", "/get_model_info"),
    "llama.cpp": ("/props",),
    "ollama": ("/api/version",),
}
"""Paths that a kind of server tells of itself on; its models besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """What one server tells of itself."""

    url: str
    facts: Mapping[str, str]
    """By name: kind, version, models, template, and settings as flags.NAME."""


def ask_fleet(urls: Sequence[str], link: Link) -> tuple[ServerFacts, ...]:
    """Ask servers what they are, all at once.

    Args:
        link: How to speak to each of them; its key is sent to all.
    Raises:
        ConfigError: Fewer than two addresses, or one that is none, or carries a secret.
        TargetError: One does not answer, or not as a server of models does.
    """
    bases = [check_url(url) for url in urls]
    if len(set(bases)) < max(2, len(bases)):
        raise ConfigError(
            expected="two or more addresses of servers, each once",
            found=", ".join(bases) or "none",
        )
    return asyncio.run(ask_all(bases, link))


async def ask_all(bases: Sequence[str], link: Link) -> tuple[ServerFacts, ...]:
    """Ask all, then tell of the first that failed."""
    answers = await asyncio.gather(*(ask_one(base, link) for base in bases), return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return tuple(answer for answer in answers if isinstance(answer, ServerFacts))


async def ask_one(base: str, link: Link) -> ServerFacts:
    """Ask one server."""
    client = Client(link)
    try:
        # Any name will do: no model is asked for anything.
        server = await find_server(client, base, "")
        told = {path: await fetch_json(client, server.root + path) for path in list_paths(server)}
        listed = await fetch_json(client, f"{server.base}/models")
    except TargetError as error:
        found = error.found if base in error.found else f"{base}: {error.found}"
        raise TargetError(
            expected=mask(error.expected), found=mask(found), remedy=error.remedy
        ) from error
    finally:
        await client.close()
    if server.kind == "unknown" and not server.models:
        raise TargetError(expected=f"a server of models at {base}", found="one that tells nothing")
    return ServerFacts(url=base, facts=dict(sorted(gather(server, told, listed))))


def list_paths(server: Server) -> tuple[str, ...]:
    """List the paths to ask a server on."""
    return PATHS.get(server.kind, ())


def gather(
    server: Server, told: Mapping[str, Mapping[str, Any]], listed: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Give what was told under its names."""
    yield "kind", server.kind
    yield "version", shorten(server.version or "not told")
    yield "models", shorten(", ".join(sorted(server.models)) or "none listed")
    silent = sorted(path for path, table in told.items() if not table)
    if silent:
        yield "unanswered", ", ".join(silent)
    for table in (*told.values(), *list_entries(listed)):
        for name, value in select_flags(table).values.items():
            yield f"flags.{name}", value
        if isinstance(template := table.get("chat_template"), str):
            yield "template", hashlib.sha256(template.encode("utf-8", "replace")).hexdigest()


def list_entries(listed: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Give what a list of models says of its only one."""
    entries = listed.get("data")
    if isinstance(entries, list) and len(entries) == 1 and isinstance(entries[0], dict):
        yield entries[0]


def shorten(text: str) -> str:
    """Give a text for people: masked, and its end by a digest if it is long."""
    shown = mask(text)
    if len(shown) <= LONGEST_CHARS:
        return shown
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    return f"{shown[:LONGEST_CHARS]}… ({digest[:12]})"


def compare_fleet(fleet: Sequence[ServerFacts]) -> tuple[Difference, ...]:
    """Name what differs between the first server and each other; "a" is the first."""
    first = fleet[0]
    return tuple(
        make_difference(
            f"{other.url} {name}",
            first.facts.get(name),
            other.facts.get(name),
            EFFECTS.get(name, FLAG),
        )
        for other in fleet[1:]
        for name in sorted(first.facts.keys() | other.facts.keys())
        if first.facts.get(name) != other.facts.get(name)
    )
