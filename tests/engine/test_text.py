"""Text and stop strings do not depend on how the text is cut into pieces."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samebits.engine.text import StopMatcher, TextStream
from tests.engine.tiny import ByteTokenizer

LETTERS = st.text("ab", max_size=12)
STOPS = st.lists(st.text("ab", min_size=1, max_size=7), max_size=4)
PIECES = st.lists(LETTERS, max_size=6)


def cut_by_letter(text: str, stops: list[str]) -> tuple[str, bool]:
    """Say what reading letter by letter finds: the definition."""
    for end in range(len(text) + 1):
        found = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if found:
            return text[: min(found)], True
    return text, False


@settings(max_examples=400, deadline=None)
@given(PIECES, STOPS)
def test_any_cut_gives_what_reading_by_letter_gives(pieces: list[str], stops: list[str]) -> None:
    matcher, given_out = StopMatcher(stops), ""
    for piece in pieces:
        given_out += matcher.push(piece)
        if matcher.is_stopped:
            break
    given_out += matcher.finish()
    assert (given_out, matcher.is_stopped) == cut_by_letter("".join(pieces), stops)


@settings(max_examples=400, deadline=None)
@given(PIECES, STOPS)
def test_what_was_given_is_never_taken_back(pieces: list[str], stops: list[str]) -> None:
    whole, _ = cut_by_letter("".join(pieces), stops)
    matcher, given_out = StopMatcher(stops), ""
    for piece in pieces:
        given_out += matcher.push(piece)
        assert whole.startswith(given_out)
        if matcher.is_stopped:
            break


def test_a_beginning_longer_than_what_follows_it_is_held_whole() -> None:
    matcher = StopMatcher(["aaab"])
    assert [matcher.push(piece) for piece in ("aa", "ab")] == ["", ""]
    assert matcher.is_stopped


def test_only_a_possible_beginning_is_held_back() -> None:
    matcher = StopMatcher(["</end>"])
    assert [matcher.push(piece) for piece in ("a", "b<", "/e", "x", "<")] == [
        *("a", "b", "", "</ex", "")
    ]
    assert matcher.finish() == "<"


@pytest.mark.parametrize("stop", ["é", "😀", "b😀c"])
def test_a_stop_string_of_many_bytes_is_found_in_tokens_of_one(stop: str) -> None:
    stream = TextStream(ByteTokenizer(), [stop])
    text = ""
    for token in f"aé😀b😀cd{stop}".encode():
        text += stream.push(token)
        if stream.is_stopped:
            break
    assert stream.is_stopped
    assert text == stream.text == cut_by_letter(f"aé😀b😀cd{stop}", [stop])[0]


def test_an_unfinished_character_is_given_at_the_end_only() -> None:
    stream = TextStream(ByteTokenizer(), [])
    assert [stream.push(token) for token in "é".encode()[:1]] == [""]
    assert stream.finish() == "\ufffd"
