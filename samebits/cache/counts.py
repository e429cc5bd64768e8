"""What a cache did, counted: each fetch has one outcome; what befell its answer stands beside."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from samebits.cache.forks import watch


class Outcome(StrEnum):
    """Where an answer came from."""

    HIT = "hit"
    """The store."""
    MISS = "miss"
    """It was computed, and kept if admission and store took it."""
    JOINED = "joined"
    """An equal request that was under way."""
    BYPASSED = "bypassed"
    """It was computed because the caller said no_cache."""
    REFUSED = "refused"
    """It was computed because admission leaves such requests alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Counts at one moment."""

    outcomes: Mapping[str, int]
    """By outcome; they add up to the number of fetches that were answered."""
    refused: Mapping[str, int]
    """Requests and answers that admission refused, by reason."""
    unstored: Mapping[str, int]
    """Answers that were given and could not be kept, by what the store said."""
    unread: Mapping[str, int]
    """Looks at the store that failed, by what the store said; each was a miss."""
    damaged: int
    """Entries found not to be what was written; each was a miss."""
    evicted: int
    """Entries dropped to stay within the size."""


class Counts:
    """Counters that threads share."""

    def __init__(self) -> None:
        self.counters: dict[str, dict[str, int]] = {
            kind: defaultdict(int)
            for kind in ("outcome", "refused", "unstored", "unread", "entries")
        }
        self.after_fork()
        watch(self)

    def before_fork(self) -> None:
        """Do nothing: a child goes on from the counts of its parent."""

    def after_fork(self) -> None:
        """Take a new lock: a thread that is no more may hold the old one."""
        self.lock = Lock()

    def add(self, kind: str, name: str, number: int = 1) -> None:
        """Count something of a kind."""
        with self.lock:
            self.counters[kind][name] += number

    def read(self) -> Tally:
        """Give the counts as they are now."""
        with self.lock:
            kinds = {kind: dict(sorted(counter.items())) for kind, counter in self.counters.items()}
        return Tally(
            outcomes={str(name): kinds["outcome"].get(name, 0) for name in Outcome},
            refused=kinds["refused"],
            unstored=kinds["unstored"],
            unread=kinds["unread"],
            damaged=kinds["entries"].get("damaged", 0),
            evicted=kinds["entries"].get("evicted", 0),
        )
