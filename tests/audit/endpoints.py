"""A loopback server that speaks the OpenAI protocol, well or badly, as a test wants it."""

import asyncio
import hashlib
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]

VOCABULARY = 97


@dataclass
class Endpoint:
    """What the server is, what it was sent, and how it fails next."""

    kind: str = "vllm"
    apis: tuple[str, ...] = ("completions", "chat")
    models: tuple[str, ...] | None = ("tiny",)
    key: str | None = None
    refused: tuple[str, ...] = ()
    """Fields that are answered with 400."""
    ignored: tuple[str, ...] = ()
    """Fields that are read by nobody."""
    most_logprobs: int = 20
    delay_s: float = 0.0
    date: str = ""
    """Written by the chat template."""
    prefix: str = "/v1"
    faults: list[Fault | None] = field(default_factory=list)
    """Taken by the next calls, in order; None is a call that works."""
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Path and body of every POST."""
    headers: list[dict[str, str]] = field(default_factory=list)
    most_at_once: int = 0
    url: str = ""
    _at_once: int = 0

    def calls(self) -> list[dict[str, Any]]:
        """Give the bodies of all calls to the model."""
        return [body for path, body in self.sent if path.endswith("completions")]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.headers.append(dict(request.headers))
        if self.key is not None and request.headers.get("Authorization") != f"Bearer {self.key}":
            said = f"Incorrect API key: {request.headers.get('Authorization', '')}"
            return refuse(401, said)
        if request.method == "GET":
            return self.tell(request.path)
        body = await request.json()
        self.sent.append((request.path, body))
        if not request.path.endswith("/completions"):
            return self.render(request.path, body)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            fault = self.faults.pop(0) if self.faults else None
            return await (self.answer(request, body) if fault is None else fault(request))
        finally:
            self._at_once -= 1

    def tell(self, path: str) -> web.Response:
        owners = {"vllm": "vllm", "llama.cpp": "llamacpp"}
        versions = {"vllm": ("/version", "version"), "llama.cpp": ("/props", "build_info")}
        if path == f"{self.prefix}/models" and self.models is not None:
            entries = [{"id": one, "owned_by": owners.get(self.kind, "x")} for one in self.models]
            return web.json_response({"object": "list", "data": entries})
        if self.kind in versions and path == versions[self.kind][0]:
            return web.json_response({versions[self.kind][1]: "1.2.3"})
        return refuse(404, "no such path")

    def render(self, path: str, body: dict[str, Any]) -> web.Response:
        if self.kind == "llama.cpp" and path == "/apply-template":
            return web.json_response({"prompt": f"<user>{self.date}"})
        if self.kind != "vllm" or path not in ("/tokenize", "/detokenize"):
            return refuse(404, "no such path")
        if path == "/detokenize":
            return web.json_response({"prompt": f"<user>{self.date}"})
        words = str(body.get("prompt") or body.get("messages")).split()
        return web.json_response({"tokens": list(range(len(words)))})

    async def answer(self, request: web.Request, body: dict[str, Any]) -> web.StreamResponse:
        api = "chat" if "/chat/" in request.path else "completions"
        if api not in self.apis or not request.path.startswith(self.prefix):
            return refuse(404, "no such path")
        if self.models is not None and body["model"] not in self.models:
            return refuse(404, f"The model {body['model']} does not exist")
        for name in self.refused:
            if name in body:
                return refuse(400, f"{name} is not supported")
        body = {name: value for name, value in body.items() if name not in self.ignored}
        if body.get("n", 1) > 1 and not body.get("temperature"):
            return refuse(400, "n must be 1 when using greedy sampling")
        wanted = body.get("top_logprobs", 0) if api == "chat" else body.get("logprobs") or 0
        if wanted > self.most_logprobs:
            return refuse(400, f"at most {self.most_logprobs} logprobs")
        await asyncio.sleep(self.delay_s)
        table = self.complete(api, body, wanted)
        if not body.get("stream"):
            return web.json_response(table)
        return await send_stream(request, split_table(table, api, body))

    def complete(self, api: str, body: dict[str, Any], wanted: int) -> dict[str, Any]:
        prompts = body.get("prompt", json.dumps(body.get("messages")))
        prompts = prompts if isinstance(prompts, list) else [prompts]
        num = body.get("n", 1)
        choices = [
            self.choose(api, body, wanted, prompts[index // num], index)
            for index in range(len(prompts) * num)
        ]
        num_prompt = sum(len(prompt.split()) for prompt in prompts)
        num_tokens = len(choices) * body.get("max_tokens", 1)
        return {
            "choices": choices,
            "system_fingerprint": "fp",
            "usage": {"prompt_tokens": num_prompt, "completion_tokens": num_tokens},
        }

    def choose(
        self, api: str, body: dict[str, Any], wanted: int, prompt: str, index: int
    ) -> dict[str, Any]:
        limit = body.get("max_tokens", body.get("max_completion_tokens", 1))
        row = index % body.get("n", 1)
        seed = f"{body.get('seed')} {row}" if body.get("temperature") else ""
        ids = [draw(f"{prompt}|{seed}", place) for place in range(limit)]
        if body.get("echo"):
            ids = [draw(word, 0) for word in prompt.split()] + ids
        as_ids = body.get("return_tokens_as_token_ids") and self.kind == "vllm"
        names = [f"token_id:{i}" if as_ids else f" t{i}" for i in ids]
        choice: dict[str, Any] = {"index": index, "finish_reason": "length"}
        text = "".join(f" t{i}" for i in ids)
        choice |= {"message": {"content": text}} if api == "chat" else {"text": text}
        if body.get("return_token_ids") and self.kind == "vllm":
            choice["token_ids"] = ids
        if wanted:
            entries = [self.report(i, name, wanted) for i, name in zip(ids, names, strict=True)]
            choice["logprobs"] = spell_entries(entries, api, bool(body.get("echo")))
            if self.kind == "llama.cpp":
                for entry, i in zip(entries, ids, strict=True):
                    entry["id"] = i
                choice["logprobs"] = {"content": entries}
        return choice

    def report(self, place: int, name: str, wanted: int) -> dict[str, Any]:
        form = name.replace(str(place), "{}")
        tops = [
            {"token": form.format(place + shift), "logprob": -0.25 - shift / 2 - place / 1024}
            for shift in range(wanted)
        ]
        return {"token": name, "logprob": tops[0]["logprob"], "top_logprobs": tops}


def spell_entries(entries: list[dict[str, Any]], api: str, is_echo: bool) -> dict[str, Any]:
    """Spell log-probabilities as chat or as completions does."""
    if api == "chat":
        return {"content": entries}
    tops = [{one["token"]: one["logprob"] for one in entry["top_logprobs"]} for entry in entries]
    values = [entry["logprob"] for entry in entries]
    return {
        "tokens": [entry["token"] for entry in entries],
        "token_logprobs": [None, *values[1:]] if is_echo else values,
        "top_logprobs": [None, *tops[1:]] if is_echo else tops,
    }


def draw(text: str, place: int) -> int:
    """Draw a token that depends on nothing else."""
    return hashlib.sha256(f"{place} {text}".encode()).digest()[0] % VOCABULARY


def refuse(status: int, said: str) -> web.Response:
    """Refuse as OpenAI does."""
    return web.json_response({"error": {"message": said, "code": status}}, status=status)


def split_table(table: dict[str, Any], api: str, body: dict[str, Any]) -> Iterator[bytes]:
    """Cut a reply into events, one for each token, and their bytes at odd places."""
    raw = b": comment\r\n\r\n"
    for choice in table["choices"]:
        whole = choice.get("text") or choice["message"]["content"]
        names = [f" {piece}" for piece in whole.split()]
        for place, name in enumerate(names):
            part = cut_choice(choice, api, name, place, is_last=place == len(names) - 1)
            raw += f"data: {json.dumps({'choices': [part]})}\r\n\r\n".encode()
    if body.get("stream_options"):
        raw += f"data: {json.dumps({'choices': [], 'usage': table['usage']})}\r\n\r\n".encode()
    raw += b"data: [DONE]\r\n\r\n"
    for start in range(0, len(raw), 77):
        yield raw[start : start + 77]


def cut_choice(
    choice: dict[str, Any], api: str, name: str, place: int, *, is_last: bool
) -> dict[str, Any]:
    """Give one token's part of a choice."""
    part: dict[str, Any] = {"index": choice["index"]}
    part["finish_reason"] = "length" if is_last else None
    part |= {"delta": {"content": name}} if api == "chat" else {"text": name}
    if "token_ids" in choice:
        part["token_ids"] = choice["token_ids"][place : place + 1]
    if "logprobs" in choice:
        cut = {key: value[place : place + 1] for key, value in choice["logprobs"].items()}
        part["logprobs"] = cut
    return part


async def send_stream(request: web.Request, pieces: Iterator[bytes]) -> web.StreamResponse:
    """Send pieces as they are."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    await response.write_eof()
    return response


def with_status(status: int, said: str = "no", **headers: str) -> Fault:
    """Answer with a status."""

    async def fault(_request: web.Request) -> web.StreamResponse:
        response = refuse(status, said)
        response.headers.update({name.replace("_", "-"): text for name, text in headers.items()})
        return response

    return fault


def with_body(body: str | bytes, content_type: str = "application/json") -> Fault:
    """Answer with these bytes."""
    raw = body.encode() if isinstance(body, str) else body

    async def fault(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=raw, content_type=content_type)

    return fault


def with_stream(*pieces: bytes) -> Fault:
    """Answer with this stream."""

    async def fault(request: web.Request) -> web.StreamResponse:
        return await send_stream(request, iter(pieces))

    return fault


def hang_up(*pieces: bytes) -> Fault:
    """Send so much of a stream and break the connection."""

    async def fault(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if pieces:
            await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        assert request.transport is not None
        request.transport.abort()
        return response

    return fault


def sleep(seconds: float) -> Fault:
    """Answer too late."""

    async def fault(_request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return web.json_response({})

    return fault


@contextmanager
def run_endpoint(endpoint: Endpoint) -> Iterator[Endpoint]:
    """Serve on a free port, in a thread, until the block ends."""
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def start() -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", endpoint.serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        endpoint.url = f"http://127.0.0.1:{runner.addresses[0][1]}{endpoint.prefix}"
        return runner

    def run() -> None:
        runner = loop.run_until_complete(start())
        ready.set()
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(10)
    try:
        yield endpoint
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
