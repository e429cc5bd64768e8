"""Named settings of a model, taken one by one, so that none is left unread.

A setting nobody reads may change the mathematics; it is refused by name. Used alike for GGUF
metadata and for a config.json.
"""

import sys
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from samebits.errors import ConfigError


class Settings:
    """Take typed values out of a mapping and remember which were taken.

    Attributes:
        where: The file or the part of it, for errors.
    """

    __slots__ = ("_nulls", "_taken", "_values", "where")

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        """Begin with nothing taken. A value of None counts as absent, as in transformers."""
        self.where = where
        self._nulls = {key for key, value in values.items() if value is None}
        self._values = {key: value for key, value in values.items() if value is not None}
        self._taken: set[str] = set()

    def take(self, key: str) -> Any:
        """Take a value of any type; None when absent."""
        self._taken.add(key)
        return self._values.get(key)

    def is_null(self, key: str) -> bool:
        """Say whether a key is there and says null, where that differs from no such key."""
        return key in self._nulls

    def check_present(self, *keys: str) -> None:
        """Check that keys are there, where a family's default would be a surprise.

        Raises:
            ConfigError: One is absent.
        """
        for key in keys:
            if key not in self._values and key not in self._nulls:
                raise self._wrong(key, "a value", None)

    def take_int(
        self, key: str, default: int | None = None, *, least: int = 1, most: int = 2**31 - 1
    ) -> int:
        """Take an integer from `least` to `most`.

        Raises:
            ConfigError: It is absent without a default, of another type, or out of range.
        """
        value = self._take_or(key, default)
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int or not least <= value <= most:
            raise self._wrong(key, f"an integer from {least} to {most}", value)
        return value

    def take_float(self, key: str, default: float | None = None) -> float:
        """Take a finite number above zero.

        Raises:
            ConfigError: It is absent without a default, of another type, or not above zero.
        """
        value = self._take_or(key, default)
        # An int is compared before it is made a float, which one of 400 digits cannot be.
        if type(value) not in (int, float) or not 0 < value <= sys.float_info.max:
            raise self._wrong(key, "a finite number above 0", value)
        return float(value)

    def take_bool(self, key: str, default: bool) -> bool:
        """Take true or false.

        Raises:
            ConfigError: It is of another type.
        """
        value = self._take_or(key, default)
        if type(value) is not bool:
            raise self._wrong(key, "true or false", value)
        return value

    def take_text(self, key: str, default: str | None = None) -> str:
        """Take a string.

        Raises:
            ConfigError: It is absent without a default, or of another type.
        """
        value = self._take_or(key, default)
        if type(value) is not str:
            raise self._wrong(key, "a string", value)
        return value

    def take_settings(self, key: str) -> "Settings | None":
        """Take a mapping as settings of its own; None when absent.

        Raises:
            ConfigError: It is of another type.
        """
        value = self.take(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(key, "a mapping", value)
        return Settings(value, f"{key} of {self.where}")

    def require(self, key: str, *implemented: Any) -> None:
        """Check that a setting is absent or has one of the values implemented here.

        Raises:
            ConfigError: It has another value.
        """
        value = self.take(key)
        if value is not None and not any(_is_same(value, known) for known in implemented):
            allowed = " or ".join([*(repr(known) for known in implemented), "no such key"])
            raise self._wrong(key, allowed, value)

    def check_all_taken(self, harmless: Collection[str] = ()) -> None:
        """Check that every setting was taken or is known to be harmless.

        Raises:
            ConfigError: One was not; names it and its value.
        """
        for key in sorted(self._values.keys() - self._taken - set(harmless)):
            raise self._wrong(key, "only settings that are known here", self._values[key])

    def _take_or(self, key: str, default: Any) -> Any:
        value = self.take(key)
        return default if value is None else value

    def _wrong(self, key: str, expected: str, value: Any) -> ConfigError:
        found = "no such key" if value is None else f"{value!r:.200}"
        return ConfigError(
            expected=f"{expected} for {key!r} in {self.where}",
            found=found,
            remedy="The model needs mathematics that is not implemented, or its config is damaged.",
        )


def _is_same(value: Any, known: Any) -> bool:
    """Compare as JSON does: true is not 1, and an array of numbers equals nothing."""
    if isinstance(value, np.ndarray) or isinstance(value, bool) != isinstance(known, bool):
        return False
    return bool(value == known)
