"""Our engine as an audit's session: runs in a process of its own, or in a test's.

Calls are arranged by engine_call.py; what is inside is looked at by engine_probe.py.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt, as_messages, load_built_in
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.engine import EngineSettings
from samebits.audit.targets.engine_call import Caller, open_engine
from samebits.audit.targets.engine_facts import CORE_SWITCH, describe_engine, list_blas
from samebits.audit.targets.engine_loop import Notes
from samebits.audit.targets.engine_order import Order
from samebits.audit.targets.engine_probe import Side, Yardstick, find_parting
from samebits.engine import Engine
from samebits.engine.prompt import ReadPrompt, read_prompt, read_text
from samebits.errors import ConfigError, RequestError, UnsupportedInput
from samebits.model.template import FROZEN_NOW
from samebits.numerics.order_free import OrderFree
from samebits.numerics.select import try_native

LEAST_KV_TOKENS = 64
"""The loaded engine serves nothing itself: its pool is one page."""
PROBE_TOKENS = 16
"""Tokens a probe goes through if nothing was asked before."""

Load = Callable[[Process], Engine]


def open_session(settings: Mapping[str, Any], process: Process) -> "EngineSession":
    """Load a model for an audit.

    Args:
        settings: The fields of EngineSettings.
        process: What acts at the start; dtype is the name of an arithmetic, isa a level of the
            native kernels, or portable.
    Raises:
        ConfigError: A setting nobody implements, or that does not come into force.
        ModelFileError: A file is missing, damaged or foreign.
    """
    asked = EngineSettings(**settings)
    check_variables(process)

    def load(other: Process) -> Engine:
        return load_audited(asked, other)

    return EngineSession(load(process), settings=asked, process=process, load=load)


def check_variables(process: Process) -> None:
    """Refuse to audit a BLAS that does not do what its variable says.

    Raises:
        ConfigError: Other kernels are in force.
    """
    wanted = dict(process.variables).get(CORE_SWITCH)
    found = {str(library.get("architecture")) for library in list_blas()}
    if wanted is not None and wanted not in found:
        raise ConfigError(
            expected=f"{CORE_SWITCH}={wanted} to be in force", found=", ".join(found) or "no BLAS"
        )


def load_audited(
    settings: EngineSettings, process: Process, kv_tokens: int = LEAST_KV_TOKENS
) -> Engine:
    """Load the engine of a process.

    Args:
        kv_tokens: Size of its pool.
    Raises:
        ConfigError, ModelFileError: As for `open_session`.
    """
    arithmetic = process.dtype or settings.arithmetic
    is_portable = process.isa == "portable"
    engine = Engine.load(
        settings.model,
        arithmetic=arithmetic,
        # Another arithmetic than the one asked for quantises nothing.
        weights=settings.weights if arithmetic == settings.arithmetic else "w16",
        threads=settings.threads if process.threads is None else process.threads,
        kernels="portable" if is_portable else settings.kernels,
        max_isa=settings.max_isa,
        kv_tokens=kv_tokens,
    )
    if process.isa and not is_portable:
        swap_level(engine, process.isa)
    return engine


def swap_level(engine: Engine, level: str) -> None:
    """Let a loaded engine compute with one level of the native kernels.

    Raises:
        ConfigError: It is not one that runs here, or fails its self-test.
    """
    arithmetic = engine.decoder.arithmetic
    if not isinstance(arithmetic, OrderFree):
        raise ConfigError(expected="the arithmetic sb1 for an ISA level", found=arithmetic.name)
    trial = try_native(level, arithmetic.threads)
    if trial.candidate.failures:
        raise ConfigError(
            expected=f"kernels of level {level} that pass the self-test",
            found=trial.candidate.outcome,
        )
    arithmetic.kernels = trial.kernels


class EngineSession:
    """A loaded model that answers as told.

    Attributes:
        engine: Holds the weights; each ask is served by an engine of its own around them.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        settings: EngineSettings,
        process: Process | None = None,
        load: Load,
    ) -> None:
        """Wrap a loaded engine.

        Args:
            load: Loads the same model for another process, for probes.
        """
        self.engine = engine
        self.ignore_eos = settings.ignore_eos
        self.process = process or Process()
        self.load = load
        self.yardstick = Yardstick(lambda: load(replace(self.process, dtype="plain-f64", isa=None)))
        self.found = describe_engine(engine, settings)
        self.last: Ask | None = None

    @property
    def facts(self) -> TargetFacts:
        """What was found on opening."""
        return self.found

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer each prompt in order; what one prompt cannot have is an answer with an error."""
        self.last = ask
        prepared = [self.prepare(prompt, ask.call) for prompt in ask.prompts]
        order = self.make_order(ask)
        longest = max((len(p.token_ids) for p in prepared if isinstance(p, ReadPrompt)), default=1)
        with open_engine(self.engine, order, longest) as caller:
            for read in prepared:
                yield self.answer(caller, read) if isinstance(read, ReadPrompt) else read

    def make_order(self, ask: Ask, call: Call | None = None) -> Order:
        """Make the order of an ask, or the same under another call."""
        read = (self.prepare(companion, ask.call) for companion in ask.companions)
        return Order(
            call=call or ask.call,
            max_tokens=ask.max_tokens,
            ignore_eos=self.ignore_eos,
            companions=[one.token_ids for one in read if isinstance(one, ReadPrompt)],
        )

    def prepare(self, prompt: AuditPrompt, call: Call) -> ReadPrompt | Answer:
        """Turn a prompt into tokens, or say why that cannot be."""
        try:
            return self.read(prompt, call.clock)
        except RequestError as error:
            return Answer(error=str(error))

    def read(self, prompt: AuditPrompt, clock: str | None) -> ReadPrompt:
        """Turn a prompt into tokens: a text as it is, messages through the chat template.

        Where the template is told the time, a text is what a user says in it.

        Raises:
            RequestError: Empty, or messages that the template does not take.
        """
        tokenizer, template = self.engine.tokenizer, self.engine.template
        if prompt.messages is None and clock is None:
            return read_prompt(prompt.text or "", tokenizer, template)
        messages = as_messages(prompt)
        if template is None:
            return read_prompt(messages, tokenizer, template)
        now = FROZEN_NOW if clock is None else datetime.fromisoformat(clock)
        return read_text(template.render(messages, now=now), tokenizer, add_special=False)

    def answer(self, caller: Caller, read: ReadPrompt) -> Answer:
        """Answer one prompt."""
        notes, start = Notes(), time.perf_counter()
        try:
            served = caller.serve(read.token_ids, notes)
        except (RequestError, UnsupportedInput) as error:
            return Answer(error=str(error), elapsed_s=time.perf_counter() - start)
        return Answer(
            text=served.text,
            token_ids=served.token_ids,
            finish_reason=served.finish_reason,
            steps=served.steps,
            margins=tuple(notes.margins),
            seconds=tuple(notes.seconds),
            logprobs=served.logprobs,
            others=served.others,
            prompt_text=read.text,
            num_prompt_tokens=len(read.token_ids),
            num_tokens=len(served.token_ids),
            elapsed_s=time.perf_counter() - start,
        )

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        """Find where the bits of a prompt part between two calls; None if it cannot look.

        The neighbours and the number of tokens are those of the last ask.
        """
        if not self.can_compare(base, treated):
            return None
        sides = [self.make_side(condition, prompt) for condition in (base, treated)]
        one, other = sides
        if one is None or other is None:
            return None
        try:
            return find_parting(one, other, prompt.id, self.yardstick)
        except (RequestError, UnsupportedInput):
            return None

    def can_compare(self, base: Condition, treated: Condition) -> bool:
        """Answer whether both conditions can be brought about within this process."""
        ours = replace(self.process, instance=0)
        for condition in (base, treated):
            process = replace(condition.process, instance=0)
            if process.variables != ours.variables or condition.call.scoring:
                return False
            if condition.call.temperature and not condition.call.seed.isdecimal():
                return False
        return (replace(base.process, instance=0), base.call) != (
            replace(treated.process, instance=0),
            treated.call,
        )

    def make_side(self, condition: Condition, prompt: AuditPrompt) -> Side | None:
        """Make what a probe compares of one condition; None if the prompt cannot be read."""
        read = self.prepare(prompt, condition.call)
        if not isinstance(read, ReadPrompt):
            return None
        ask = self.last or Ask(
            call=condition.call,
            prompts=(),
            max_tokens=PROBE_TOKENS,
            block="",
            companions=load_built_in().companions,
        )
        is_ours = replace(condition.process, instance=0) == replace(self.process, instance=0)
        return Side(
            key=condition.key,
            engine=self.engine if is_ours else self.load(condition.process),
            order=self.make_order(ask, condition.call),
            ids=read.token_ids,
        )
