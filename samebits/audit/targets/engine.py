"""Our own engine as a target: what it can be made to do, said before any model is loaded.

The engine lives in a worker process (engine_session.py), since threads, variables and kernels are
chosen as a process starts; this side imports none of it.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.target import TargetFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What every session of a target starts from; see Engine.load."""

    model: str
    """Path of a GGUF file or a Hugging Face folder."""
    name: str = ""
    """What the model is called in the record; empty: its path."""
    arithmetic: str = "sb1"
    weights: str = "w16"
    threads: int | None = None
    max_isa: str | None = None
    kernels: str = "auto"
    ignore_eos: bool = False

    def value(self) -> dict[str, Any]:
        """Give the settings as plain values."""
        return asdict(self)


class Refusal(NamedTuple):
    """A condition that cannot be brought about."""

    reason: str
    matches: Callable[[Condition, TargetFacts], bool]


def has_company(call: Call) -> bool:
    """Answer whether a call has more than one sequence under way."""
    return call.batch > 1 or call.concurrency > 1 or call.n > 1


REFUSALS = (
    Refusal(
        "the engine keeps no prefix of an earlier request",
        lambda condition, _: condition.call.prefix is not None,
    ),
    Refusal("the engine never pads", lambda condition, _: condition.call.padding > 0),
    Refusal(
        "among equal logits the engine always takes the lowest id; "
        "an exact tie shows as a margin of zero",
        lambda condition, _: condition.call.pick == "highest",
    ),
    Refusal(
        "the engine compares raw logits, never their log-softmax",
        lambda condition, _: condition.call.pick == "log-softmax",
    ),
    Refusal(
        "the engine has one attention",
        lambda condition, _: condition.process.attention is not None,
    ),
    Refusal("the engine compiles nothing", lambda condition, _: condition.process.compile),
    Refusal(
        "sb1 is one contract: there is no other number format",
        lambda condition, facts: condition.process.dtype is not None and not facts.dtypes,
    ),
    Refusal(
        "the engine has no such arithmetic to compare with",
        lambda condition, facts: condition.process.dtype not in (None, *facts.dtypes),
    ),
    Refusal(
        "no such kernels besides those in force",
        lambda condition, facts: condition.process.isa not in (None, *facts.isas),
    ),
    Refusal(
        "this thread count cannot be brought into force",
        lambda condition, facts: condition.process.threads not in (None, *facts.threads),
    ),
    Refusal(
        "no kernels here read these variables",
        lambda condition, facts: condition.process.variables not in ((), *facts.variables),
    ),
    Refusal(
        "the engine scores one text at a time",
        lambda condition, _: condition.call.scoring and has_company(condition.call),
    ),
    Refusal(
        "without the cache the engine serves one sequence at a time",
        lambda condition, _: not condition.call.kv_cache and has_company(condition.call),
    ),
    Refusal(
        "a batch and concurrent requests are not brought about together",
        lambda condition, _: condition.call.batch > 1 and condition.call.concurrency > 1,
    ),
    Refusal(
        "the batch has no such row",
        lambda condition, _: condition.call.position >= condition.call.batch,
    ),
    Refusal(
        "more requests at once than make sense here",
        lambda condition, facts: condition.call.concurrency > facts.max_concurrency,
    ),
    Refusal(
        "the engine reports fewer log-probabilities",
        lambda condition, facts: (condition.call.logprobs or 0) > facts.max_logprobs,
    ),
    Refusal(
        "the model has no chat template",
        lambda condition, facts: (
            condition.call.clock is not None and facts.in_force.get("template") is None
        ),
    ),
)
"""In the order in which they are looked for."""


def refuse(condition: Condition, facts: TargetFacts) -> str:
    """Say why our engine cannot bring a condition about; empty if it can."""
    return next((item.reason for item in REFUSALS if item.matches(condition, facts)), "")


def list_variables(process: Process) -> tuple[tuple[str, str], ...]:
    """List the environment variables that bring a process about: those it names."""
    return process.variables
