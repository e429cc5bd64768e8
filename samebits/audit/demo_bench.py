"""One loaded model under one arithmetic, on which the demo makes its runs.

Each run has a fresh engine over the same weights, so that nothing but the setting changes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from samebits.audit.demo_prompts import Prompts
from samebits.engine import Completion, Engine, FinishedEvent, Limits, SamplingParams
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.order_free import OrderFree
from samebits.numerics.select import (
    describe_choice,
    list_allowed,
    select_arithmetic,
    try_native,
)
from samebits.record.receipt import Sample

STRIDE = 5
"""Prompts this far apart become neighbours when shuffled; coprime to their number, 16."""
PORTABLE_COST = 4.0
"""How much longer a step takes on NumPy alone, about. For the time left, nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """How one run is made; None leaves what was loaded."""

    batch: int
    is_shuffled: bool = False
    chunk_tokens: int | None = None
    threads: int | None = None
    level: str | None = None
    """Level of native kernels."""
    kernels: str | None = None


class Run(NamedTuple):
    """What one run gave: a sample and a text for each prompt, and the clock."""

    samples: tuple[Sample, ...]
    texts: tuple[str, ...]
    num_served: int
    """Outputs made, companions included."""
    num_prompt_tokens: int
    prefill_s: float
    """Until the first token of each group, in all."""
    wall_s: float


class Span:
    """A part of the whole progress."""

    def __init__(
        self, whole: Callable[[float, str], None], start: float, stop: float, name: str
    ) -> None:
        self.whole = whole
        self.start = start
        self.stop = stop
        self.name = name

    def part(self, start: float, stop: float) -> "Span":
        """Give a part of this part."""
        width = self.stop - self.start
        return Span(self.whole, self.start + start * width, self.start + stop * width, self.name)

    def tell(self, fraction: float, label: str) -> None:
        """Report the share of this part that is done."""
        self.whole(self.start + fraction * (self.stop - self.start), f"{self.name}, {label}")


class Bench:
    """Make runs with one loaded model.

    Attributes:
        name: Of the arithmetic. choice: The kernels in force. threads: Threads in force.
    """

    def __init__(
        self, engine: Engine, prompts: Prompts, max_tokens: int, max_isa: str | None
    ) -> None:
        self.engine = engine
        self.prompts = prompts
        self.max_tokens = max_tokens
        self.max_isa = max_isa
        self.loaded: Arithmetic = engine.decoder.arithmetic
        self.name = self.loaded.name
        self.threads = self.loaded.threads
        self.choice = describe_choice(self.loaded)
        self.weights_digest = engine.identity.weights

    def refuse(self, setting: Setting) -> str:
        """Say why a setting is no change here; empty if it is one."""
        if self.name != "sb1":
            return self.refuse_plain(setting)
        if setting.kernels is None:
            return ""
        if self.choice.kernels != "native":
            return "no C kernels here; NumPy is in force already"
        if setting.kernels == "portable":
            return ""
        if not setting.level:
            return "this processor has one level only"
        outcome = try_native(setting.level, self.threads).candidate
        return f"self-test {outcome.outcome}" if outcome.failures else ""

    def refuse_plain(self, setting: Setting) -> str:
        """Say why a setting is no change under a plain arithmetic."""
        if setting.kernels == "native":
            return "NumPy's BLAS picks its own level"
        if setting.kernels == "portable":
            return "NumPy is its only kernel path"
        if setting.threads and self.make_arithmetic(setting).threads != setting.threads:
            return "NumPy's BLAS keeps its thread count"
        return ""

    def make_arithmetic(self, setting: Setting) -> Arithmetic:
        """Build the arithmetic of a setting; the loaded weights serve it too."""
        threads = setting.threads or self.threads
        if setting.level:
            return OrderFree(try_native(setting.level, threads).kernels, bits=16, threads=threads)
        if setting.threads is None and setting.kernels is None:
            return self.loaded
        return select_arithmetic(
            self.name,
            threads=threads,
            max_isa=self.max_isa,
            kernels=setting.kernels or "auto",
        )

    def other_levels(self) -> list[str]:
        """List the levels of the native kernels that are allowed and not in force, best first."""
        if self.choice.kernels != "native":
            return []
        return [level for level in list_allowed(self.max_isa) if level != self.choice.level]

    def make_engine(self, setting: Setting) -> Engine:
        """Build an engine of a setting around the loaded weights."""
        longest = max(
            len(text.encode()) for text in (*self.prompts.prompts, *self.prompts.companions)
        )
        limits = Limits(
            # A token is at least a byte; 64 more are for a page that is not full.
            kv_tokens=setting.batch * (longest + self.max_tokens + 64),
            chunk_tokens=setting.chunk_tokens or self.engine.limits.chunk_tokens,
            max_batch=setting.batch,
        )
        engine = Engine(
            self.engine.decoder,
            self.engine.tokenizer,
            limits=limits,
            file_digest=self.engine.file_digest,
        )
        engine.weights_digest = self.weights_digest
        return engine

    def cost(self, setting: Setting) -> float:
        """Guess how long a run takes, in decode steps of one row."""
        groups = len(self.groups(setting))
        factor = PORTABLE_COST if setting.kernels == "portable" else 1.0
        return groups * (self.max_tokens + 2) * (1 + setting.batch / 12) * factor

    def groups(self, setting: Setting) -> list[list[int]]:
        """Part the prompts into batches, by index; those of companions follow the prompts'."""
        count = len(self.prompts.prompts)
        order = list(range(count))
        if setting.is_shuffled:
            order = sorted(order, key=lambda i: i * STRIDE % count)
        if setting.batch > count:
            order += range(count, count + len(self.prompts.companions))
        return [order[i : i + setting.batch] for i in range(0, len(order), setting.batch)]

    def run(self, setting: Setting, span: Span, label: str) -> Run:
        """Complete every prompt under a setting."""
        self.engine.decoder.arithmetic = self.make_arithmetic(setting)
        try:
            with self.make_engine(setting) as engine:
                return self.complete_groups(engine, setting, span, label)
        finally:
            self.engine.decoder.arithmetic = self.loaded

    def complete_groups(self, engine: Engine, setting: Setting, span: Span, label: str) -> Run:
        """Complete group after group, and put the prompts' completions in their own order."""
        texts = (*self.prompts.prompts, *self.prompts.companions)
        groups = self.groups(setting)
        found: dict[int, Completion] = {}
        prefill_s = wall_s = 0.0
        for place, group in enumerate(groups):
            part = span.part(place / len(groups), (place + 1) / len(groups))
            served = self.complete(engine, [texts[i] for i in group], part, label)
            found |= zip(group, served.completions, strict=True)
            prefill_s += served.first_s
            wall_s += served.wall_s
        chosen = [found[i] for i in range(len(self.prompts.prompts))]
        return Run(
            samples=tuple(
                completion.receipt.samples[0] for completion in chosen if completion.receipt
            ),
            texts=tuple(completion.outputs[0].text for completion in chosen),
            num_served=len(found),
            num_prompt_tokens=sum(len(completion.prompt_ids) for completion in found.values()),
            prefill_s=prefill_s,
            wall_s=wall_s,
        )

    def complete(self, engine: Engine, texts: Sequence[str], span: Span, label: str) -> "Served":
        """Complete one batch of prompts together."""
        params = SamplingParams(max_tokens=self.max_tokens, ignore_eos=True)
        start = time.perf_counter()
        first_s = 0.0
        done: dict[int, Completion] = {}
        total = len(texts) * self.max_tokens
        for count, event in enumerate(engine.stream(texts, params, receipt=True)):
            first_s = first_s or time.perf_counter() - start
            if isinstance(event, FinishedEvent):
                done[event.prompt] = event.completion
            else:
                span.tell(min(count / total, 1.0), label)
        completions = [done[place] for place in range(len(texts))]
        return Served(completions, first_s, time.perf_counter() - start)


class Served(NamedTuple):
    """One batch that was completed."""

    completions: list[Completion]
    first_s: float
    wall_s: float
