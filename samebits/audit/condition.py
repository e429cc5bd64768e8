"""How an answer is brought about: what an audit changes, one thing at a time.

A Condition is everything but the prompt. Its key is its spelling in records; two conditions with
the same key are the same. Knows nothing of targets: each says which conditions it can bring about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from samebits.record.canonical import canonical_bytes
from samebits.record.typed import plain_value, read_typed


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """What acts only while a process starts; a target opens a session for each."""

    instance: int = 0
    """Processes that differ in this alone are set up alike: the restart axis."""
    threads: int | None = None
    """None leaves what the target was asked for, here and below."""
    dtype: str | None = None
    attention: str | None = None
    compile: bool = False
    isa: str | None = None
    variables: tuple[tuple[str, str], ...] = ()
    """Environment variables set for the process, in order of name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What is chosen for each call. The defaults are the base condition: greedy, alone, whole."""

    batch: int = 1
    """Rows computed together in one call that the caller composes; companions are copies of the
    prompt, hence of equal length, unless `neighbours` says otherwise."""
    position: int = 0
    """Row of the batch that is observed."""
    neighbours: str = "copies"
    """copies: of the prompt itself; others: other texts of the same length in tokens where the
    target can count them; more: other texts again."""
    padding: int = 0
    """Pad tokens before the prompt."""
    concurrency: int = 1
    """Requests under way at once; what runs beside is as `neighbours` says."""
    stagger_ms: int = 0
    """Delay between the starts of concurrent requests."""
    prefix: str | None = None
    """cold: no part of the prompt has been seen before; warm: the prompt was just seen; None: not
    controlled. A target that cannot drop its cache makes the prompt new with a mark before it,
    the same in all calls of one block."""
    first: str | None = None
    """first: the first call of a fresh process; later: the same process, afterwards."""
    chunk_tokens: int | None = None
    """Prompt tokens a pass."""
    kv_cache: bool = True
    logprobs: int | None = None
    """Alternatives asked for; 0 asks for no log-probabilities; None: the target's richest."""
    stream: bool = False
    n: int = 1
    seed: str = "absent"
    """absent, null, or a decimal number."""
    temperature: float = 0.0
    neighbour_seed: int | None = None
    """Seed of sampled requests that run beside; None: they are as the observed one."""
    clock: str | None = None
    """What the chat template is told the time is, ISO 8601; None: the target's own."""
    pick: str = "lowest"
    """Among equal logits: lowest or highest id; log-softmax: greatest after a log-softmax in the
    model's dtype."""
    scoring: bool = False
    """Score the prompt's own tokens instead of generating."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A process and a call."""

    process: Process = field(default_factory=Process)
    call: Call = field(default_factory=Call)

    @property
    def key(self) -> str:
        """Spell what differs from the base, canonically; "{}" is the base."""
        return canonical_bytes(self.value()).decode()

    def value(self) -> dict[str, Any]:
        """Give what differs from the base as plain values."""
        found: dict[str, Any] = plain_value(self.process) | plain_value(self.call)
        return found

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> "Condition":
        """Read what `value` gave.

        Raises:
            RecordCorrupt: An unknown name, or a value of another type.
        """
        mine = {name: item for name, item in value.items() if name in PROCESS_NAMES}
        rest = {name: item for name, item in value.items() if name not in PROCESS_NAMES}
        return cls(
            process=read_typed(Process, mine, "a condition"),
            call=read_typed(Call, rest, "a condition"),
        )


PROCESS_NAMES = frozenset(item.name for item in fields(Process))
