"""Equal requests under way share one computation: the first leads, the others join.

Knows keys and answers only. A joined request waits on a `concurrent.futures.Future`, so that a
thread can block on it and an event loop can wrap it.
"""

from concurrent.futures import Future
from threading import Lock
from typing import NamedTuple

from samebits.cache.answer import Answer
from samebits.cache.forks import watch

Landing = Future[Answer | None]
"""The leader's answer; None: it failed, and whoever waits asks again for itself."""


class Claim(NamedTuple):
    """A place in a flight."""

    is_leader: bool
    """It computes, and must call `land` whatever happens."""
    landing: Landing


class Flights:
    """The computations under way, by key."""

    def __init__(self) -> None:
        self.after_fork()
        watch(self)

    def before_fork(self) -> None:
        """Do nothing: leaders go on in the parent."""

    def after_fork(self) -> None:
        """Begin without flights: in a child no thread is left that would land them."""
        self.lock = Lock()
        self.landings: dict[bytes, Landing] = {}

    def claim(self, key: bytes) -> Claim:
        """Lead the computation of a key, or join the one under way."""
        with self.lock:
            landing = self.landings.get(key)
            if landing is not None:
                return Claim(False, landing)
            landing = self.landings[key] = Future()
            return Claim(True, landing)

    def land(self, key: bytes, landing: Landing, answer: Answer | None) -> None:
        """End a computation that this caller leads; once it has ended, nothing happens."""
        with self.lock:
            if self.landings.get(key) is not landing:
                return
            del self.landings[key]
        landing.set_result(answer)
