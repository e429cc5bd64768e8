"""The axes: what is changed, what is held, and the pairs of conditions that show it.

Every axis is a list of contrasts. In each, calls of the base among themselves, and of the treated
condition among themselves, must match (the control); base against treated may differ (the finding).
The names of axes for people are in report/.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from samebits.audit.condition import Condition
from samebits.audit.target import TargetFacts

BATCHES = (2, 8)
PADDINGS = (1, 16)
CONCURRENCIES = (2, 4, 8, 16)
STAGGERS_MS = (20, 100)
CHUNKS = (1, 7)
FULL = 8
"""Rows, or requests at once, where an axis needs company but is not about their number."""
FRESH_PROMPTS = 11
"""Prompts of axes that need a fresh process for each: the fewest that rule out a quarter."""
CLOCKS = ("2024-02-29T12:00:00", "2031-11-05T06:30:00")
SEED = "42"
OTHER_SEED = 7
TEMPERATURE = 1.0
BASE = Condition()

Pairs = Iterator[tuple[str, Condition, Condition]]
Make = Callable[[TargetFacts, Condition], Pairs]
"""Facts and the base condition to (level, base, treated)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Two conditions that differ in one thing."""

    axis: str
    """Key of the axis."""
    level: str
    """The treated value, such as "8" or "MKL_CBWR=AVX2"; unique within its axis."""
    base: Condition
    treated: Condition
    max_prompts: int | None = None
    """Use only so many prompts, since each is dear; None: all."""
    leans: bool = False
    """Whether the order of calls within a block matters, so that a block cut short is begun
    again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One named change."""

    key: str
    make: Make
    max_prompts: int | None = None
    leans: bool = False

    def contrasts(self, facts: TargetFacts, base: Condition) -> tuple[Contrast, ...]:
        """List the contrasts; whether a target can bring them about, it says itself."""
        return tuple(
            Contrast(
                axis=self.key,
                level=level,
                base=one,
                treated=other,
                max_prompts=self.max_prompts,
                leans=self.leans,
            )
            for level, one, other in self.make(facts, base)
        )


def with_call(base: Condition, **changes: Any) -> Condition:
    """Change the call of a condition."""
    return replace(base, call=replace(base.call, **changes))


def with_process(base: Condition, **changes: Any) -> Condition:
    """Change the process of a condition."""
    return replace(base, process=replace(base.process, **changes))


def vary(name: str, values: Sequence[Any], **held: Any) -> Make:
    """Make an axis of one factor of the call, the rest held at `held`."""

    def make(_facts: TargetFacts, base: Condition) -> Pairs:
        quiet = with_call(base, **held)
        for value in values:
            yield spell_level(value), quiet, with_call(quiet, **{name: value})

    return make


def spell_level(value: Any) -> str:
    """Spell a value as a level."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def make_repeat(_facts: TargetFacts, base: Condition) -> Pairs:
    """Compare the base with itself: what differs here has no name yet."""
    yield "again", base, base


def make_restart(_facts: TargetFacts, base: Condition) -> Pairs:
    """Compare two processes set up alike."""
    yield "another process", base, with_process(base, instance=1)


def make_first(_facts: TargetFacts, base: Condition) -> Pairs:
    """Compare the first call of a process with later ones."""
    yield "first", with_call(base, first="later"), with_call(base, first="first")


def make_prefix(_facts: TargetFacts, base: Condition) -> Pairs:
    """Compare a prompt never seen with one just seen."""
    yield "warm", with_call(base, prefix="cold"), with_call(base, prefix="warm")


def make_neighbours(facts: TargetFacts, base: Condition) -> Pairs:
    """Change the companions' content while their number and lengths stay."""
    for name in ("batch", "concurrency"):
        full = with_call(base, **{name: FULL}, neighbours="others")
        if name == "batch" or facts.max_concurrency >= FULL:
            yield f"{name} {FULL}", full, with_call(full, neighbours="more")


def make_position(_facts: TargetFacts, base: Condition) -> Pairs:
    """Move the observed row to the end of its batch."""
    full = with_call(base, batch=FULL)
    yield f"row {FULL - 1} of {FULL}", full, with_call(full, position=FULL - 1)


def make_concurrency(facts: TargetFacts, base: Condition) -> Pairs:
    """Send more requests at once; the runner narrows the threshold down."""
    for value in CONCURRENCIES:
        if value <= facts.max_concurrency:
            yield str(value), base, with_call(base, concurrency=value)


def make_logprobs(facts: TargetFacts, base: Condition) -> Pairs:
    """Ask for no, few and many log-probabilities."""
    for value in (0, 1, 5):
        if value <= facts.max_logprobs:
            yield "off" if value == 0 else str(value), base, with_call(base, logprobs=value)


def make_seed(_facts: TargetFacts, base: Condition) -> Pairs:
    """Sample with a seed: the same seed must match; another, or none, may differ."""
    sampled = with_call(base, temperature=TEMPERATURE, seed=SEED)
    for value in ("43", "0", "absent", "null"):
        yield value, sampled, with_call(sampled, seed=value)


def make_neighbour_seed(facts: TargetFacts, base: Condition) -> Pairs:
    """Sample with a seed beside requests with another one."""
    name = "concurrency" if facts.kind == "http" else "batch"
    sampled = with_call(base, temperature=TEMPERATURE, seed=SEED, **{name: FULL})
    yield str(OTHER_SEED), sampled, with_call(sampled, neighbour_seed=OTHER_SEED)


def make_clock(_facts: TargetFacts, base: Condition) -> Pairs:
    """Render the prompt at two times."""
    one, other = CLOCKS
    yield other[:10], with_call(base, clock=one), with_call(base, clock=other)


def list_offers(name: str) -> Make:
    """Make an axis of a process setting from the values that the target offers."""
    offers = {"threads": "threads", "dtype": "dtypes", "attention": "attentions", "isa": "isas"}

    def make(facts: TargetFacts, base: Condition) -> Pairs:
        for value in getattr(facts, offers[name]):
            yield str(value), base, with_process(base, **{name: value})

    return make


def make_compile(_facts: TargetFacts, base: Condition) -> Pairs:
    """Let a compiler fuse operations."""
    yield "on", base, with_process(base, compile=True)


def make_variables(facts: TargetFacts, base: Condition) -> Pairs:
    """Set each environment variable that steers a library's kernels."""
    for setting in facts.variables:
        level = " ".join(f"{name}={value}" for name, value in setting)
        yield level, base, with_process(base, variables=setting)


AXES = (
    Axis(key="repeat", make=make_repeat),
    Axis(key="batch", make=vary("batch", BATCHES)),
    Axis(key="concurrency", make=make_concurrency),
    Axis(key="neighbours", make=make_neighbours),
    Axis(key="position", make=make_position),
    Axis(key="padding", make=vary("padding", PADDINGS)),
    Axis(key="stagger", make=vary("stagger_ms", STAGGERS_MS, concurrency=FULL)),
    Axis(key="prefix", make=make_prefix, leans=True),
    Axis(key="chunk", make=vary("chunk_tokens", CHUNKS)),
    Axis(key="kv-cache", make=vary("kv_cache", (False,))),
    Axis(key="attention", make=list_offers("attention")),
    Axis(key="dtype", make=list_offers("dtype")),
    Axis(key="threads", make=list_offers("threads")),
    Axis(key="isa", make=list_offers("isa")),
    Axis(key="variables", make=make_variables),
    Axis(key="compile", make=make_compile),
    Axis(key="restart", make=make_restart),
    Axis(key="first-call", make=make_first, max_prompts=FRESH_PROMPTS, leans=True),
    Axis(key="logprobs", make=make_logprobs),
    Axis(key="stream", make=vary("stream", (True,))),
    Axis(key="n", make=vary("n", (4,))),
    Axis(key="seed", make=make_seed),
    Axis(key="neighbour-seed", make=make_neighbour_seed),
    Axis(key="template", make=make_clock),
    Axis(key="ties", make=vary("pick", ("highest", "log-softmax"))),
    Axis(key="scoring", make=vary("batch", (2, 8), scoring=True)),
)
"""In the order in which a budget is spent on them."""
