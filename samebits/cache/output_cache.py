"""The cache that users open: key, admission, store and requests under way in one.

Knows neither engines nor HTTP.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import local
from types import TracebackType
from typing import NoReturn, Self

from samebits.cache.admission import Admission
from samebits.cache.answer import Answer
from samebits.cache.control import Control
from samebits.cache.counts import Counts, Tally
from samebits.cache.flights import Flights
from samebits.cache.key import Request
from samebits.cache.nearest import refuse_uncached
from samebits.cache.sharing import Compute, Round, Sharing
from samebits.cache.shelf import Asked, Fetched, Shelf
from samebits.cache.store import MAX_BYTES, SqliteStore
from samebits.errors import ConfigError


class OutputCache:
    """Keep answers, and give them again to equal requests, byte for byte.

        cache = OutputCache.open("answers.sqlite3", max_bytes=2**30)
        identity = Identity(weights=..., tokenizer=..., template=None, setting={"dtype": "bf16"})
        request = Request(
            surface="my-model/generate/v1",
            body={"prompt_ids": [1, 2, 3], "temperature": 0, "max_new_tokens": 64},
            identity=identity,
        )

        def compute() -> Answer:
            text, reason = run(...)
            ending = Ending(finish_reasons=(reason,), is_empty=not text)
            return Answer(body=canonical_bytes({"text": text}), ending=ending)

        fetched = cache.fetch(request, compute)
        parse_json(fetched.answer.body), fetched.outcome, fetched.refusal

    A request is answered from the cache if it is provably repeatable: temperature 0 or a seed in
    its body, and no `doubt`. An answer is kept if it is whole: finish reason "stop", not empty, no
    error; `Admission` may allow more. An answer is given whatever happens to the store. Threads and
    processes may share one; after a fork the child goes on with connections of its own.

    Attributes:
        store: The file. shelf: The store under this cache's rules.
        control: For calls that bring none.
    """

    def __init__(
        self,
        store: SqliteStore,
        *,
        namespace: str = "",
        admission: Admission | None = None,
        control: Control | None = None,
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Build a cache on an open store; `OutputCache.open` opens one, too.

        Raises:
            ConfigError: `ttl_s` is not above 0.
        """
        # Not `<= 0`, which NaN passes.
        if ttl_s is not None and not ttl_s > 0:
            raise ConfigError(expected="ttl_s: above 0 seconds, or None", found=repr(ttl_s))
        self.store = store
        self.control = control or Control()
        self.sharing = Sharing(Flights(), local())
        self.shelf = Shelf(
            store=store,
            counts=Counts(),
            namespace=namespace,
            admission=admission or Admission(),
            ttl_s=ttl_s,
            clock=clock,
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        max_bytes: int = MAX_BYTES,
        namespace: str = "",
        admission: Admission | None = None,
        control: Control | None = None,
        ttl_s: float | None = None,
    ) -> Self:
        """Open a cache in a file; it is made if nothing is there.

        Args:
            max_bytes: size that the file is held to, at least 128 KiB; the least recently used
                entries are dropped. namespace: who shares answers with whom.
            admission: what is answered and kept. control: for calls that bring none.
            ttl_s: take no older entry.
        Raises:
            ConfigError: A foreign file, another version, a place where none can be made, or `ttl_s`
                not above 0.
            RecordCorrupt: It is damaged at its root.
            StoreFault: SQLite cannot open it.
        """
        return cls(
            SqliteStore(path, max_bytes=max_bytes),
            namespace=namespace,
            admission=admission,
            control=control,
            ttl_s=ttl_s,
        )

    def derive(
        self,
        *,
        namespace: str | None = None,
        admission: Admission | None = None,
        control: Control | None = None,
    ) -> Self:
        """Give a view of the same store, counts and requests under way, with other rules."""
        view = type(self).__new__(type(self))
        view.__dict__.update(self.__dict__)
        view.control = control or self.control
        view.shelf = replace(
            self.shelf,
            namespace=self.shelf.namespace if namespace is None else namespace,
            admission=admission or self.shelf.admission,
        )
        return view

    def fetch(
        self, request: Request, compute: Callable[[], Answer], *, control: Control | None = None
    ) -> Fetched:
        """Answer a request from the store, from an equal one under way, or by computing it.

        Raises:
            NotCached: Only a kept answer was allowed and there is none; names what differs from
                the nearest one.
            BaseException: Whatever `compute` raises; equal requests then try for themselves.
        """
        rules, asked = control or self.control, self.shelf.read(0, request)
        found = self.shelf.find(asked, rules, is_last=False)
        if found:
            return self.shelf.count(found)
        return self.go_round([asked], lambda _: [(0, compute())], rules)[0]

    def fetch_all(
        self, requests: Sequence[Request], compute: Compute, *, control: Control | None = None
    ) -> list[Fetched]:
        """Answer several requests; those that are missing are computed in one call.

        Args:
            compute: given the places in `requests` to compute, ascending; gives each of them with
                its answer, as a generator if answers are to be kept as they come.
        Returns:
            One a request, in order.
        Raises:
            As `fetch`; what was computed until then is kept.
        """
        rules = control or self.control
        asked = [self.shelf.read(place, request) for place, request in enumerate(requests)]
        found = [self.shelf.find(one, rules, is_last=False) for one in asked]
        done = {place: self.shelf.count(one) for place, one in enumerate(found) if one}
        done |= self.go_round([one for one in asked if one.place not in done], compute, rules)
        return [done[one.place] for one in asked]

    def go_round(
        self, asked: Sequence[Asked], compute: Compute, control: Control
    ) -> dict[int, Fetched]:
        """Join or compute what was not found, until every request has its answer."""
        done: dict[int, Fetched] = {}
        left = list(asked)
        while left:
            one = Round(self.shelf, self.sharing, control)
            answered, left = one.go(left, compute, self.refuse_missing)
            done |= answered
        return done

    def look(self, request: Request, *, control: Control | None = None) -> Fetched | None:
        """Give what is kept for a request; None: compute it, and then call `keep`.

        For streams: whoever reads one may stop, so nobody is made to wait for it.

        Raises:
            NotCached: As for `fetch`.
        """
        rules = control or self.control
        asked = self.shelf.read(0, request)
        found = self.shelf.find(asked, rules)
        if found is None and rules.only_if_cached:
            self.refuse_missing(asked)
        return self.shelf.count(found) if found else None

    def keep(self, request: Request, answer: Answer, *, control: Control | None = None) -> Fetched:
        """Keep an answer that was computed after `look` gave None."""
        return self.shelf.settle(self.shelf.read(0, request), answer, control or self.control)

    def refuse_missing(self, asked: Asked) -> NoReturn:
        """Refuse a request that only the store may answer, with the nearest that it has."""
        raise refuse_uncached(asked, self.store)

    def tally(self) -> Tally:
        """Give the counts since this cache was opened."""
        return self.shelf.counts.read()

    def close(self) -> None:
        """Close the store."""
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
