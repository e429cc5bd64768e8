"""Server-sent events: bytes that arrive cut anywhere, to events.

Knows nothing of what the events say. Format: the HTML standard, "Server-sent events".
"""

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event."""

    kind: str
    """"message" unless the server names another, such as "error"."""
    data: str


class EventReader:
    """Take bytes as they come and give the events that are whole."""

    __slots__ = ("_data", "_is_first", "_kind", "_parts")

    def __init__(self) -> None:
        """Begin a stream."""
        self._parts: list[bytes] = []
        self._data: list[str] = []
        self._kind = ""
        self._is_first = True

    def feed(self, chunk: bytes) -> list[Event]:
        """Take the next bytes.

        Raises:
            UnicodeDecodeError: A line is no UTF-8.
        """
        self._parts.append(chunk)
        if b"\n" not in chunk and b"\r" not in chunk and not self._ends_in_return(1):
            return []
        raw = b"".join(self._parts)
        # A carriage return at the very end may be half of a line end.
        held = b"\r" if raw.endswith(b"\r") else b""
        *lines, rest = _LINE_END.split(raw.removesuffix(held))
        self._parts = [rest + held]
        return self._take_lines(lines)

    def close(self) -> list[Event]:
        """End the stream: an event that lacks its empty line counts too.

        Raises:
            UnicodeDecodeError: A line is no UTF-8.
        """
        lines = _LINE_END.split(b"".join(self._parts))
        self._parts = []
        return self._take_lines([*lines, b""])

    def _ends_in_return(self, place: int) -> bool:
        return len(self._parts) > place and self._parts[-1 - place].endswith(b"\r")

    def _take_lines(self, lines: list[bytes]) -> list[Event]:
        events = [self._take_line(line) for line in lines]
        return [event for event in events if event is not None]

    def _take_line(self, line: bytes) -> Event | None:
        if self._is_first:
            line, self._is_first = line.removeprefix(_BOM), False
        if not line:
            return self._end_event()
        name, _, value = line.decode("utf-8").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        return None

    def _end_event(self) -> Event | None:
        event = Event(self._kind or "message", "\n".join(self._data)) if self._data else None
        self._data, self._kind = [], ""
        return event
