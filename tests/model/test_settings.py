"""Settings are taken by type, and none is left unread."""

from collections.abc import Callable

import numpy as np
import pytest

from samebits.errors import ConfigError
from samebits.model.settings import Settings

VALUES = {"n": 3, "x": 0.5, "on": True, "name": "a", "part": {"y": 1}, "null": None, "whole": 4.0}


def test_values_come_as_they_are() -> None:
    settings = Settings(VALUES, "test")
    assert settings.take_int("n") == 3
    assert settings.take_int("whole") == 4
    assert settings.take_float("x") == 0.5
    assert settings.take_bool("on", False) is True
    assert settings.take_text("name") == "a"
    part = settings.take_settings("part")
    assert part is not None
    assert part.take_int("y") == 1
    assert settings.is_null("null")
    settings.check_all_taken()


WRONG: dict[str, Callable[[Settings], object]] = {
    "int of text": lambda settings: settings.take_int("name"),
    "int of bool": lambda settings: settings.take_int("on"),
    "int of half": lambda settings: settings.take_int("x"),
    "int below": lambda settings: settings.take_int("n", least=4),
    "int above": lambda settings: settings.take_int("n", most=2),
    "int absent": lambda settings: settings.take_int("gone"),
    "int null": lambda settings: settings.take_int("null"),
    "float of 400 digits": lambda settings: Settings({"n": 10**400}, "the test").take_float("n"),
    "float of bool": lambda settings: settings.take_float("on"),
    "bool of int": lambda settings: settings.take_bool("n", False),
    "text of int": lambda settings: settings.take_text("n"),
    "part of int": lambda settings: settings.take_settings("n"),
    "another value": lambda settings: settings.require("n", 1, 2),
    "true is not 1": lambda settings: settings.require("on", 1),
    "no value allowed": lambda settings: settings.require("n"),
    "absent": lambda settings: settings.check_present("gone"),
    "left over": lambda settings: settings.check_all_taken({"n", "x", "on", "name", "part"}),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_with_key_and_place(case: str) -> None:
    with pytest.raises(ConfigError, match=r"'\w+' in the test"):
        WRONG[case](Settings(VALUES, "the test"))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 0.0, -1.0, 0])
def test_a_float_is_finite_and_above_zero(value: float) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        Settings({"x": value}, "test").take_float("x")


def test_an_array_equals_no_single_value() -> None:
    with pytest.raises(ConfigError, match="'x'"):
        Settings({"x": np.array([1, 1])}, "test").require("x", 1)
