"""What is planted in a scripted model: causes, each a factor of a condition that moves logits.

Every draw is a function of the script's seed and of what is named, so a run can be had again.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from samebits.audit.condition import Condition
from samebits.errors import ConfigError

REPORTS = ("text", "token_ids", "tokens", "steps", "margins", "logprobs")
FACTORS = (
    *("noise", "session", "first", "prefix", "scoring", "batch", "position", "neighbours"),
    *("padding", "concurrency", "stagger_ms", "chunk_tokens", "kv_cache", "logprobs", "stream"),
    *("n", "neighbour_seed", "clock", "pick"),
    *("instance", "threads", "dtype", "attention", "compile", "isa", "variables"),
)
"""What can be planted. noise: nothing that is named; session: each process is another; pick: the
tokens of near-ties move while no bit does; all others: the factor of a condition of that name."""
CAUSE = re.compile(
    r"(?P<factor>[a-z_]+)(?:>=(?P<at_least>\d+))?(?::(?P<size>[0-9.e-]+))?"
    r"(?:@(?P<chance>[0-9.]+))?(?:/(?P<prompt_tokens>\d+))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One reason for other bits."""

    factor: str
    """One of FACTORS."""
    size: float = 1.0
    """Largest move of a margin, in nats: 1e-4 moves bits only, 1 flips near-ties."""
    at_least: int = 0
    """Acts only from this value of a numeric factor on."""
    prompt_tokens: int = 0
    """Acts only on prompts of at least so many tokens."""
    chance: float = 1.0
    """Probability that a call is touched; below 1, each touched call moves in its own way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Everything a scripted model does."""

    seed: int = 0
    causes: tuple[Cause, ...] = ()
    mean_margin: float = 2.0
    """Mean of the margins, in nats; they are exponential, so that near-ties occur."""
    reports: tuple[str, ...] = REPORTS
    lacks: tuple[str, ...] = ()
    """Factors of a condition that it cannot bring about."""
    rejects: tuple[str, ...] = ()
    """Factors that it claims to offer, and answers with an error."""
    max_concurrency: int = 16
    ignores_seed: bool = False
    omitted_seed_is_constant: bool = False
    zero_seed_is_omitted: bool = False
    is_constant: bool = False
    """One answer to everything."""
    fails_after: int | None = None
    """Calls after which it is gone."""
    error_every: int | None = None
    """Each so many-th call has no answer."""
    latency_s: float = 0.0
    """Of each call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a call stands: what acts without being asked for."""

    counter: int
    """Calls of the target so far."""
    session: int
    is_first: bool
    """First call of its process."""
    is_warm: bool
    """Whether its process saw this very prompt, mark included, before."""
    num_prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A cause at work in one call."""

    cause: Cause
    key: str
    """Calls of one key move alike."""
    flips_ties: bool = field(init=False)
    """Whether tokens move and bits do not."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "flips_ties", self.cause.factor == "pick")


def draw(*parts: object) -> int:
    """Draw 64 bits from what is named."""
    spelled = "\x1f".join(map(str, parts)).encode(errors="replace")
    return int.from_bytes(blake2b(spelled, digest_size=8).digest(), "little")


def draw_share(*parts: object) -> float:
    """Draw from [0, 1)."""
    return (draw(*parts) >> 11) / 2**53


Read = Callable[[Condition, Place], Any]
"""Gives the value of a factor, or None where it is as in the base."""
SPECIAL: Mapping[str, Read] = {
    "noise": lambda _, place: place.counter,
    "session": lambda _, place: place.session,
    "first": lambda _, place: place.is_first or None,
    "prefix": lambda _, place: place.is_warm or None,
    "scoring": lambda c, _: c.call.batch if c.call.scoring and c.call.batch > 1 else None,
    "batch": lambda c, _: c.call.batch if c.call.batch > 1 and not c.call.scoring else None,
}


def find_drifts(
    script: Script, condition: Condition, changed: Mapping[str, Any], place: Place
) -> tuple[Drift, ...]:
    """List the causes at work in a call.

    Args:
        changed: What the condition changes, as its `value` gives it.
    """
    found = []
    for number, cause in enumerate(script.causes):
        special = SPECIAL.get(cause.factor)
        value = special(condition, place) if special else changed.get(cause.factor)
        if value is None or not acts(script, cause, value, place, number):
            continue
        own = f"/{place.counter}" if cause.chance < 1 else ""
        found.append(Drift(cause=cause, key=f"{number}/{value}{own}"))
    return tuple(found)


def acts(script: Script, cause: Cause, value: Any, place: Place, number: int) -> bool:
    """Answer whether a cause whose factor is not as in the base acts on this call."""
    if cause.at_least and (not isinstance(value, int) or value < cause.at_least):
        return False
    if place.num_prompt_tokens < cause.prompt_tokens:
        return False
    return draw_share(script.seed, "chance", number, place.counter) < cause.chance


def read_script(text: str) -> Script:
    """Read a script such as "seed=3,batch:0.5,concurrency>=5:1@0.5/40".

    Parts are numbers of the script, or causes: factor, least value, size, chance and least prompt
    tokens, of which all but the factor may be left out.

    Raises:
        ConfigError: An unknown name, or a number that is none.
    """
    script: dict[str, Any] = {"causes": ()}
    kinds = {"seed": int, "latency_s": float, "mean_margin": float, "fails_after": int}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = part.partition("=")
        try:
            if name in kinds:
                script[name] = kinds[name](value)
            else:
                script["causes"] += (read_cause(part),)
        except ValueError as error:
            raise ConfigError(expected=f"a number in {part!r}", found=str(error)) from error
    return Script(**script)


def read_cause(text: str) -> Cause:
    """Read one cause."""
    found = CAUSE.fullmatch(text)
    if found is None or found["factor"] not in FACTORS:
        raise ConfigError(
            expected=f"a cause that starts with one of {', '.join(FACTORS)}", found=repr(text)
        )
    kinds = {"at_least": int, "size": float, "chance": float, "prompt_tokens": int}
    values = {name: kind(found[name]) for name, kind in kinds.items() if found[name]}
    return Cause(factor=found["factor"], **values)
