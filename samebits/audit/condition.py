"""How an answer is brought about: what an audit changes, one thing at a time.

A Condition is everything but the prompt. Its key is its spelling in records; two conditions with
the same key are the same. Knows nothing of targets: each says which conditions it can bring about.
"""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from samebits.errors import RecordCorrupt
from samebits.record.canonical import canonical_bytes


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
        return changed(self.process) | changed(self.call)

    @classmethod
    def from_value(cls, value: Mapping[str, Any]) -> "Condition":
        """Read what `value` gave.

        Raises:
            RecordCorrupt: An unknown name, or a value of another type.
        """
        left = dict(value)
        process, call = take(Process, left), take(Call, left)
        if left:
            raise RecordCorrupt(expected="known factors in a condition", found=", ".join(left))
        return cls(process=process, call=call)


def default_of(item: Any) -> Any:
    """Give the default of a dataclass field."""
    return item.default if item.default is not MISSING else item.default_factory()


def changed(part: Process | Call) -> dict[str, Any]:
    """Give the fields that differ from their defaults."""
    values = {item.name: getattr(part, item.name) for item in fields(part)}
    return {f.name: values[f.name] for f in fields(part) if values[f.name] != default_of(f)}


def take(kind: Any, left: dict[str, Any]) -> Any:
    """Build a Process or a Call from the names it knows, which leave `left`."""
    found = {f.name: left.pop(f.name) for f in fields(kind) if f.name in left}
    try:
        if "variables" in found:
            found["variables"] = tuple((str(name), str(text)) for name, text in found["variables"])
    except (TypeError, ValueError) as error:
        raise RecordCorrupt(expected="variables: pairs of texts", found=str(error)) from error
    for f in fields(kind):
        if f.name in found and not fits(found[f.name], f.type):
            raise RecordCorrupt(expected=f"{f.name}: {f.type}", found=repr(found[f.name]))
    return kind(**found)


def fits(value: Any, annotation: Any) -> bool:
    """Answer whether a value has the type its field declares."""
    kinds: dict[str, tuple[type, ...]] = {
        "int": (int,),
        "str": (str,),
        "float": (int, float),
        "None": (type(None),),
    }
    names = str(getattr(annotation, "__name__", annotation)).split(" | ")
    if isinstance(value, tuple):
        return any("tuple" in name for name in names) or "tuple" in str(annotation)
    if isinstance(value, bool):
        return "bool" in names
    return any(isinstance(value, kinds[name]) for name in names if name in kinds)
