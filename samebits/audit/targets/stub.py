"""A scripted model that can be made unstable in each known way: for tests and demonstrations.

At each step two candidates stand `margin` apart; margin and candidates are functions of the text so
far. A cause moves the margin; where it turns negative, the other candidate is chosen. No weights,
no arithmetic that could differ by itself.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.stub_causes import (
    Drift,
    Place,
    Script,
    draw,
    draw_share,
    find_drifts,
)
from samebits.errors import TargetError

VOCABULARY = 50_000
MASK = 2**64 - 1
OWN_TIME = "2026-01-01T00:00:00"
"""What the template shows if it has a clock and is told no time."""
MAX_LOGPROBS = 5


class Made(NamedTuple):
    """One call, and what it changes by name."""

    ask: Ask
    prompt: AuditPrompt
    condition: Condition
    changed: Mapping[str, Any]


class Stub:
    """Plays a script as a target."""

    def __init__(self, script: Script, *, sleep: Callable[[float], None] = time.sleep) -> None:
        self.script = script
        self.sleep = sleep
        self.num_calls = 0
        self.num_sessions = 0
        self.answers: dict[tuple[object, ...], Answer] = {}

    def facts(self) -> TargetFacts:
        """Say what it is."""
        script = self.script
        return TargetFacts(
            kind="stub",
            name="stub",
            in_force={"seed": script.seed},
            reports=script.reports,
            dtypes=("float32",),
            attentions=("eager",),
            isas=("avx2",),
            threads=(1,),
            variables=((("STUB_KERNELS", "plain"),),),
            can_compile=True,
            max_concurrency=script.max_concurrency,
            max_logprobs=MAX_LOGPROBS if "logprobs" in script.reports else 0,
            is_local=False,
        )

    def refuse(self, condition: Condition, facts: TargetFacts) -> str:
        """Say which factor it cannot bring about; empty if none."""
        for name in condition.value():
            if name in self.script.lacks:
                return f"this stub offers no {name}"
        if condition.call.concurrency > facts.max_concurrency:
            return f"this stub takes at most {facts.max_concurrency} requests at once"
        if (condition.call.logprobs or 0) > facts.max_logprobs:
            return "this stub reports no log-probabilities"
        return ""

    def open(self, process: Process) -> AbstractContextManager["StubSession"]:
        """Start a process of it."""

        @contextmanager
        def start() -> Iterator[StubSession]:
            self.num_sessions += 1
            yield StubSession(self, process, self.num_sessions)

        return start()


class StubSession:
    """One process of the scripted model."""

    def __init__(self, stub: Stub, process: Process, number: int) -> None:
        self.stub = stub
        self.process = process
        self.number = number
        self.num_calls = 0
        self.seen: set[str] = set()

    @property
    def facts(self) -> TargetFacts:
        """What was found on opening."""
        return self.stub.facts()

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer each prompt in order.

        Raises:
            TargetError: The script says that it is gone.
        """
        condition = Condition(process=self.process, call=ask.call)
        changed = condition.value()
        for prompt in ask.prompts:
            yield self.answer(Made(ask, prompt, condition, changed))

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        """Find nothing: there are no layers."""
        return None

    def answer(self, made: Made) -> Answer:
        """Make one call."""
        stub, script = self.stub, self.stub.script
        stub.num_calls += 1
        self.num_calls += 1
        if script.fails_after is not None and stub.num_calls > script.fails_after:
            raise TargetError(
                expected="an answer of the stub", found=f"its end after {script.fails_after} calls"
            )
        if script.latency_s:
            stub.sleep(script.latency_s)
        if script.error_every and stub.num_calls % script.error_every == 0:
            return Answer(error="the stub gives no answer to this call")
        if refused := [name for name in made.changed if name in script.rejects]:
            return Answer(error=f"the stub refuses {refused[0]}")
        return self.find_answer(made)

    def find_answer(self, made: Made) -> Answer:
        """Generate, or score, unless the same was computed before."""
        ask, prompt, condition, changed = made
        script, call = self.stub.script, ask.call
        text = render(script, ask, prompt)
        place = Place(
            counter=self.stub.num_calls,
            session=self.number,
            is_first=self.num_calls == 1,
            is_warm=call.prefix is not None and text in self.seen,
            num_prompt_tokens=len(text.split()),
        )
        self.seen.add(text)
        drifts = find_drifts(script, condition, changed, place)
        seed = find_seed(script, call, place.counter) if call.temperature else None
        key = (text, drifts, seed, call.temperature, call.scoring, call.logprobs, call.n)
        known = self.stub.answers.get((*key, ask.max_tokens))
        if known is None:
            known = make_answer(script, ask, text, drifts, seed)
            if not (seed or "").startswith("call "):
                self.stub.answers[(*key, ask.max_tokens)] = known
        return known


def render(script: Script, ask: Ask, prompt: AuditPrompt) -> str:
    """Give the prompt behind its mark, if its prefix is controlled, and its clock, if planted."""
    text = prompt.text or "\n".join(f"{role}: {content}" for role, content in prompt.messages or ())
    mark = f"[{ask.block}] " if ask.call.prefix is not None else ""
    if any(cause.factor == "clock" for cause in script.causes):
        mark = f"{mark}({ask.call.clock or OWN_TIME}) "
    return mark + text


def find_seed(script: Script, call: Call, counter: int) -> str:
    """Name the stream of random numbers of a sampled call."""
    omitted = call.seed in ("absent", "null") or (call.seed == "0" and script.zero_seed_is_omitted)
    if omitted and script.omitted_seed_is_constant:
        return "constant"
    return f"call {counter}" if omitted or script.ignores_seed else f"seed {call.seed}"


def make_answer(
    script: Script, ask: Ask, text: str, drifts: tuple[Drift, ...], seed: str | None
) -> Answer:
    """Compute an answer, and leave out what the script does not report."""
    answer = generate(script, ask, text, drifts, seed)
    if ask.call.n > 1:
        others = (f"{seed} sample {i}" if seed else None for i in range(1, ask.call.n))
        texts = tuple(generate(script, ask, text, drifts, other).text for other in others)
        answer = replace(answer, others=texts)
    kept = set(script.reports)
    if ask.call.logprobs == 0:
        kept -= {"steps", "margins", "logprobs"}
    names = ("token_ids", "tokens", "steps", "margins", "logprobs")
    blank = {name: None for name in names if name not in kept}
    if "margins" in blank:
        blank["seconds"] = None
    # mypy cannot follow the names; each of these fields may be None.
    return replace(answer, **blank)  # type: ignore[arg-type]


def generate(
    script: Script, ask: Ask, text: str, drifts: tuple[Drift, ...], seed: str | None
) -> Answer:
    """Choose token after token; scoring gives the prompt's own tokens instead."""
    words = text.split()
    own = [draw("word", word) % VOCABULARY for word in words] if ask.call.scoring else None
    context = draw(script.seed, "same" if script.is_constant else text)
    ids, margins, bits, logprobs, seconds = [], [], [], [], []
    for step in range(ask.max_tokens if own is None else len(own)):
        share, *pair = draw_candidates(context)
        margin = -script.mean_margin * math.log1p(-share)
        value = margin + sum(move(drift, context) for drift in drifts)
        chosen = choose(drifts, value, context, ask.call.temperature, seed)
        ids.append(pair[chosen] if own is None else own[step])
        seconds.append(pair[1 - chosen])
        margins.append(abs(value))
        bits.append(f"{draw(context, value):016x}")
        logprobs.append(-math.log1p(math.exp(value if chosen else -value)))
        context = draw(context, ids[-1])
    return Answer(
        text=" ".join(map(str, ids)),
        token_ids=tuple(ids),
        tokens=tuple(map(str, ids)),
        finish_reason="length",
        steps=tuple(bits),
        margins=tuple(margins),
        seconds=tuple(seconds),
        logprobs=tuple(logprobs),
        prompt_text=text,
        num_prompt_tokens=len(words),
        num_tokens=len(ids),
        fingerprint="fp_stub",
    )


class Candidates(NamedTuple):
    """What may come next."""

    share: float
    """From [0, 1); the margin is drawn with it."""
    best: int
    second: int


def draw_candidates(context: int) -> Candidates:
    """Draw what may come after a text."""
    bits = int.from_bytes(blake2b(context.to_bytes(8, "little"), digest_size=24).digest(), "little")
    share, best, second = (bits & MASK) >> 11, (bits >> 64) & MASK, bits >> 128
    return Candidates(share / 2**53, best % VOCABULARY, second % VOCABULARY)


def move(drift: Drift, context: int) -> float:
    """Give a cause's move of the margin at one step, in nats."""
    if drift.flips_ties:
        return 0.0
    return drift.cause.size * (2 * draw_share(context, drift.key) - 1)


def choose(
    drifts: tuple[Drift, ...], value: float, context: int, temperature: float, seed: str | None
) -> int:
    """Choose the best candidate, 0, or the second, 1."""
    if seed is not None:
        second = 1 / (1 + math.exp(max(-700.0, min(700.0, value / temperature))))
        return int(draw_share(seed, context) < second)
    flips = any(drift.flips_ties and abs(value) < drift.cause.size for drift in drifts)
    return int((value < 0) != flips)
