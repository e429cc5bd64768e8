"""Any OpenAI-compatible endpoint as a target.

What a server takes and reports is found on opening (http_probe.py). Its process is not ours: what
acts only when a process starts is refused, with the way to do it by hand.
"""

import asyncio
import math
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from samebits.audit.condition import Condition, Process
from samebits.audit.target import TargetFacts
from samebits.audit.targets.http_client import Client, Link
from samebits.audit.targets.http_probe import Prober, choose_dialect
from samebits.audit.targets.http_refusals import refuse_call, refuse_process
from samebits.audit.targets.http_server import (
    Server,
    check_url,
    describe_rendered,
    find_server,
    render_chat,
)
from samebits.audit.targets.http_session import HttpSession
from samebits.audit.targets.http_wire import Dialect
from samebits.errors import ConfigError

APIS = ("auto", "chat", "completions")
OURS = frozenset(
    (
        *("model", "prompt", "messages", "max_tokens", "max_completion_tokens", "temperature"),
        *("n", "seed", "stream", "stream_options", "logprobs", "top_logprobs", "echo"),
        *("cache_salt", "cache_prompt", "return_token_ids", "return_tokens_as_token_ids"),
    )
)
"""Fields that the conditions decide."""


class HttpTarget:
    """An endpoint and how to speak to it."""

    def __init__(
        self,
        url: str,
        *,
        model: str | None = None,
        api_key: str | None = None,
        api: str = "auto",
        max_concurrency: int = 16,
        rate_limit: float | None = None,
        timeout_s: float = 120.0,
        retries: int = 4,
        backoff_s: float = 0.5,
        extra_body: Mapping[str, Any] | None = None,
        can_restart: bool = False,
    ) -> None:
        """Describe an endpoint; nothing is sent yet.

        Args:
            url: With or without /v1 at its end.
            model: None takes the only one that the server has.
            api_key: Sent to this address only, and never shown.
            api: chat, completions, or auto: completions where it exists and the prompt is a text.
            rate_limit: Requests a second. timeout_s: for a whole reply.
            retries: Of requests that failed in a way that may pass; backoff_s is the first pause.
            extra_body: Fields for every request.
            can_restart: The caller restarts the server whenever a session opens.

        Raises:
            ConfigError: An impossible address, or a value out of range.
        """
        extra = dict(extra_body or {})
        if api not in APIS:
            raise ConfigError(expected=f"api {', '.join(APIS)}", found=repr(api))
        if taken := sorted(OURS & extra.keys()):
            raise ConfigError(
                expected="further fields that the audit does not set itself", found=", ".join(taken)
            )
        _check_key(api_key)
        _check_positive(max_concurrency=max_concurrency, timeout_s=timeout_s)
        _check_positive(rate_limit=1.0 if rate_limit is None else rate_limit)
        if retries < 0:
            raise ConfigError(expected="retries from 0", found=str(retries))
        self.url = check_url(url)
        self.model = model
        self.api = api
        self.max_concurrency = max_concurrency
        self.extra_body = extra
        self.can_restart = can_restart
        self.link = Link(
            api_key=api_key,
            timeout_s=timeout_s,
            retries=retries,
            rate_limit=rate_limit,
            backoff_s=backoff_s,
        )
        # What an earlier audit sent may lie in the server's cache: ours must be new to it.
        self.nonce = secrets.token_hex(8)

    def refuse(self, condition: Condition, facts: TargetFacts) -> str:
        """Say why a condition cannot be brought about here; empty if it can."""
        return self._refuse_process(condition.process) or refuse_call(condition.call, facts)

    def _refuse_process(self, process: Process) -> str:
        is_restart = self.can_restart and replace(process, instance=0) == Process()
        return "" if is_restart else refuse_process(process)

    @contextmanager
    def open(self, process: Process) -> Iterator["HttpSession"]:
        """Connect, and find out what the server can do.

        Raises:
            TargetError: It cannot be reached, or does not speak the protocol.
            ConfigError: The process is to be started in some way.
        """
        if reason := self._refuse_process(process):
            raise ConfigError(expected="the server as it runs", found=reason)
        with asyncio.Runner() as runner:
            client = runner.run(_make_client(self.link))
            try:
                yield runner.run(_open_session(self, client, runner))
            finally:
                runner.run(client.close())


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ConfigError(expected=f"{name} above 0 and finite", found=str(value))


def _check_key(key: str | None) -> None:
    """Refuse a key that no header can carry, such as one with the line end of its file."""
    if key is not None and not (key.isascii() and key.isprintable()):
        raise ConfigError(
            expected="a key of printable ASCII characters",
            found="one with others, such as a line end",
            remedy="Set the variable again, without what stands around the key.",
        )


async def _make_client(link: Link) -> Client:
    return Client(link)


async def _open_session(target: HttpTarget, client: Client, runner: asyncio.Runner) -> HttpSession:
    server = await find_server(client, target.url, target.model)
    prober = Prober(client, server, target.extra_body)
    dialect = await choose_dialect(prober, server, target.api)
    facts = _make_facts(target, server, dialect, await render_chat(client, server))
    return HttpSession(
        client=client,
        runner=runner,
        prober=prober,
        server=server,
        dialect=dialect,
        facts=facts,
        is_api_free=target.api == "auto",
        nonce=target.nonce,
    )


def _make_facts(
    target: HttpTarget, server: Server, dialect: Dialect, rendered: str | None
) -> TargetFacts:
    held = f"every request is new to the cache ({dialect.cold})" if dialect.cold else "not held"
    in_force = {
        "url": server.base,
        "server": server.kind,
        "version": server.version,
        "server_header": server.header,
        "model_listed": server.model in server.models,
        "api_asked": target.api,
        "prefix_cache": held,
        "extra_body": target.extra_body,
        "rate_limit": target.link.rate_limit,
        "timeout_s": target.link.timeout_s,
        "retries": target.link.retries,
        "dialect": asdict(dialect),
        **describe_rendered(rendered),
    }
    return TargetFacts(
        kind="http",
        name=server.model,
        in_force=in_force,
        reports=dialect.reports,
        max_concurrency=target.max_concurrency,
        max_logprobs=dialect.max_logprobs,
        is_local=False,
        keeps_prefixes=not dialect.cold,
    )
