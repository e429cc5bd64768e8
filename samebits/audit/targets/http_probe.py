"""What a server takes and reports, found by asking it politely.

Each thing is tried in a short call of its own; a server that refuses it, or does not do it, gets
requests without it from then on.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from samebits.audit.condition import Call
from samebits.audit.targets.http_client import Client
from samebits.audit.targets.http_failures import Refused
from samebits.audit.targets.http_reply import Choice, Reply, read_events, read_reply
from samebits.audit.targets.http_server import Server, list_models
from samebits.audit.targets.http_wire import Dialect, NoAnswer, Sent, make_body
from samebits.errors import TargetError

PROMPT = "The capital of France is"
PROBE_TOKENS = 2
LOGPROBS = (20, 10, 5, 3, 2, 1)
PATHS = {"completions": "/completions", "chat": "/chat/completions"}
_MISSING = (404, 405, 501)
_ID_FIELDS = (("return_tokens_as_token_ids", "return_token_ids"), ("return_token_ids",))


class Prober:
    """Try one path of one server."""

    def __init__(self, client: Client, server: Server, extra: dict[str, Any]) -> None:
        """Ask nothing yet; extra goes into every request."""
        self._client = client
        self._server = server
        self.extra = extra

    async def probe(self, api: str) -> Dialect | None:
        """Find the dialect of a path; None if the server does not have it.

        Raises:
            NoAnswer: The plainest request gets none.
            TargetError: The server cannot be reached, or lets nothing in.
        """
        dialect = await self._find_plain(Dialect(api=api))
        if dialect is None:
            return None
        dialect = await self._find_logprobs(dialect)
        dialect = await self._find_ids(dialect)
        dialect = await self._find_sampling(dialect)
        dialect = await self._find_stream(dialect)
        dialect = await self._find_cold(dialect)
        if api == "completions":
            dialect = await self._find_lists(dialect)
            dialect = await self._find_scoring(dialect)
        return dialect

    async def _find_plain(self, dialect: Dialect) -> Dialect | None:
        """Make the plainest request; leave out the fields that some models refuse."""
        while True:
            try:
                await self._ask(dialect, Call())
                return dialect
            except Refused as refusal:
                if refusal.status in _MISSING and not self._names_model(refusal.said):
                    return None
                changed = _without_refused(dialect, refusal.said)
                if changed == dialect or refusal.status in _MISSING:
                    raise
                dialect = changed

    def _names_model(self, said: str) -> bool:
        return self._server.model in said or "model" in said.lower()

    async def _find_logprobs(self, dialect: Dialect) -> Dialect:
        """Find how many alternatives it reports; without any, note why."""
        said = ""
        for most in LOGPROBS:
            try:
                reply = await self._ask(replace(dialect, max_logprobs=most), Call(logprobs=most))
            except NoAnswer as failure:
                said = failure.found
                continue
            choice = reply.choices[min(reply.choices)]
            if choice.logprobs is None:
                said = "the field is ignored"
                break
            return replace(dialect, max_logprobs=most, reports=_list_reports(choice))
        return replace(dialect, notes=(*dialect.notes, f"no log-probabilities: {said}"))

    async def _find_ids(self, dialect: Dialect) -> Dialect:
        if "token_ids" in dialect.reports:
            return dialect
        for fields in _ID_FIELDS:
            richer = replace(dialect, id_fields=fields)
            reply = await self._try(richer, Call())
            if reply is not None and reply.choices[min(reply.choices)].token_ids is not None:
                reports = tuple(name for name in dialect.reports if name != "tokens")
                return replace(richer, reports=(*reports, "token_ids"))
        return dialect

    async def _find_sampling(self, dialect: Dialect) -> Dialect:
        seeded = await self._try(dialect, Call(seed="42"))
        dialect = replace(dialect, takes_seed=seeded is not None)
        greedy = await self._why_no_n(dialect, Call(n=2))
        sampled = await self._why_no_n(dialect, Call(n=2, temperature=1.0)) if greedy else ""
        return replace(dialect, n_greedy=greedy, n_sampled=sampled)

    async def _why_no_n(self, dialect: Dialect, call: Call) -> str:
        try:
            reply = await self._ask(dialect, call)
        except Refused as refusal:
            return f"the server refuses several outputs: {refusal.said}"
        except NoAnswer as failure:
            return f"the server gave no several outputs: {failure.found}"
        num = len(reply.choices)
        return "" if num == call.n else f"the server gave {num} of {call.n} outputs"

    async def _find_stream(self, dialect: Dialect) -> Dialect:
        for usage in (True, False):
            richer = replace(dialect, takes_stream=True, takes_stream_usage=usage)
            if await self._try(richer, Call(stream=True)) is not None:
                return richer
        return dialect

    async def _find_cold(self, dialect: Dialect) -> Dialect:
        """Find how to keep a request out of the prefix cache, where the server is known."""
        field = {"vllm": "cache_salt", "llama.cpp": "cache_prompt"}.get(self._server.kind, "")
        richer = replace(dialect, cold=field)
        return richer if field and await self._try(richer, Call()) is not None else dialect

    async def _find_lists(self, dialect: Dialect) -> Dialect:
        reply = await self._try(dialect, Call(), [PROMPT, PROMPT])
        return replace(dialect, takes_lists=reply is not None and len(reply.choices) == 2)

    async def _find_scoring(self, dialect: Dialect) -> Dialect:
        if not dialect.max_logprobs:
            return dialect
        for num_tokens in (0, 1):
            richer = replace(dialect, echo_tokens=num_tokens)
            reply = await self._try(richer, Call(scoring=True))
            values = None if reply is None else reply.choices[min(reply.choices)].logprobs
            if values and values[0] is None and len(values) > num_tokens + 1:
                return richer
        return dialect

    async def _try(
        self, dialect: Dialect, call: Call, prompts: Sequence[Sent] = (PROMPT,)
    ) -> Reply | None:
        """Make a call; None if the server refuses it or makes nothing of it."""
        try:
            return await self._ask(dialect, call, prompts)
        except NoAnswer:
            return None

    async def _ask(
        self, dialect: Dialect, call: Call, prompts: Sequence[Sent] = (PROMPT,)
    ) -> Reply:
        body = make_body(
            dialect,
            self._server.model,
            prompts,
            call,
            PROBE_TOKENS,
            seed=call.seed,
            unseen="samebits probe",
        )
        url = self._server.base + PATHS[dialect.api]
        raw = await self._client.post(url, body | self.extra)
        if call.stream and raw.events is None:
            raise NoAnswer(expected="a stream", found="a whole reply")
        return read_reply(raw.body) if raw.events is None else read_events(raw.events)


def _list_reports(choice: Choice) -> tuple[str, ...]:
    """Name what an output with log-probabilities reports."""
    has_two = choice.tops is not None and all(len(top) > 1 for top in choice.tops)
    found = {
        "text": True,
        "token_ids": choice.token_ids is not None,
        "tokens": choice.tokens is not None,
        "steps": True,
        "margins": has_two,
        "logprobs": True,
    }
    return tuple(name for name, is_reported in found.items() if is_reported)


def _without_refused(dialect: Dialect, said: str) -> Dialect:
    """Leave out what a refusal names; the dialect as it was if it names nothing of it."""
    if "max_completion_tokens" in said and dialect.limit_field != "max_completion_tokens":
        return replace(dialect, limit_field="max_completion_tokens")
    if "temperature" in said and dialect.takes_temperature:
        notes = (*dialect.notes, f"no temperature: {said}")
        return replace(dialect, takes_temperature=False, notes=notes)
    return dialect


async def choose_dialect(prober: Prober, server: Server, api: str) -> Dialect:
    """Find the dialect of a path; of auto, the first that works.

    Raises:
        TargetError: There is none, or it does not answer.
    """
    failure: NoAnswer | None = None
    for path in PATHS if api == "auto" else (api,):
        try:
            dialect = await prober.probe(path)
        except NoAnswer as error:
            failure = error
            continue
        if dialect is not None:
            return dialect
    if failure is not None:
        raise explain(failure, server) from failure
    raise TargetError(
        expected=f"an OpenAI-compatible endpoint at {server.base}",
        found="neither completions nor chat" if api == "auto" else f"no path for {api}",
        remedy="Is the address right?",
    )


def explain(failure: NoAnswer, server: Server) -> TargetError:
    """Say what a request without an answer means for the audit."""
    if isinstance(failure, Refused) and failure.status == 404:
        return TargetError(
            expected=f"the model {server.model!r} at {server.base}",
            found=f"status 404: {failure.said}",
            remedy=f"There are: {list_models(server.models)}.",
        )
    return TargetError(
        expected=f"{failure.expected} from {server.base}",
        found=failure.found,
        remedy=failure.remedy,
    )
