"""A transformers model whose answers do not depend on what is asked beside them.

Puts the parts together: which batches there are is fixed.py's, which rows of them may hold prompts
is selftest.py's, in which precision is precision.py's, the loop over steps is batch.py's. Between
calls the model is as it was: everything that is set on it is set for the time of a call.
"""

import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from samebits.errors import RequestError
from samebits.remedies.batch import Batch, Row, list_stop_ids, make_rows
from samebits.remedies.choose import Chooser, Greedy, Sampled
from samebits.remedies.fixed import Sitting, choose_bucket, seat_alone, seat_group
from samebits.remedies.precision import Plan, raised
from samebits.remedies.reader import Ids, Reader
from samebits.remedies.selftest import SelfTest, check_usable, find_usable
from samebits.remedies.shape import masked
from samebits.remedies.stable_answer import (
    Made,
    StableAnswer,
    StableFacts,
    Trace,
    describe_machine,
)
from samebits.remedies.stable_cache import (
    AnswerCache,
    Weights,
    fetch,
    find_doubt,
    make_identity,
    make_request,
)
from samebits.remedies.stable_request import Ask, Report, check_ask, check_prompts, encode, read_ids

LOCKS: weakref.WeakKeyDictionary[Any, threading.Lock] = weakref.WeakKeyDictionary()
"""By model: each call changes it meanwhile, whichever of its stable forms was asked."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """How a stable model computes."""

    shape: str
    """fixed or alone."""
    rows: int
    buckets: tuple[int, ...]
    plan: Plan
    guard: Chooser | None
    cache: AnswerCache | None


class StableModel:
    """A model through which every answer is a function of its own prompt and of the setting.

    With the machine, its libraries and its threads as they are, an answer's tokens and the bits of
    its logits are the same in any company: whatever the number, content, order and lengths of the
    prompts beside it, and whatever `max_tokens` beyond its length. They are those of `generate` on
    the same model only up to rounding: a shape is not another shape.

    Calls from several threads are served one after another, also of several stable forms of one
    model.
    """

    def __init__(self, model: Any, tokenizer: Any, setting: Setting) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.setting = setting
        self.lock = LOCKS.setdefault(model, threading.Lock())
        self.weights = Weights(model)
        self.selftests: dict[tuple[int, int], SelfTest] = {}

    @property
    def facts(self) -> StableFacts:
        """What is in force, and what the self-tests found so far."""
        found = [self.selftests[key] for key in sorted(self.selftests)]
        return StableFacts(
            shape=self.setting.shape,
            rows=self.setting.rows,
            buckets=self.setting.buckets,
            dtype=str(self.model.dtype).removeprefix("torch."),
            precision=self.setting.plan.described,
            guard="" if self.setting.guard is None else type(self.setting.guard).__name__,
            attention=str(self.model.config._attn_implementation),
            device=str(next(self.model.parameters()).device),
            machine=describe_machine(),
            selftests=tuple(found),
            unusable={test.bucket: test.moved for test in found if test.moved},
        )

    def generate(
        self,
        prompts: Sequence[str] | Sequence[Sequence[int]],
        *,
        max_tokens: int,
        stop_ids: Sequence[int] | None = None,
        temperature: float = 0.0,
        seed: int | None = None,
        progress: Report | None = None,
    ) -> list[StableAnswer]:
        """Answer prompts, each as if it were the only one.

        Args:
            prompts: Token ids, or texts if a tokenizer was given. Texts are encoded with its
                special tokens; no chat template is applied.
            stop_ids: Tokens that end an answer; None: those of the model's generation settings.
            temperature: 0 takes the greatest logit, the lowest id among equals; above, a draw
                that depends on (seed, position, logits): equal prompts get equal answers.
            progress: Told after every step how many answers are there, and how many are wanted.
        Raises:
            RequestError: A prompt is empty, an id is foreign, a number is out of range.
            RequestTooLong: A prompt is longer than the largest bucket, or with its answer longer
                than the model's context.
            ConfigError: No row or too few rows of a batch have the bits of the others.
            UnsupportedInput: Logits that are no numbers.
        """
        check_prompts(prompts)
        ask = Ask(
            prompts=tuple(encode(self.tokenizer, prompt) for prompt in prompts),
            max_tokens=max_tokens,
            stop_ids=list_stop_ids(self.model)
            if stop_ids is None
            else frozenset(read_ids(stop_ids, "stop_ids")),
            chooser=self.make_chooser(temperature, seed),
            report=progress or (lambda _done, _wanted: None),
        )
        check_ask(ask, self.model)
        for ids in ask.prompts:
            self.find_bucket(ids)
        if self.setting.cache is None:
            made = [(one, False) for one in self.make(ask)]
        else:
            settings = {
                "max_tokens": max_tokens,
                "stop_ids": sorted(ask.stop_ids),
                "temperature": temperature,
                "seed": seed,
            }
            made = self.fetch(self.setting.cache, ask, settings)
        answers = zip(ask.prompts, made, strict=True)
        return [self.finish(ids, one, is_cached) for ids, (one, is_cached) in answers]

    def make(self, ask: Ask) -> list[Made]:
        """Compute what is asked for."""
        rows = make_rows(ask.prompts)
        traces = [Trace() for _ in rows]

        def note(row: Row, logits: Tensor) -> None:
            traces[row.request].add(logits)
            ask.report(sum(not each.is_live for each in rows), len(rows))

        with self.held():
            for sitting in self.seat(ask.prompts):
                self.open(sitting, rows, ask).run(note)
        return [trace.close(row, ask.stop_ids) for row, trace in zip(rows, traces, strict=True)]

    def open(self, sitting: Sitting, rows: Sequence[Row], ask: Ask) -> Batch:
        """Open the batch of a sitting; nothing is read yet."""
        return Batch(
            reader=Reader(self.model, sitting.layout),
            rows={seat.row: rows[seat.request] for seat in sitting.seats},
            chooser=ask.chooser,
            max_tokens=ask.max_tokens,
            stop_ids=ask.stop_ids,
        )

    def fetch(
        self, cache: AnswerCache, ask: Ask, settings: Mapping[str, Any]
    ) -> list[tuple[Made, bool]]:
        """Answer from a cache, and compute what it lacks."""
        with self.lock:
            identity = make_identity(self.weights, self.facts)
            doubt = find_doubt(self.model)
        requests = [
            make_request(identity, ids, self.find_bucket(ids), settings, doubt)
            for ids in ask.prompts
        ]

        def make(places: Sequence[int]) -> list[Made]:
            return self.make(replace(ask, prompts=tuple(ask.prompts[x] for x in places)))

        return fetch(cache, requests, make)

    def find_bucket(self, ids: Ids) -> int | None:
        """Find the bucket that a prompt is read in; None if it is read alone.

        Raises:
            RequestTooLong: None holds it.
        """
        buckets = self.setting.buckets
        return choose_bucket(len(ids), buckets) if buckets else None

    def make_chooser(self, temperature: float, seed: int | None) -> Chooser:
        """Give what chooses the tokens of a call.

        Raises:
            RequestError: A temperature without a seed or beside a guard, or below 0.
        """
        if temperature == 0:
            return self.setting.guard or Greedy()
        if not temperature > 0 or seed is None or self.setting.guard is not None:
            found = "a guard" if self.setting.guard is not None else f"seed {seed}"
            raise RequestError(
                expected="temperature 0, or above 0 with a seed and without a guard",
                found=f"temperature {temperature} and {found}",
            )
        return Sampled(temperature=temperature, seed=seed)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the model to its setting; whatever happens, it is given back as it was."""
        with ExitStack() as stack:
            stack.enter_context(self.lock)
            stack.enter_context(torch.no_grad())
            stack.enter_context(evaluating(self.model))
            if self.setting.shape == "fixed":
                stack.enter_context(masked(self.model))
            stack.enter_context(raised(self.model, self.setting.plan))
            yield

    def seat(self, prompts: Sequence[Ids]) -> Iterator[Sitting]:
        """Give the batches in which prompts are read; buckets never mix."""
        if self.setting.shape == "alone":
            yield from seat_alone(prompts)
            return
        groups: dict[int, list[int]] = {}
        for request, ids in enumerate(prompts):
            bucket = choose_bucket(len(ids), self.setting.buckets)
            groups.setdefault(bucket, []).append(request)
        for bucket, requests in sorted(groups.items()):
            usable = self.prove(bucket).usable
            yield from seat_group(prompts, requests, bucket, self.setting.rows, usable)

    def prove(self, bucket: int) -> SelfTest:
        """Test a shape, once for a number of threads.

        Raises:
            ConfigError: Its rows are not computed alike.
        """
        # Another number of threads may bring other kernels about.
        key = (bucket, torch.get_num_threads())
        if key not in self.selftests:
            found = find_usable(self.model, self.setting.rows, bucket)
            check_usable(found, lambda rows: find_usable(self.model, rows, bucket))
            self.selftests[key] = found
        return self.selftests[key]

    def finish(self, ids: Ids, made: Made, is_cached: bool) -> StableAnswer:
        """Give an answer, with its text."""
        return StableAnswer(
            token_ids=made.token_ids,
            text=self.decode(made.token_ids),
            finish_reason=made.finish_reason,
            num_prompt_tokens=len(ids),
            steps=made.steps,
            margins=made.margins,
            is_cached=is_cached,
        )

    def decode(self, tokens: Ids) -> str | None:
        """Spell tokens as a user would see them; None without a tokenizer."""
        if self.tokenizer is None:
            return None
        return str(self.tokenizer.decode(list(tokens), skip_special_tokens=True))


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Turn dropout and the like off, meanwhile; each module gets back what it had."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
