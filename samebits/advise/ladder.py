"""The ladder: remedies from none to an engine without the cause, and the company they are tried in.

Plain values; session.py brings them about in a worker process.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import TargetFacts
from samebits.errors import ConfigError


class Basis(StrEnum):
    """Why a remedy holds, as far as it does."""

    NONE = "nothing holds it"
    MEASURED = "measured only"
    ALONE = "nothing is computed beside it"
    CHECKED = "one shape for all, checked at the start"
    REPLAYED = "the first answer is kept, whatever it was"
    INTEGERS = "sums of integers have no order"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One remedy, or none."""

    key: str
    basis: Basis
    serve: str
    """Names what serves requests, one of session.SERVERS."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """For the server, as plain values."""
    is_pinned: bool = False
    """Whether threads and instruction set are part of the remedy, hence the same elsewhere."""


NOTHING = "nothing"
RUNGS = (
    Rung(key=NOTHING, basis=Basis.NONE, serve="batch"),
    Rung(key="seeds", basis=Basis.NONE, serve="batch", settings={"seed": 0}),
    Rung(key="environment", basis=Basis.MEASURED, serve="batch", is_pinned=True),
    Rung(key="isolation", basis=Basis.ALONE, serve="stable", settings={"shape": "alone"}),
    Rung(key="fixed-shape", basis=Basis.CHECKED, serve="stable", settings={"shape": "fixed"}),
    Rung(key="float32", basis=Basis.MEASURED, serve="batch", settings={"precision": "float32"}),
    Rung(key="float64", basis=Basis.MEASURED, serve="batch", settings={"precision": "float64"}),
    Rung(key="guard-lowest", basis=Basis.MEASURED, serve="guard", settings={"action": "lowest"}),
    Rung(
        key="guard-priority", basis=Basis.MEASURED, serve="guard", settings={"action": "priority"}
    ),
    Rung(key="guard-alone", basis=Basis.MEASURED, serve="guard", settings={"action": "alone"}),
    Rung(key="guard-precise", basis=Basis.MEASURED, serve="guard", settings={"action": "precise"}),
    Rung(key="guard-sb1", basis=Basis.MEASURED, serve="guard", settings={"action": "sb1"}),
    Rung(key="cache", basis=Basis.REPLAYED, serve="cache"),
    Rung(key="sb1", basis=Basis.INTEGERS, serve="engine", settings={"arithmetic": "sb1"}),
)
"""From nothing to no cause at all."""


def choose_rungs(keys: Sequence[str] | None) -> tuple[Rung, ...]:
    """Choose rungs by key, in the order of the ladder; what all are compared with is always there.

    Raises:
        ConfigError: A key that is none.
    """
    known = [rung.key for rung in RUNGS]
    if unknown := sorted(set(keys or ()) - set(known)):
        raise ConfigError(expected=f"strategies among {', '.join(known)}", found=", ".join(unknown))
    return tuple(rung for rung in RUNGS if keys is None or rung.key in (NOTHING, *keys))


class Place(NamedTuple):
    """A process to answer in."""

    key: str
    threads: int | None = None
    isa: str | None = None


HERE = Place("here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrangement:
    """How the prompts are put to a server."""

    key: str
    place: Place = HERE
    batch: int = 1
    """Requests that come together."""
    is_reversed: bool = False

    @property
    def is_company(self) -> bool:
        """Answer whether only the company differs from the first arrangement, not the place."""
        return self.place == HERE


FIRST = Arrangement(key="alone")
"""What all others are held against."""


def list_company(batches: Sequence[int]) -> tuple[Arrangement, ...]:
    """List the arrangements of one process: alone, in company, alone again."""
    largest = max(batches)
    return (
        FIRST,
        *(Arrangement(key=f"batch {size}", batch=size) for size in batches),
        Arrangement(key=f"batch {largest}, reversed", batch=largest, is_reversed=True),
        Arrangement(key="alone again"),
    )


def list_elsewhere(facts: TargetFacts) -> Iterator[Arrangement]:
    """List other processes: another number of threads, a lower instruction set."""
    if facts.threads:
        yield Arrangement(
            key=f"threads {facts.threads[0]}", place=Place("threads", threads=facts.threads[0])
        )
    if facts.isas:
        yield Arrangement(key=f"isa {facts.isas[0]}", place=Place("isa", isa=facts.isas[0]))


def group(
    arrangement: Arrangement,
    prompts: Sequence[AuditPrompt],
    companions: Sequence[AuditPrompt],
) -> list[tuple[AuditPrompt, ...]]:
    """Put prompts into groups of one size; the last is filled with companions.

    Raises:
        ConfigError: There are too few companions.
    """
    ordered = list(prompts)[:: -1 if arrangement.is_reversed else 1]
    short = -len(ordered) % arrangement.batch
    if short > len(companions):
        raise ConfigError(
            expected=f"{short} companions to fill a batch of {arrangement.batch}",
            found=str(len(companions)),
            remedy="Give more prompts, or smaller batches.",
        )
    filled = [*ordered, *companions[:short]]
    return [
        tuple(filled[start : start + arrangement.batch])
        for start in range(0, len(filled), arrangement.batch)
    ]
