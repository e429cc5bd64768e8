"""What may go wrong between a client and a server, and what it means for an audit.

Failures that may pass are Passing; the client retries them. The rest end one call or the audit.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from samebits.audit.targets.http_wire import NoAnswer, error_message, excerpt, parse
from samebits.errors import TargetError

CONNECT, BUSY, FAILED, LOST = "connect", "busy", "failed", "lost"
ALL = (CONNECT, BUSY, FAILED, LOST)
UNTOUCHED = (CONNECT, BUSY)
"""Failures after which the server has surely not worked on the request."""
MESSAGE_CHARS = 300
KEY_STATUSES = (401, 403)
NO_CREDIT = b"insufficient_quota"


class Refused(NoAnswer):
    """Report that the server refused a request (4xx).

    Attributes:
        status: HTTP status.
        said: The server's words.
    """

    def __init__(self, status: int, said: str) -> None:
        self.status = status
        self.said = said
        super().__init__(expected="an answer", found=f"status {status}: {said}")


class Passing(TargetError):
    """Report a failure that may pass.

    Attributes:
        kind: connect, busy, failed or lost.
        after_s: Pause that the server asks for; None if it does not.
    """

    def __init__(
        self, kind: str, *, found: str, remedy: str = "", after_s: float | None = None
    ) -> None:
        self.kind = kind
        self.after_s = after_s
        super().__init__(expected="an answer", found=found, remedy=remedy)

    def lasting(self) -> TargetError:
        """Give the error to end with.

        A server that cannot be reached or lets nothing in ends the audit, another ends one call.
        """
        kind = TargetError if self.kind in UNTOUCHED else NoAnswer
        return kind(expected=self.expected, found=self.found, remedy=self.remedy)


def check_status(
    status: int, headers: Mapping[str, str], body: bytes, *, url: str, key: str | None
) -> None:
    """Turn a status from 400 on into an error.

    Raises:
        TargetError: The key is refused, or credit is used up.
        Passing: Rate limited, or an error of the server.
        Refused: Any other.
    """
    if status < 400:
        return
    said = _read_said(body, key)
    if status in KEY_STATUSES:
        given = "no key was given" if key is None else "the key was refused"
        raise TargetError(
            expected="a key that the server takes",
            found=f"status {status} at {url}, {given}: {said}",
            remedy="Give the endpoint's API key, or check that it may use this model.",
        )
    if status == 429 and NO_CREDIT in body:
        raise TargetError(expected="credit left", found=f"status 429: {said}")
    after_s = read_retry_after(headers.get("Retry-After"))
    if status == 429:
        raise Passing(
            BUSY,
            found=f"status 429, rate limited: {said}",
            remedy="Set a lower rate limit or less concurrency, and resume.",
            after_s=after_s,
        )
    if status == 408 or (status >= 500 and status != 501):
        raise Passing(FAILED, found=f"status {status}: {said}", after_s=after_s)
    raise Refused(status, said)


def _read_said(body: bytes, key: str | None) -> str:
    """Give the server's words, without the key if it repeats it."""
    try:
        said = error_message(parse(body)) or excerpt(body)
    except NoAnswer:
        said = excerpt(body)
    return (said.replace(key, "(key)") if key else said)[:MESSAGE_CHARS]


def read_retry_after(text: str | None) -> float | None:
    """Read a pause in seconds, given as such or as a date; None if it is neither."""
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(text)
    except (ValueError, TypeError):
        return None
    zoned = when if when.tzinfo else when.replace(tzinfo=UTC)
    return max(0.0, (zoned - datetime.now(UTC)).total_seconds())


def translate(error: Exception, url: str, timeout_s: float) -> TargetError:
    """Name a failure of the network."""
    host = urlsplit(url).netloc
    return next(make(error, host, timeout_s) for kind, make in _ROWS if isinstance(error, kind))


def _bad_tls(error: Exception, host: str, _timeout_s: float) -> TargetError:
    return TargetError(
        expected=f"TLS with a certificate for {host}",
        found=f"{error!s:.200}",
        remedy="Check the certificate, or use http:// if the server speaks no TLS.",
    )


def _unreachable(error: Exception, host: str, _timeout_s: float) -> TargetError:
    is_unknown = isinstance(error, aiohttp.ClientConnectorDNSError)
    what = f"no host named {host}" if is_unknown else f"no connection to {host}"
    remedy = "Is the server running, and is the address right?"
    return Passing(CONNECT, found=f"{what} ({error!s:.150})", remedy=remedy)


def _too_slow(_error: Exception, _host: str, timeout_s: float) -> TargetError:
    remedy = "Set a longer timeout if the server is slow."
    return Passing(LOST, found=f"no whole reply in {timeout_s:g} s", remedy=remedy)


def _broken(error: Exception, host: str, _timeout_s: float) -> TargetError:
    found = f"the connection to {host} broke: {type(error).__name__} {error!s:.100}"
    return Passing(LOST, found=found)


_Make = Callable[[Exception, str, float], TargetError]
_ROWS: tuple[tuple[type[Exception], _Make], ...] = (
    (aiohttp.ClientConnectorCertificateError, _bad_tls),
    (aiohttp.ClientSSLError, _bad_tls),
    (aiohttp.ConnectionTimeoutError, _unreachable),
    (aiohttp.ClientConnectorError, _unreachable),
    (aiohttp.InvalidURL, _unreachable),
    (TimeoutError, _too_slow),
    (Exception, _broken),
)
"""The first that fits."""
