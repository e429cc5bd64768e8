"""Which requests a cache answers, and which answers it keeps.

By default a request must be provably repeatable and its answer complete. Each refusal has a name,
which is told, counted, and may be allowed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from samebits.cache.answer import Answer
from samebits.cache.key import Request
from samebits.errors import ConfigError

COMPLETE = frozenset({"stop", "tool_calls"})
"""Finish reasons of a whole answer."""


class Refusal(StrEnum):
    """Why a cache leaves a request alone or does not keep its answer."""

    SAMPLED = "sampled"
    """No temperature 0, no seed, no draw asked by name: what is absent is the engine's choice."""
    DOUBTFUL = "doubtful"
    """Whoever asks knows a reason why equal requests may be answered otherwise."""
    UNKEYABLE = "unkeyable"
    """The request has no canonical form."""
    LENGTH = "length"
    """Cut off at the token limit."""
    UNFINISHED = "unfinished"
    """A finish reason that says of no whole answer, or none."""
    EMPTY = "empty"
    REFUSED = "refused"
    """The model declined."""
    ERROR = "error"
    TOO_LARGE = "too-large"
    """More than a share of the whole store."""
    NO_STORE = "no-store"
    """The caller said so."""


FIRM = frozenset({Refusal.UNKEYABLE, Refusal.TOO_LARGE, Refusal.NO_STORE})
"""What no policy can allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """A policy; what it allows, it allows for reading and writing.

    Raises:
        ConfigError: Something that cannot be allowed.
    """

    allow: frozenset[Refusal] = frozenset()
    """Refusals to overlook, such as Refusal.LENGTH."""

    def __post_init__(self) -> None:
        known = frozenset(Refusal) - FIRM
        if unknown := sorted(str(name) for name in frozenset(self.allow) - known):
            raise ConfigError(
                expected=f"refusals to allow among {', '.join(sorted(known))}",
                found=", ".join(unknown),
            )
        object.__setattr__(self, "allow", frozenset(map(Refusal, self.allow)))

    def refuse_request(self, request: Request) -> Refusal | None:
        """Name why a request is left alone; None: it is repeatable."""
        if request.doubt and Refusal.DOUBTFUL not in self.allow:
            return Refusal.DOUBTFUL
        is_named = request.is_draw and request.index is not None
        if is_named or is_repeatable(request.body) or Refusal.SAMPLED in self.allow:
            return None
        return Refusal.SAMPLED

    def refuse_answer(self, answer: Answer) -> Refusal | None:
        """Name why an answer is not kept; None: it is."""
        return next((why for why in find_flaws(answer) if why not in self.allow), None)


def is_repeatable(body: Mapping[str, Any]) -> bool:
    """Answer whether temperature 0 or a seed is given; null is not, and neither is false."""
    seed = body.get("seed")
    return is_greedy(body) or (seed is not None and not isinstance(seed, bool))


def is_greedy(body: Mapping[str, Any]) -> bool:
    """Answer whether temperature 0 is given."""
    temperature = body.get("temperature")
    return not isinstance(temperature, bool) and temperature == 0


def find_flaws(answer: Answer) -> list[Refusal]:
    """List what keeps an answer from being a whole one, the worst first."""
    ending = answer.ending
    reasons = set(ending.finish_reasons)
    checks = {
        Refusal.ERROR: bool(ending.error),
        Refusal.LENGTH: "length" in reasons,
        Refusal.UNFINISHED: not reasons or not reasons <= COMPLETE | {"length"},
        Refusal.EMPTY: ending.is_empty or not answer.body,
        Refusal.REFUSED: ending.is_refusal,
    }
    return [why for why, is_so in checks.items() if is_so]
