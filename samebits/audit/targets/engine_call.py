"""One call to our engine: the observed prompt, what runs beside it, and what came of it.

A fresh engine around the loaded weights serves each call, so that nothing is left of the one
before, and its limits let every prompt through in one pass unless the call says otherwise.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from samebits.audit.targets.engine_loop import Notes, WatchedLoop
from samebits.audit.targets.engine_order import Ids, Order
from samebits.engine import Completion, Engine, FinishedEvent, Limits, TokenEvent
from samebits.engine.generation import Generation
from samebits.engine.sample import measure
from samebits.engine.score import score_chunks
from samebits.engine.text import TextStream
from samebits.errors import RequestError
from samebits.record.digest import STEP_DIGITS
from samebits.record.receipt import logits_digest

PAGE_TOKENS = 64
CHUNK_TOKENS = 256

Events = list[TokenEvent | FinishedEvent]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the observed prompt got."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: str | None
    steps: tuple[str, ...]
    logprobs: tuple[float, ...] | None
    others: tuple[str, ...] = ()


@contextmanager
def open_engine(loaded: Engine, order: Order, longest: int) -> Iterator["Caller"]:
    """Build an engine for an order around loaded weights.

    Args:
        longest: Tokens of the longest prompt.
    """
    call = order.call
    lanes = order.num_requests * call.n
    chunk = call.chunk_tokens or CHUNK_TOKENS
    tokens = -(-(longest + order.max_tokens) // PAGE_TOKENS) * PAGE_TOKENS + PAGE_TOKENS
    limits = Limits(
        page_tokens=PAGE_TOKENS,
        kv_tokens=lanes * tokens,
        max_batch=lanes,
        chunk_tokens=chunk,
        max_rows=max(CHUNK_TOKENS, lanes * min(chunk, longest)),
    )
    engine = Engine(
        loaded.decoder,
        loaded.tokenizer,
        limits=limits,
        template=loaded.template,
        file_digest=loaded.file_digest,
    )
    engine.weights_digest = loaded.identity.weights
    # It serves as the engine's own would; it only lets somebody look on.
    loop = WatchedLoop(loaded.decoder, limits)
    engine.loop = loop
    with engine:
        yield Caller(engine, loop, order)


class Caller:
    """Serve the prompts of one order, one after the other.

    Attributes:
        engine: What serves them. loop: The engine's.
    """

    def __init__(self, engine: Engine, loop: WatchedLoop, order: Order) -> None:
        self.engine = engine
        self.loop = loop
        self.order = order

    def serve(self, ids: Ids, notes: Notes) -> Served:
        """Complete a prompt as the order says.

        Raises:
            RequestError: It cannot be served.
            UnsupportedInput: The numbers overflowed.
        """
        if self.order.call.scoring:
            return self.score(ids, notes)
        if not self.order.call.kv_cache:
            return self.serve_anew(ids, notes)
        order = self.order
        generations = [
            self.engine.make_generation(
                row, order.params(is_observed=place == order.place), place=place, receipt=True
            )
            for place, row in enumerate(order.rows(ids))
        ]
        self.loop.watch(generations[order.place].samples[0], notes)
        events = self.follow(generations)
        return read_served([e for e in events if e.prompt == order.place], order.call.stream)

    def follow(self, generations: Sequence[Generation]) -> Events:
        """Serve requests from one thread, or each from a thread of its own."""
        if self.order.call.concurrency == 1:
            return list(self.engine.follow(generations))
        self.loop.expect(0 if self.order.call.stagger_ms else len(generations))
        with ThreadPoolExecutor(len(generations)) as pool:
            futures = [pool.submit(self.start, generation) for generation in generations]
            return [event for future in futures for event in future.result()]

    def start(self, generation: Generation) -> Events:
        """Serve one request of several, after its delay."""
        time.sleep(generation.prompt * self.order.call.stagger_ms / 1000)
        return list(self.engine.follow([generation]))

    def score(self, ids: Ids, notes: Notes) -> Served:
        """Score a prompt's own tokens: step t has the logits that token t + 1 is read from.

        Raises:
            RequestError: A prompt of one token, or one that cannot be served.
        """
        if len(ids) < 2:
            raise RequestError(expected="a prompt of two tokens to score", found=str(len(ids)))
        steps: list[str] = []
        logprobs: list[float] = []
        for token, logits in zip(ids[1:], self.walk_scores(ids), strict=False):
            notes.take(logits)
            steps.append(shorten(logits_digest(logits)))
            logprobs.append(measure(logits, token, 0, self.loop.kernels).logprob)
        return Served(
            token_ids=tuple(ids[1:]),
            text=self.spell(ids[1:]),
            finish_reason=None,
            steps=tuple(steps),
            logprobs=tuple(logprobs),
        )

    def walk_scores(self, ids: Ids) -> Iterator[NDArray[np.float32]]:
        """Give the (V,) logits after every token, as Engine.score does, a chunk at a time."""
        with self.loop.lock:
            for rows in score_chunks(self.loop, ids):
                yield from rows

    def spell(self, ids: Ids) -> str:
        """Give the text of tokens."""
        stream = TextStream(self.engine.tokenizer, ())
        for token in ids:
            stream.push(token)
        stream.finish()
        return stream.text

    def serve_anew(self, ids: Ids, notes: Notes) -> Served:
        """Complete a prompt without the cache: each token by a new pass over all before it."""
        steps: list[Served] = []
        made: list[int] = []
        params = replace(self.order, max_tokens=1).params(is_observed=True)
        room = self.engine.decoder.config.context_len - len(ids)
        for _ in range(min(self.order.max_tokens, max(room, 1))):
            generation = self.engine.make_generation([*ids, *made], params, receipt=True)
            self.loop.watch(generation.samples[0], notes)
            steps.append(read_served(list(self.engine.follow([generation])), False))
            made += steps[-1].token_ids
            if steps[-1].finish_reason == "stop":
                break
        return self.join(steps)

    def join(self, parts: Sequence[Served]) -> Served:
        """Make one answer of its tokens, asked for one by one."""
        token_ids = tuple(token for part in parts for token in part.token_ids)
        is_ended = parts[-1].finish_reason == "stop"
        logprobs = tuple(value for part in parts for value in part.logprobs or ())
        return Served(
            token_ids=token_ids,
            text=self.spell(token_ids[:-1] if is_ended else token_ids),
            finish_reason=parts[-1].finish_reason,
            steps=tuple(step for part in parts for step in part.steps),
            logprobs=logprobs or None,
        )


def read_served(events: Sequence[TokenEvent | FinishedEvent], is_streamed: bool) -> Served:
    """Read a request's first sample from its events: as they came, or as they ended."""
    completion = next(e.completion for e in events if isinstance(e, FinishedEvent))
    output = completion.outputs[0]
    token_ids, text, logprobs = output.token_ids, output.text, None
    if output.logprobs is not None:
        logprobs = tuple(entry.logprob for entry in output.logprobs)
    if is_streamed:
        came = [e for e in events if isinstance(e, TokenEvent) and e.index == output.index]
        token_ids = tuple(event.token_id for event in came)
        text = "".join(event.text for event in came)
    return Served(
        token_ids=token_ids,
        text=text,
        finish_reason=output.finish_reason,
        steps=read_steps(completion),
        logprobs=logprobs,
        others=tuple(other.text for other in completion.outputs[1:]),
    )


def read_steps(completion: Completion) -> tuple[str, ...]:
    """Give the bits of each step of the first sample, from the receipt."""
    assert completion.receipt is not None
    return tuple(shorten(step) for step in completion.receipt.samples[0].steps)


def shorten(digest: str) -> str:
    """Keep the beginning of a digest's digits."""
    return digest.removeprefix("sha256:")[:STEP_DIGITS]
