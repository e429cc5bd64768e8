"""The guard behind vLLM's own HTTP interface: arguments that arrive, and some that must not.

A part of bench.vllm_guard: everything here is asked of one server, which must be well at the end.
"""

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.vllm_guard_jobs import Bench
from bench.vllm_server import MODEL_NAME, start, stop, wait_until_ready

TIMEOUT_S = 600.0
GREEDY: Mapping[str, Any] = {"model": MODEL_NAME, "temperature": 0, "return_token_ids": True}
LOWEST = {"samebits_guard": "lowest", "samebits_epsilon": 0.5}
REFUSED: Mapping[str, dict[str, Any]] = {
    "unknown key": {"vllm_xargs": {**LOWEST, "samebits_epsilom": 1}},
    "action of another name": {"vllm_xargs": {**LOWEST, "samebits_guard": "highest"}},
    "epsilon as text": {"vllm_xargs": {**LOWEST, "samebits_epsilon": "0.5"}},
    "epsilon as a list": {"vllm_xargs": {**LOWEST, "samebits_epsilon": [0.5]}},
    "epsilon NaN": {"vllm_xargs": {**LOWEST, "samebits_epsilon": float("nan")}},
    "epsilon infinite": {"vllm_xargs": {**LOWEST, "samebits_epsilon": float("inf")}},
    "epsilon 1e300": {"vllm_xargs": {**LOWEST, "samebits_epsilon": 1e300}},
    "epsilon below 0": {"vllm_xargs": {**LOWEST, "samebits_epsilon": -1}},
    "no epsilon": {"vllm_xargs": {"samebits_guard": "lowest"}},
    "no action": {"vllm_xargs": {"samebits_epsilon": 0.5}},
    "an object": {"vllm_xargs": {"samebits_guard": {"action": "lowest"}}},
    "priority without a list": {"vllm_xargs": {**LOWEST, "samebits_guard": "priority"}},
    "priority beyond the vocabulary": {
        "vllm_xargs": {**LOWEST, "samebits_guard": "priority", "samebits_priority": [10**9]}
    },
    "sampling": {"vllm_xargs": LOWEST, "temperature": 0.7},
    "repetition penalty": {"vllm_xargs": LOWEST, "repetition_penalty": 1.2},
    "presence penalty": {"vllm_xargs": LOWEST, "presence_penalty": 0.5},
    "logit bias": {"vllm_xargs": LOWEST, "logit_bias": {"5": 1}},
    "minimal length": {"vllm_xargs": LOWEST, "min_tokens": 2},
    "bad words": {"vllm_xargs": LOWEST, "bad_words": ["the"]},
    "allowed ids": {"vllm_xargs": LOWEST, "allowed_token_ids": [5, 6]},
    "structured output": {"vllm_xargs": LOWEST, "structured_outputs": {"choice": ["a", "b"]}},
}


class Client:
    """Asks one server on this machine."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Give status and answer, parsed if it is JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        reply = connection.getresponse()
        text = reply.read()
        connection.close()
        return reply.status, json.loads(text) if text.startswith(b"{") else text

    def complete(self, prompt: Sequence[int], **more: Any) -> tuple[int, Any]:
        """Ask for a completion of token ids."""
        return self.ask("POST", "/v1/completions", {**GREEDY, "prompt": list(prompt), **more})

    def leave_early(self, prompt: Sequence[int], **more: Any) -> None:
        """Ask for a stream and hang up at its first bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        body = {**GREEDY, "prompt": list(prompt), "stream": True, **more}
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        connection.getresponse().read(1)
        connection.close()

    @property
    def is_well(self) -> bool:
        """Whether the server says so, and answers."""
        health, _ = self.ask("GET", "/health")
        return health == 200 and self.complete([1], max_tokens=2)[0] == 200


def ask_server(
    bench: Bench, port: int, asked: dict[str, Any], expected: list[list[int]], *, tokens: int
) -> Iterator[str]:
    """Serve with the guard installed; tell what each check came to."""
    report = bench.folder / "http.guard"
    report.unlink(missing_ok=True)
    config = json.dumps({"samebits": {"report": str(report)}})
    options = ("--no-enable-prefix-caching", "--additional-config", config)
    server = start(
        bench.programs, bench.model, "bfloat16", port, options=options, python_path=str(bench.guard)
    )
    try:
        wait_until_ready(server, f"http://127.0.0.1:{port}/v1")
        client = Client(port)
        yield ask_all(client, bench.prompts, asked, expected, tokens)
        yield ask_wrong(client)
        yield ask_mixed(client, bench.prompts, asked, tokens)
        yield leave_all(client, bench.prompts, asked)
        time.sleep(2)
        yield f"{len(report.read_text().splitlines())} reports of guarded requests in the file."
    finally:
        stop(server)


def ask_all(
    client: Client,
    prompts: Sequence[Sequence[int]],
    asked: dict[str, Any],
    expected: list[list[int]],
    tokens: int,
) -> str:
    """Ask everything 16 at once; compare with what each prompt gave alone, offline."""
    with ThreadPoolExecutor(16) as pool:
        replies = pool.map(
            lambda ids: client.complete(ids, max_tokens=tokens, vllm_xargs=asked), prompts
        )
        got = [answer["choices"][0]["token_ids"] for _, answer in replies]
    same = sum(a == b for a, b in zip(got, expected, strict=True))
    return (
        f"{same} of {len(prompts)} guarded completions, 16 at once ({asked['samebits_guard']}),"
        " have the tokens that the prompt had alone and offline under the same guard."
    )


def ask_wrong(client: Client) -> str:
    """Ask what must be refused; the refusal has status 400 and the server goes on."""
    others = []
    for name, body in REFUSED.items():
        status, answer = client.complete([1, 2, 3], max_tokens=4, **body)
        if status != 400:
            others.append(f"{name}: {status} {answer}")
    well = "well" if client.is_well else "NOT WELL"
    if others:
        return f"NOT REFUSED with 400: {'; '.join(others)}; the server is {well}."
    return f"{len(REFUSED)} wrong requests each get status 400; the server is {well} after them."


def ask_mixed(
    client: Client, prompts: Sequence[Sequence[int]], asked: dict[str, Any], tokens: int
) -> str:
    """Ask 16 at once, every second one guarded; the others must be what they are alone."""
    plain = [client.complete(ids, max_tokens=tokens) for ids in prompts[1:16:2]]

    def ask(place: int) -> tuple[int, Any]:
        extra = {"vllm_xargs": asked} if place % 2 == 0 else {}
        return client.complete(prompts[place], max_tokens=tokens, **extra)

    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(ask, range(16)))
    statuses = {status for status, _ in replies}
    pairs = zip(plain, replies[1::2], strict=True)
    same = sum(a[1]["choices"][0]["token_ids"] == b[1]["choices"][0]["token_ids"] for a, b in pairs)
    return (
        f"16 at once, 8 of them guarded: statuses {sorted(statuses)}; {same} of the 8 others have"
        " the tokens that they have alone."
    )


def leave_all(client: Client, prompts: Sequence[Sequence[int]], asked: dict[str, Any]) -> str:
    """Hang up on 16 guarded requests half-way."""
    threads = [
        threading.Thread(
            target=client.leave_early,
            args=(ids,),
            kwargs={"max_tokens": 200, "ignore_eos": True, "vllm_xargs": asked},
        )
        for ids in prompts[:16]
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (
        f"16 guarded requests left half-way: the server is {'' if client.is_well else 'NOT '}well."
    )
