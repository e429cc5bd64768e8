from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.audit.targets.http_stream import Event, EventReader

STREAM = (
    '\ufeffdata: {"a": 1}\r\n\r\n'
    ": a comment\n\n"
    "event: error\rdata: no\r\r"
    "data:ü\ndata:  two\nid: 7\nretry: 3\n\n"
    "event: empty\n\n"
    "data: [DONE]\r\n\r\n"
).encode()
EVENTS = [
    Event("message", '{"a": 1}'),
    Event("error", "no"),
    Event("message", "ü\n two"),
    Event("message", "[DONE]"),
]


def read(pieces: list[bytes]) -> list[Event]:
    reader = EventReader()
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.close()


def test_events_are_read_with_any_line_end_and_without_comments() -> None:
    assert read([STREAM]) == EVENTS


def test_a_stream_that_comes_byte_by_byte_gives_the_same_events() -> None:
    assert read([bytes([one]) for one in STREAM]) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
def test_a_stream_cut_anywhere_gives_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    assert read([STREAM[start:stop] for start, stop in pairwise(places)]) == EVENTS


def test_events_come_as_soon_as_they_are_whole() -> None:
    reader = EventReader()
    assert reader.feed(b"data: 1\n") == []
    assert reader.feed(b"\ndata: 2") == [Event("message", "1")]


def test_a_last_event_without_its_empty_line_counts() -> None:
    assert read([b"data: 1\n\ndata: 2"]) == [Event("message", "1"), Event("message", "2")]


def test_bytes_that_are_no_utf8_are_an_error() -> None:
    with pytest.raises(UnicodeDecodeError):
        read([b"data: \xff\n\n"])
