"""One round for what a first look did not find: join what is under way, compute the rest.

A call goes round again for those requests whose leader failed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from threading import local
from typing import NamedTuple, NoReturn

from samebits.cache.answer import Answer
from samebits.cache.control import Control
from samebits.cache.counts import Outcome
from samebits.cache.flights import Flights, Landing
from samebits.cache.shelf import Asked, Fetched, Shelf
from samebits.errors import ConfigError

Computed = Iterable[tuple[int, Answer]]
"""Places in a list of requests with their answers, in any order."""
Compute = Callable[[Sequence[int]], Computed]


class Sharing(NamedTuple):
    """Requests under way, and whether this thread computes one of them."""

    flights: Flights
    nesting: local
    """`depth`: calls that this thread is in the middle of computing."""


class Round:
    """What one round of a call finds.

    Attributes:
        missing: To be computed here, by place.
        led: Of these, what others may wait for, by key.
        joined: What others compute.
    """

    def __init__(self, shelf: Shelf, sharing: Sharing, control: Control) -> None:
        self.shelf = shelf
        self.sharing = sharing
        self.control = control
        self.missing: dict[int, Asked] = {}
        self.led: dict[bytes, Landing] = {}
        self.joined: list[tuple[Asked, Landing]] = []

    def go(
        self, asked: Sequence[Asked], compute: Compute, refuse: Callable[[Asked], NoReturn]
    ) -> tuple[dict[int, Fetched], list[Asked]]:
        """Answer what can be answered.

        Args:
            refuse: told what only the cache may answer and cannot.
        Returns:
            The answers by place, and the requests whose leader failed.
        """
        with ExitStack() as undo:
            done = {one.place: found for one in asked if (found := self.board(one, undo, refuse))}
            done |= self.compute(compute)
        return self.wait(done)

    def board(
        self, asked: Asked, undo: ExitStack, refuse: Callable[[Asked], NoReturn]
    ) -> Fetched | None:
        """Give what is kept, or note that a request is joined, led or computed alone."""
        key = asked.key.digest
        if self.may_share(asked):
            claim = self.sharing.flights.claim(key)
            if not claim.is_leader:
                self.joined.append((asked, claim.landing))
                return None
            self.led[key] = claim.landing
            undo.callback(self.sharing.flights.land, key, claim.landing, None)
        # Another leader may have kept it and gone since the first look.
        found = self.shelf.find(asked, self.control)
        if found is not None:
            self.land(asked, found.answer)
            return self.shelf.count(found)
        if self.control.only_if_cached:
            refuse(asked)
        self.missing[asked.place] = asked
        return None

    def may_share(self, asked: Asked) -> bool:
        """Answer whether an equal request under way may answer this one, or this one it."""
        # Who computes for others must not wait for others: two could wait for each other.
        is_nested = getattr(self.sharing.nesting, "depth", 0) > 0
        return not (asked.refusal or is_nested) and self.control.shares

    def land(self, asked: Asked, answer: Answer) -> None:
        """Give a finished answer to those who wait for it; a failure is not passed on."""
        landing = self.led.get(asked.key.digest)
        if landing is not None:
            shared = None if answer.ending.error else answer
            self.sharing.flights.land(asked.key.digest, landing, shared)

    def compute(self, compute: Compute) -> Mapping[int, Fetched]:
        """Compute what is missing; keep and share each answer as it comes.

        Raises:
            ConfigError: Another place is answered, or one is not.
        """
        if not self.missing:
            return {}
        nesting, done = self.sharing.nesting, {}
        nesting.depth = getattr(nesting, "depth", 0) + 1
        try:
            for place, answer in compute(sorted(self.missing)):
                if place not in self.missing:
                    raise refuse_places(self.missing, [place])
                asked = self.missing[place]
                done[place] = self.shelf.settle(asked, answer, self.control)
                self.land(asked, answer)
        finally:
            nesting.depth -= 1
        if len(done) < len(self.missing):
            raise refuse_places(self.missing, done)
        return done

    def wait(self, done: dict[int, Fetched]) -> tuple[dict[int, Fetched], list[Asked]]:
        """Wait for the leaders of what was joined."""
        left = []
        for asked, landing in self.joined:
            answer = landing.result()
            if answer is None:
                left.append(asked)
                continue
            done[asked.place] = self.shelf.count(
                Fetched(
                    answer=answer,
                    outcome=Outcome.JOINED,
                    key=asked.key.digest,
                    created_s=self.shelf.clock(),
                )
            )
        return done, left


def refuse_places(asked: Iterable[int], answered: Iterable[int]) -> ConfigError:
    """Make the error for a function that computes other places than it was given."""
    return ConfigError(
        expected=f"answers for the places {sorted(asked)}", found=f"answers for {sorted(answered)}"
    )
