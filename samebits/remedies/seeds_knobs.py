"""What can be seeded without PyTorch, each with a way to read it and to put it back exactly."""

import random
import sys
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.remedies.seeds_report import SeedItem

HASHES = "PYTHONHASHSEED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """A generator, flag or variable of this process."""

    name: str
    read: Callable[[], Any]
    """Gives a copy of its state."""
    restore: Callable[[Any], object]
    """Puts such a state back."""
    turn: Callable[[int], object]
    """Sets it for a seed."""
    value: str
    """What it is set to, in words."""


def list_knobs() -> Iterator[Knob | SeedItem]:
    """List Python's and NumPy's global generators; an item says why one cannot be seeded."""
    yield Knob(
        name="random",
        read=random.getstate,
        restore=random.setstate,
        turn=random.seed,
        value="the seed",
    )
    name = "numpy.random"
    generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
    if isinstance(generator, np.random.MT19937):
        yield Knob(
            name=name,
            read=np.random.get_state,
            restore=np.random.set_state,
            turn=np.random.seed,
            value="the seed",
        )
    else:
        why = "its bit generator was replaced by one that cannot be seeded again"
        yield SeedItem(name=name, why=why)


def list_hash_gaps(variables: MutableMapping[str, str] | None) -> Iterator[SeedItem]:
    """Say what is known of the seed of hashes, which only a start of Python can set."""
    if not sys.flags.hash_randomization:
        return
    given = (variables or {}).get(HASHES, "")
    if given.isdecimal():
        why = f"the variable says {given}, which holds only if Python was started with it"
    else:
        why = (
            "Python reads it once, at its start; run: PYTHONHASHSEED=0 python ..., or samebits run"
        )
    yield SeedItem(name=HASHES, why=why)
