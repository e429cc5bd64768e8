"""A bench whose remedies differ as a test says, without any model."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from samebits.advise.ladder import HERE, Place, Rung
from samebits.advise.record import AdviceRecord
from samebits.advise.run import Options
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.errors import ConfigError, TargetStopped
from samebits.lock.facts import MachineFacts

MACHINE = MachineFacts(
    processor="p",
    architecture="x86_64",
    isa=("avx2",),
    cores=2,
    system="Linux",
    kernel="6",
    libc="glibc 2",
    python="CPython 3.11",
    packages={},
    pools=(),
    variables={},
)
PROMPTS = tuple(AuditPrompt(id=f"p{i}", text=f"text {i}") for i in range(5))
COMPANIONS = tuple(AuditPrompt(id=f"c{i}", text=f"other {i}") for i in range(16))
FACTS = TargetFacts(
    kind="hf", name="m", in_force={"dtype": "bfloat16"}, reports=(), threads=(2,), isas=("low",)
)


@dataclass
class Scripted:
    """What each remedy does in company and elsewhere."""

    tokens_move: frozenset[str] = frozenset()
    """Remedies under which company changes tokens."""
    bits_move: frozenset[str] = frozenset()
    elsewhere_moves: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()
    """Remedies that cannot be opened."""
    stopped: frozenset[tuple[str, str]] = frozenset()
    """Remedies and places whose process somebody ends."""
    missing: frozenset[str] = frozenset()
    """Remedies one answer of which is missing."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    opened: list[tuple[str, str]] = field(default_factory=list)
    groups: list[tuple[str, ...]] = field(default_factory=list)

    def refuse(self, rung: Rung) -> str:
        return self.refused.get(rung.key, "")

    @contextmanager
    def open(self, rung: Rung, place: Place) -> Iterator["Served"]:
        if rung.key in self.broken:
            raise ConfigError(expected="a model that this remedy takes", found="another")
        if (rung.key, place.key) in self.stopped:
            raise TargetStopped(expected="an answer", found="it was ended by SIGTERM")
        self.opened.append((rung.key, place.key))
        yield Served(self, rung.key, place)


@dataclass
class Served:
    script: Scripted
    key: str
    place: Place

    @property
    def facts(self) -> TargetFacts:
        return FACTS

    def ask(self, ask: Ask) -> Iterator[Answer]:
        self.script.groups.append(tuple(prompt.id for prompt in ask.prompts))
        in_company = len(ask.prompts) > 1
        elsewhere = self.place != HERE and self.key in self.script.elsewhere_moves
        for prompt in ask.prompts:
            moved = in_company and self.key in self.script.tokens_move and prompt.id == "p1"
            bits = moved or elsewhere or (in_company and self.key in self.script.bits_move)
            if self.key in self.script.missing and in_company and prompt.id == "p2":
                yield Answer(error="out of memory")
                continue
            yield Answer(
                text="t",
                token_ids=(1, 2 if moved else 3),
                steps=("a", "moved" if bits else "b"),
                num_tokens=2,
                elapsed_s=self.script.seconds.get(self.key, 1.0),
            )

    def settings(self) -> dict[str, Any]:
        return {"dtype": "bfloat16", "fired": 3}

    def peak_bytes(self) -> int | None:
        return 10**9


def make_options(*rungs: Rung) -> Options:
    return Options(
        rungs=rungs, prompts=PROMPTS, companions=COMPANIONS, batches=(2, 4), max_tokens=2
    )


def make_record(options: Options) -> AdviceRecord:
    asked = {
        "batches": list(options.batches),
        "max_tokens": options.max_tokens,
        "rungs": [rung.key for rung in options.rungs],
        "command": "samebits advise hf:m",
    }
    return AdviceRecord(
        version="0", asked=asked, target="hf:m", machine=MACHINE, prompts=options.prompts
    )
