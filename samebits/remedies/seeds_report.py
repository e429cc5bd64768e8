"""What seeding did, what it could not do and why; and what one seed never reaches."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

NOT_COVERED = (
    "Generators that a program makes for itself (random.Random, numpy.random.default_rng, "
    "torch.Generator) have seeds of their own.",
    "Threads draw from the same generators, in whatever order they run.",
    "DataLoader workers are seeded by PyTorch from its generator: repeatable for the same number "
    "of workers, other random numbers for another number.",
    "Other processes, and devices other than the CPU, CUDA and MPS, are not seeded.",
    "A seed fixes random numbers only: batch size, threads, instruction set, hardware and versions "
    "still move results that use none.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedItem:
    """One generator, flag or variable."""

    name: str
    value: str = ""
    """What it was set to; empty if it was not."""
    why: str = ""
    """Why it was not set, and what to do; empty if it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedReport:
    """What was set for a seed, and what was not."""

    seed: int
    set: tuple[SeedItem, ...]
    not_set: tuple[SeedItem, ...]
    not_covered: tuple[str, ...] = field(default=NOT_COVERED)

    def as_dict(self) -> dict[str, Any]:
        """Give plain values."""
        return {
            "seed": self.seed,
            "set": {item.name: item.value for item in self.set},
            "not_set": {item.name: item.why for item in self.not_set},
            "not_covered": list(self.not_covered),
        }

    def sentences(self) -> tuple[str, ...]:
        """Give one sentence for each thing set, not set and not covered, in this order."""
        return (*self._list_items(), *self.not_covered)

    def __str__(self) -> str:
        """Give the sentences, each on a line."""
        return "\n".join(self.sentences())

    def _list_items(self) -> Iterator[str]:
        for item in self.set:
            yield f"{item.name} was set to {item.value}."
        for item in self.not_set:
            yield f"{item.name} was not set: {item.why}."
