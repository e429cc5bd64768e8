"""One guarded request in one batch: what it asked, what was decided, what its report says.

vLLM also draws for prompts that are computed in parts, and throws these tokens away; a step counts
when its token was kept.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from samebits.errors import RequestError
from samebits.remedies.guard import Action, Counts, Decision, Escalate, Guard, LowestId, Oracle
from samebits.remedies.guard import Priority as PriorityAction
from samebits.remedies.vllm.arguments import Arguments

LISTED = 16
"""Candidates of a step that a report lists, the closest; all are counted."""


@dataclass(slots=True, kw_only=True, eq=False)
class Guarded:
    """A request while it is in the batch."""

    number: int
    """Of this worker's guarded requests, in order of arrival."""
    arguments: Arguments
    prompt: Sequence[int] | None
    """None if the prompt was given as vectors."""
    output: Sequence[int]
    """vLLM's own list, which grows."""
    guard: Guard
    plain: Guard
    """Decides where escalation fails."""
    counts: Counts = field(default_factory=Counts)
    fired: list[dict[str, Any]] = field(default_factory=list)
    unavailable: int = 0
    """Fired steps whose escalation failed and that took the lowest id."""
    unjudged: int = 0
    """Steps whose logits were not finite; they are vLLM's own."""
    pending: "Step | None" = None
    """Drawn, and not known to be kept."""

    @property
    def position(self) -> int:
        """Tokens so far, prompt included."""
        return len(self.prompt or ()) + len(self.output)

    @property
    def ids(self) -> list[int]:
        """The sequence so far, to be escalated.

        Raises:
            RequestError: There is no such thing.
        """
        if self.prompt is None:
            raise RequestError(expected="a prompt of token ids", found="vectors")
        return [*self.prompt, *self.output]

    def decide(self, logits: Any) -> "Step":
        """Decide a step in which tokens are too close to call.

        Args:
            logits: (V,), raw and float32, NumPy.
        Raises:
            UnsupportedInput: NaN or infinity among them.
        """
        if self.arguments.action != "escalate":
            return Step(self.plain_decision(logits, self.guard))
        try:
            return Step(self.guard.decide(logits, self.ids))
        except Exception as error:  # Passed on, it would end vLLM's engine, and every request.
            # What the plain guard refuses, too, was not escalation's doing.
            failure = f"{type(error).__name__}: {error}"
            return Step(self.plain_decision(logits, self.plain), failure=failure)

    def plain_decision(self, logits: Any, guard: Guard) -> Decision:
        """Decide by the candidates alone; the ids only tell the position."""
        return guard.decide(logits, [*(self.prompt or ()), *self.output])

    def note(self, step: "Step") -> None:
        """Remember the latest step; what came before it is kept if the output grew past it."""
        self.settle()
        self.pending = step

    def settle(self) -> None:
        """Count the pending step, if its token was kept."""
        step, self.pending = self.pending, None
        if step is None or step.decision.position >= self.position:
            return
        self.counts = self.counts.add(step.decision)
        self.unavailable += step.failure is not None
        self.unjudged += step.unjudged
        if step.decision.fired:
            self.fired.append(step.value(len(self.prompt or ())))

    def value(self) -> dict[str, Any]:
        """Give the report of the request as plain values: ids and numbers, no text."""
        self.settle()
        return {
            "request": self.number,
            "action": self.arguments.action,
            "epsilon": self.arguments.epsilon,
            "prompt_tokens": len(self.prompt or ()),
            **asdict(self.counts),
            "unavailable": self.unavailable,
            "unjudged": self.unjudged,
            "steps_fired": self.fired,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """A decision, and what became of it on the way."""

    decision: Decision
    failure: str | None = None
    """Why escalation failed, if it did."""
    unjudged: bool = False

    def value(self, prompt_len: int) -> dict[str, Any]:
        """Give the decision as plain values: place in the output, and the closest candidates."""
        decision = self.decision
        near = sorted(zip(decision.margins, decision.candidates, strict=True))[:LISTED]
        return {
            "output_position": decision.position - prompt_len,
            "token": decision.token,
            "argmax": decision.argmax,
            "num_candidates": len(decision.candidates),
            "candidates": [token for _, token in near],
            "margins": [margin for margin, _ in near],
            "drift": decision.drift,
            "failure": self.failure,
        }


def quiet_step(position: int, token: int, *, unjudged: bool) -> Step:
    """Make the step in which no other token came near, or whose logits say nothing."""
    decision = Decision(
        position=position, token=token, argmax=token, candidates=(token,), margins=(0.0,)
    )
    return Step(decision, unjudged=unjudged)


def make_action(arguments: Arguments, oracle: Oracle) -> Action:
    """Make what decides for a request."""
    if arguments.action == "escalate":
        return Escalate(oracle)
    return PriorityAction(arguments.priority) if arguments.priority else LowestId()
