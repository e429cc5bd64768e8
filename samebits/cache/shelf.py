"""Look requests up and keep answers, by the rules of admission and of the caller.

Whatever happens to the store, a request gets an answer: a failure to read is a miss, a failure to
write is told and counted. What is made for each request is a tuple: a hit costs microseconds.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from samebits.cache.admission import Admission, Refusal, is_greedy
from samebits.cache.answer import Answer, read_ending, spell_ending
from samebits.cache.control import Control
from samebits.cache.counts import Counts, Outcome
from samebits.cache.entry import DamagedEntry, Entry, Labels, TooLarge
from samebits.cache.fault import StoreFault
from samebits.cache.key import Key, Request, frame, make_key, unframe
from samebits.errors import RecordCorrupt, UnsupportedInput

LOG = logging.getLogger("samebits.cache")
NO_KEY = Key(b"", b"")


class OutputStore(Protocol):
    """What a cache needs of a store."""

    def get(self, key: bytes) -> Entry | None:
        """Read an entry; raises DamagedEntry or StoreFault."""
        ...

    def put(self, key: Key, entry: Entry, labels: Labels) -> int:
        """Keep an entry, give the number of others dropped; raises TooLarge or StoreFault."""
        ...


class Fetched(NamedTuple):
    """An answer, and how it was come by."""

    answer: Answer
    outcome: Outcome
    key: bytes
    """32 bytes; empty if the request has no canonical form."""
    created_s: float
    """When it was computed, in seconds since 1970."""
    refusal: Refusal | None = None
    """Why it was not kept, if admission or the caller was against it."""
    trouble: str = ""
    """Why it was not kept, if the store failed."""


class Asked(NamedTuple):
    """One of the requests of a call."""

    place: int
    request: Request
    key: Key
    refusal: Refusal | None
    """Why it is left alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """A store under rules. Frozen: other rules for the same store are another shelf."""

    store: OutputStore
    counts: Counts
    namespace: str
    """Who shares answers with whom."""
    admission: Admission
    ttl_s: float | None
    """Take no older entry."""
    clock: Callable[[], float]
    """Seconds since 1970."""

    def read(self, place: int, request: Request) -> Asked:
        """Make the key of a request, and ask admission."""
        refusal, key = self.admission.refuse_request(request), NO_KEY
        if request.is_draw and request.index and is_greedy(request.body):
            LOG.warning("draw %d at temperature 0: every draw is the same", request.index)
        try:
            key = make_key(request, self.namespace)
        except UnsupportedInput:
            refusal = Refusal.UNKEYABLE
        return Asked(place, request, key, refusal)

    def find(self, asked: Asked, control: Control, *, is_last: bool = True) -> Fetched | None:
        """Look a request up; None: it is to be computed.

        Args:
            is_last: no other look follows, so that what is wrong with the store is counted now.
        """
        if asked.refusal or control.no_cache:
            return None
        key = asked.key.digest
        try:
            entry = self.store.get(key)
            if entry is None or not self.is_fresh(entry, control):
                return None
            answer = read_answer(entry)
        except DamagedEntry:
            if is_last:
                self.counts.add("entries", "damaged")
                LOG.warning("entry %s is damaged: not served, computed again", key.hex())
            return None
        except StoreFault as fault:
            if is_last:
                self.counts.add("unread", fault.trouble)
                LOG.warning("the output cache was not read: %s", fault)
            return None
        return Fetched(answer, Outcome.HIT, key, entry.created_ms / 1000)

    def is_fresh(self, entry: Entry, control: Control) -> bool:
        """Answer whether an entry is young enough; one from the future has no age to trust."""
        if control.max_age_s is None and self.ttl_s is None:
            return True
        limits = [limit for limit in (control.max_age_s, self.ttl_s) if limit is not None]
        return 0 <= self.clock() - entry.created_ms / 1000 < min(limits)

    def settle(self, asked: Asked, answer: Answer, control: Control) -> Fetched:
        """Keep a computed answer if admission, caller and store let it; count what came of it."""
        created_s = self.clock()
        refusal, trouble = self.refuse(asked, answer, control), ""
        if refusal is None:
            refusal, trouble = self.write(asked, answer, created_s)
        if refusal is not None:
            self.counts.add("refused", refusal)
        computed = Outcome.BYPASSED if control.no_cache else Outcome.MISS
        fetched = Fetched(
            answer=answer,
            outcome=Outcome.REFUSED if asked.refusal else computed,
            key=asked.key.digest,
            created_s=created_s,
            refusal=refusal,
            trouble=trouble,
        )
        return self.count(fetched)

    def refuse(self, asked: Asked, answer: Answer, control: Control) -> Refusal | None:
        """Name why an answer is not to be kept."""
        if asked.refusal:
            return asked.refusal
        return Refusal.NO_STORE if control.no_store else self.admission.refuse_answer(answer)

    def write(self, asked: Asked, answer: Answer, created_s: float) -> tuple[Refusal | None, str]:
        """Write an answer; a failure is told, never raised."""
        try:
            ending = spell_ending(answer.ending)
        except UnsupportedInput:
            # Its error is no Unicode.
            return Refusal.ERROR, ""
        entry = Entry(int(created_s * 1000), ending, answer.body, frame(*answer.events))
        request = asked.request
        labels = Labels(self.namespace, request.surface, request.identity.weights)
        try:
            dropped = self.store.put(asked.key, entry, labels)
        except TooLarge:
            return Refusal.TOO_LARGE, ""
        except StoreFault as fault:
            self.counts.add("unstored", fault.trouble)
            LOG.warning("an answer was given and not kept: %s", fault)
            return None, fault.trouble
        if dropped:
            self.counts.add("entries", "evicted", dropped)
        return None, ""

    def count(self, fetched: Fetched) -> Fetched:
        """Count an outcome."""
        self.counts.add("outcome", fetched.outcome)
        return fetched


def read_answer(entry: Entry) -> Answer:
    """Give an entry as an answer.

    Raises:
        DamagedEntry: Its checksum fits and its format does not.
    """
    try:
        events = tuple(unframe(entry.events)) if entry.events else ()
        return Answer(entry.answer, events, read_ending(entry.ending))
    except RecordCorrupt as error:
        raise DamagedEntry from error
