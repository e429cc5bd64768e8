"""The answer to a task, found in a text."""

import pytest

from samebits.audit.answers import extract_answer, is_right
from samebits.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "pattern", "answer"),
    [
        ("first 3, then 4", r"\d+", "4"),
        ("A: 3\nA: 4", r"^A: (.*)$", "4"),
        ("no number", r"\d+", None),
        (" Paris \n", None, "Paris"),
        ("answer: yes", r"answer: (yes)|(no)", "yes"),
        ("no", r"answer: (yes)|no", None),
    ],
)
def test_the_last_match_is_the_answer(text: str, pattern: str | None, answer: str | None) -> None:
    assert extract_answer(text, pattern) == answer


def test_spaces_around_do_not_make_an_answer_wrong() -> None:
    assert is_right("The answer is  42 ", r"answer is(.*)", " 42")
    assert not is_right("nothing", r"answer is(.*)", "42")


def test_what_is_no_pattern_is_refused() -> None:
    with pytest.raises(ConfigError, match="a regular expression"):
        extract_answer("x", "(")
