"""The connection to an endpoint: requests, retries, pace, and what may go wrong on the way.

Every failure of the network becomes one of ours here. The key goes to the one address it was given
for, never further, and into no message.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urljoin, urlsplit

import aiohttp

from samebits.audit.targets.http_failures import ALL, Passing, check_status, translate
from samebits.audit.targets.http_stream import Event, EventReader
from samebits.audit.targets.http_wire import NoAnswer
from samebits.errors import TargetError
from samebits.lock.masking import mask

T = TypeVar("T")

CONNECT_S = 10.0
MAX_BACKOFF_S = 30.0
MAX_WAIT_S = 120.0
"""A server that asks for a longer pause ends the audit, which can be resumed."""
REPLY_LIMIT_BYTES = 32 << 20
MAX_REDIRECTS = 3
SHORTEST_KEY = 8
"""Characters: what is shorter, such as EMPTY, is no secret and may be a word of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """How to speak to an endpoint."""

    api_key: str | None = None
    timeout_s: float = 120.0
    """For a whole reply."""
    retries: int = 4
    rate_limit: float | None = None
    """Requests a second."""
    backoff_s: float = 0.5
    """Pause before the first retry; it doubles each time."""


class Raw(NamedTuple):
    """A reply as it came; events if it was a stream."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    events: tuple[Event, ...] | None
    elapsed_s: float


class Client:
    """Send requests to one endpoint, within one event loop.

    Attributes:
        link: How to speak to it.
    """

    def __init__(self, link: Link, seed: int = 0) -> None:
        """Open no connection yet; seed is that of the jitter of pauses."""
        self.link = link
        self._jitter = random.Random(seed)
        self._free_at = 0.0
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=link.timeout_s, sock_connect=CONNECT_S),
            # A compressed reply could be small on the wire and enormous here.
            headers={"Accept-Encoding": "identity", "User-Agent": "samebits"},
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def get(self, url: str, kinds: Sequence[str] = ALL) -> Raw:
        """Fetch an address; retry failures of the kinds named.

        Raises:
            Refused: Status 4xx.
            TargetError: It cannot be reached, or refuses the key.
        """
        return await self.insist(lambda: self._send("GET", url, None), kinds)

    async def post(self, url: str, body: Mapping[str, Any], kinds: Sequence[str] = ALL) -> Raw:
        """Send a request; as get."""
        return await self.insist(lambda: self._send("POST", url, body), kinds)

    async def post_together(
        self,
        url: str,
        make_bodies: Callable[[], Sequence[Mapping[str, Any]]],
        num_requests: int,
        stagger_s: float,
        kinds: Sequence[str] = ALL,
    ) -> list[Raw]:
        """Send requests at once, or one every stagger_s seconds; as get.

        If one fails, all are made and sent again: company is what was asked for, and what the
        server has begun to work on is no longer new to it.
        """

        async def start(place: int, body: Mapping[str, Any]) -> Raw:
            await asyncio.sleep(place * stagger_s)
            return await self._send("POST", url, body)

        async def attempt() -> list[Raw]:
            tasks = [asyncio.ensure_future(start(*pair)) for pair in enumerate(make_bodies())]
            try:
                return list(await asyncio.gather(*tasks))
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

        return await self.insist(attempt, kinds, num_requests)

    async def insist(
        self, attempt: Callable[[], Awaitable[T]], kinds: Sequence[str], num_requests: int = 1
    ) -> T:
        """Try until it succeeds or the retries are used up."""
        for tried in range(self.link.retries + 1):
            await self._pace(num_requests)
            try:
                return await attempt()
            except Passing as failure:
                if failure.kind not in kinds or tried == self.link.retries:
                    raise failure.lasting() from failure
                await asyncio.sleep(self._pause(failure, tried))
        raise AssertionError("a last try ends one way or the other")

    def _pause(self, failure: Passing, tried: int) -> float:
        """Give the pause in seconds: the server's, or ours with a jitter of a half."""
        if failure.after_s is not None:
            if failure.after_s > MAX_WAIT_S:
                raise TargetError(
                    expected=f"a pause of at most {MAX_WAIT_S:.0f} s",
                    found=f"the server asks for {failure.after_s:.0f} s",
                    remedy="Resume the audit later, or set a lower rate limit.",
                ) from failure
            return failure.after_s
        longest = min(MAX_BACKOFF_S, self.link.backoff_s * float(2**tried))
        return longest * (0.5 + self._jitter.random())

    async def _pace(self, num_requests: int) -> None:
        """Wait until the rate limit has room for so many requests."""
        if self.link.rate_limit is None:
            return
        now = time.monotonic()
        start = max(now, self._free_at)
        self._free_at = start + num_requests / self.link.rate_limit
        await asyncio.sleep(start - now)

    async def _send(self, method: str, url: str, body: Mapping[str, Any] | None) -> Raw:
        """Send one request, once; follow redirects within the same origin only."""
        where = url
        for _ in range(MAX_REDIRECTS + 1):
            raw = await self._exchange(method, where, body)
            if not 300 <= raw.status < 400:
                check_status(raw.status, raw.headers, raw.body, url=where, key=self.link.api_key)
                return raw
            where = self._redirect(method, where, raw)
        raise TargetError(
            expected=f"at most {MAX_REDIRECTS} redirects", found=f"more, starting at {url}"
        )

    def _redirect(self, method: str, url: str, raw: Raw) -> str:
        there = urljoin(url, raw.headers.get("Location", ""))
        is_same = urlsplit(there)[:2] == urlsplit(url)[:2]
        if is_same and there != url and (method == "GET" or raw.status in (307, 308)):
            return there
        raise TargetError(
            expected=f"an answer at {url}",
            found=f"status {raw.status}, a redirect to {mask(there)[:200]}",
            remedy="A key is not sent to another address: give that one if you trust it.",
        )

    async def _exchange(self, method: str, url: str, body: Mapping[str, Any] | None) -> Raw:
        key = self.link.api_key
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        start = time.perf_counter()
        try:
            async with self._http.request(
                method, url, json=body, headers=headers, allow_redirects=False
            ) as response:
                is_stream = response.content_type == "text/event-stream"
                read = _read_stream if is_stream else _read_body
                content, events = await read(response.content)
                elapsed_s = time.perf_counter() - start
                content, events = _hide(content, key), _hide_in_events(events, key)
                return Raw(response.status, response.headers, content, events, elapsed_s)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise translate(error, url, self.link.timeout_s) from error
        except UnicodeDecodeError as error:
            raise NoAnswer(expected="UTF-8 in the stream", found=str(error)[:100]) from error


def _hide(content: bytes, key: str | None) -> bytes:
    """Take the key out of a reply that says it back: what a record holds is for showing."""
    if key is None or len(key) < SHORTEST_KEY:
        return content
    return content.replace(key.encode(), b"(key)")


def _hide_in_events(events: tuple[Event, ...] | None, key: str | None) -> tuple[Event, ...] | None:
    if events is None:
        return None
    return tuple(Event(e.kind, _hide(e.data.encode(), key).decode()) for e in events)


async def _read_body(content: aiohttp.StreamReader) -> tuple[bytes, None]:
    parts = []
    num_bytes = 0
    async for chunk in content.iter_any():
        num_bytes = _check_size(num_bytes + len(chunk))
        parts.append(chunk)
    return b"".join(parts), None


async def _read_stream(content: aiohttp.StreamReader) -> tuple[bytes, tuple[Event, ...]]:
    reader = EventReader()
    events: list[Event] = []
    num_bytes = 0
    async for chunk in content.iter_any():
        num_bytes = _check_size(num_bytes + len(chunk))
        events += reader.feed(chunk)
    return b"", (*events, *reader.close())


def _check_size(num_bytes: int) -> int:
    if num_bytes > REPLY_LIMIT_BYTES:
        raise NoAnswer(
            expected=f"a reply of at most {REPLY_LIMIT_BYTES >> 20} MiB", found="a longer one"
        )
    return num_bytes
