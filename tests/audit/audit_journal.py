"""Journals for tests of the runner: kept in memory, cut off anywhere."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from samebits.audit.observation import Observation
from samebits.audit.plan import AuditOptions, Plan
from samebits.audit.probe import Probe
from samebits.audit.progress import Progress
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import AuditRecord, End, NotTested, Opened, Resumed
from samebits.audit.run import run_audit
from samebits.audit.target import Target
from tests.audit.audit_records import make_header

WORDS = ("one", "each", "any", "such", "most")
Place = tuple[str, str, int, int]


def make_prompts(num: int = 16) -> tuple[AuditPrompt, ...]:
    """Make prompts of 8 tokens and more, each longer than the one before."""
    return tuple(
        AuditPrompt(id=f"p{i}", text=" ".join([f"number {i} of", *WORDS, *["word"] * i]))
        for i in range(num)
    )


def make_options(**changes: Any) -> AuditOptions:
    """Make options of 16 prompts and 12 tokens."""
    fields: dict[str, Any] = {
        "prompts": make_prompts(),
        "companions": (AuditPrompt(id="c", text="beside"),),
        "nonce": "n",
        "max_tokens": 12,
    }
    return AuditOptions(**{**fields, **changes})


@dataclass
class Memory:
    """Keeps what an audit writes."""

    past: AuditRecord | None = None
    plan: Plan | None = None
    options: AuditOptions | None = None
    items: list[Any] = field(default_factory=list)
    end: End | None = None
    progress: list[Progress] = field(default_factory=list)

    def append(self, item: Any) -> None:
        self.items.append(item)

    def of(self, kind: type) -> Iterator[Any]:
        return (item for item in self.items if isinstance(item, kind))

    @property
    def observations(self) -> list[Observation]:
        return list(self.of(Observation))

    @property
    def notes(self) -> dict[str, dict[str, Any]]:
        return {note["name"]: note for note in self.of(dict)}

    def record(self) -> AuditRecord:
        """Give everything kept so far, earlier attempts included."""
        assert self.plan is not None
        assert self.options is not None
        header = make_header(
            nonce=self.options.nonce,
            target=self.plan.facts,
            prompts=self.options.prompts,
            axes=self.options.axis_keys,
            asked={"detect": self.options.detect},
        )
        old = self.past or AuditRecord(header=header, digest="sha256:00")
        resumed = (Resumed(attempt=old.attempt + 1),) if self.past else ()
        return replace(
            old,
            observations=(*old.observations, *self.of(Observation)),
            sessions=(*old.sessions, *self.of(Opened)),
            not_tested=(*old.not_tested, *self.of(NotTested)),
            probes=(*old.probes, *self.of(Probe)),
            notes=(*old.notes, *self.of(dict)),
            ends=(*old.ends, *self.of(End)),
            resumed=(*old.resumed, *resumed),
            is_ended=any(self.of(End)),
        )


def run(
    target: Target,
    options: AuditOptions | None = None,
    *,
    past: AuditRecord | None = None,
    tell: Callable[[Progress], None] | None = None,
    journal: Memory | None = None,
    **settings: Any,
) -> Memory:
    """Run an audit and give its journal."""
    memory = journal or Memory()
    memory.past, memory.options = past, options or make_options()

    def begin(plan: Plan) -> Memory:
        memory.plan = plan
        return memory

    def keep(progress: Progress) -> None:
        memory.progress.append(progress)
        if tell is not None:
            tell(progress)

    memory.end = run_audit(memory.options, target, begin, tell=keep, past=past, **settings)
    return memory


def places(record: AuditRecord) -> set[Place]:
    """List the answers of a record, whichever attempt gave them."""
    return {(seen.condition, seen.prompt, seen.round, seen.repeat) for seen in record.observations}
