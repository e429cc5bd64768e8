"""One connection to an endpoint: prompts and conditions to requests, replies to answers."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from samebits.audit.condition import Condition
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.http_answers import make_answer
from samebits.audit.targets.http_client import Client, Raw
from samebits.audit.targets.http_companions import Companions, put_mark
from samebits.audit.targets.http_failures import ALL, UNTOUCHED, Refused
from samebits.audit.targets.http_probe import PATHS, Prober, choose_dialect, explain
from samebits.audit.targets.http_refusals import refuse_call
from samebits.audit.targets.http_reply import Reply, read_events, read_reply
from samebits.audit.targets.http_server import Server, count_tokens
from samebits.audit.targets.http_wire import Dialect, NoAnswer, Sent, as_messages, make_body
from samebits.errors import ConfigError
from samebits.record.digest import tagged_digest

MARK_DIGITS = 12


class HttpSession:
    """A connection to an endpoint."""

    def __init__(
        self,
        *,
        client: Client,
        runner: asyncio.Runner,
        prober: Prober,
        server: Server,
        dialect: Dialect,
        facts: TargetFacts,
        is_api_free: bool,
        nonce: str,
    ) -> None:
        """Speak through an open client.

        Args:
            is_api_free: Whether a prompt may go to another path than the dialect's.
            nonce: Makes requests outside of any block new to the server's cache.
        """
        self._client = client
        self._prober = prober
        self._is_api_free = is_api_free
        self._nonce = nonce
        self._runner = runner
        self._server = server
        self._facts = facts
        self._dialects = {dialect.api: dialect}
        self._api = dialect.api
        self._companions = Companions(self._count)
        self._seen: set[tuple[str, str]] = set()
        self._num_sent = 0

    @property
    def facts(self) -> TargetFacts:
        """What was found on opening."""
        return self._facts

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer each prompt in order, as it comes.

        Raises:
            TargetError: The server cannot be reached any more, or lets nothing in.
            ConfigError: A condition that refuse would have named.
        """
        if reason := refuse_call(ask.call, self._facts):
            raise ConfigError(
                expected="a condition that the endpoint can bring about", found=reason
            )
        for prompt in ask.prompts:
            yield self._runner.run(self._answer(ask, prompt))

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        """Give None: there is no looking into a server."""
        return None

    async def _answer(self, ask: Ask, prompt: AuditPrompt) -> Answer:
        """Ask for one prompt; a failure of this call alone is an answer with an error."""
        try:
            dialect = await self._dialect_of(prompt)
            if ask.call.prefix is not None:
                await self._prepare_prefix(ask, prompt, dialect)
            return await self._observe(ask, prompt, dialect)
        except Refused as refusal:
            if refusal.status == 404:
                raise explain(refusal, self._server) from refusal
            return Answer(error=str(refusal))
        except NoAnswer as failure:
            return Answer(error=str(failure))

    async def _dialect_of(self, prompt: AuditPrompt) -> Dialect:
        """Choose the path: messages go to chat, whatever texts do."""
        api = self._api
        if prompt.messages is not None and self._is_api_free:
            api = "chat"
        if prompt.messages is not None and api == "completions":
            raise ConfigError(
                expected="prompts of texts for completions", found=f"messages in {prompt.id!r}"
            )
        if api not in self._dialects:
            self._dialects[api] = await choose_dialect(self._prober, self._server, api)
        return self._dialects[api]

    async def _prepare_prefix(self, ask: Ask, prompt: AuditPrompt, dialect: Dialect) -> None:
        """See to it that a warm prompt has been seen, and a cold one has not."""
        key = (ask.block, prompt.id)
        if ask.call.prefix == "warm" and key not in self._seen:
            await self._observe(ask, prompt, dialect)
        elif ask.call.prefix == "cold" and key in self._seen and dialect.cold != "cache_prompt":
            raise NoAnswer(
                expected="a prompt not seen before in this block",
                found="one that was asked already",
            )
        self._seen.add(key)

    async def _observe(self, ask: Ask, prompt: AuditPrompt, dialect: Dialect) -> Answer:
        call = ask.call
        sent: Sent = prompt.text or ""
        if prompt.messages is not None:
            sent = [{"role": role, "content": content} for role, content in prompt.messages]
        elif dialect.api == "chat":
            sent = as_messages(sent)
        if call.prefix is not None and not dialect.cold:
            sent = put_mark(sent, f"[{self._name_block(ask, prompt)[:MARK_DIGITS]}] ")
        groups, place = await self._make_groups(ask, sent)

        def make_bodies() -> list[dict[str, Any]]:
            return [
                self._make_body(ask, prompt, dialect, group, is_observed=index == place)
                for index, group in enumerate(groups)
            ]

        url = self._server.base + PATHS[dialect.api]
        # A request that may have been worked on is no longer new to the cache if it is sent again.
        kinds = UNTOUCHED if call.prefix == "cold" else ALL
        raws = await self._client.post_together(
            url, make_bodies, call.concurrency, call.stagger_ms / 1000, kinds
        )
        replies = [_read(raw, is_stream=call.stream) for raw in raws]
        return make_answer(
            replies[place],
            call,
            echo_tokens=dialect.echo_tokens,
            elapsed_s=raws[place].elapsed_s,
        )

    async def _make_groups(self, ask: Ask, sent: Sent) -> tuple[list[list[Sent]], int]:
        """Give the prompts of the requests that go out together, and the place of the observed."""
        call = ask.call
        num_rows = call.batch - 1
        num_beside = num_rows + call.concurrency - 1
        beside = await self._companions.make(sent, call.neighbours, num_beside, ask.companions)
        rows = beside[:num_rows]
        rows.insert(call.position, sent)
        groups: list[list[Sent]] = [[one] for one in beside[num_rows:]]
        place = call.concurrency // 2
        groups.insert(place, rows)
        return groups, place

    def _make_body(
        self,
        ask: Ask,
        prompt: AuditPrompt,
        dialect: Dialect,
        group: Sequence[Sent],
        *,
        is_observed: bool,
    ) -> dict[str, Any]:
        call = ask.call
        is_other = not is_observed and call.neighbour_seed is not None
        body = make_body(
            dialect,
            self._server.model,
            group,
            call,
            ask.max_tokens,
            seed=str(call.neighbour_seed) if is_other else call.seed,
            unseen=self._name_unseen(ask, prompt, dialect, is_observed=is_observed),
        )
        return body | self._prober.extra

    def _name_unseen(
        self, ask: Ask, prompt: AuditPrompt, dialect: Dialect, *, is_observed: bool
    ) -> str | None:
        """Name the part of the cache that a request uses: its own, or that of its block.

        Without it the second call of every prompt would find the first one's work, and the cache
        would look like noise of the base.
        """
        if ask.call.prefix is not None and is_observed:
            is_warm_switch = dialect.cold == "cache_prompt" and ask.call.prefix == "warm"
            return None if is_warm_switch else self._name_block(ask, prompt)
        self._num_sent += 1
        return f"{self._nonce}-{self._num_sent}"

    def _name_block(self, ask: Ask, prompt: AuditPrompt) -> str:
        """Digest what a prompt is new in: the same for all calls of a block, whoever makes them."""
        return tagged_digest("samebits.audit.prefix", ask.block.encode(), prompt.id.encode())[7:39]

    async def _count(self, text: str) -> int | None:
        """Count the tokens of a text, unless counting would cost calls that are dear."""
        if self._client.link.rate_limit is not None:
            return None
        return await count_tokens(self._client, self._server, text)


def _read(raw: Raw, *, is_stream: bool) -> Reply:
    if is_stream != (raw.events is not None):
        kinds = ("a whole reply", "a stream")
        raise NoAnswer(expected=kinds[is_stream], found=kinds[not is_stream])
    return read_reply(raw.body) if raw.events is None else read_events(raw.events)
