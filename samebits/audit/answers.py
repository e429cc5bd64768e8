"""The answer to a task, found in a text."""

import re

from samebits.errors import ConfigError


def extract_answer(text: str, pattern: str | None) -> str | None:
    """Find the answer in a text, without the spaces around it.

    The last match counts: what comes before is on the way to it.

    Args:
        pattern: Regular expression; its first group if it has one, else all of it. None: the
            whole text is the answer.
    Returns:
        None if nothing matches.
    Raises:
        ConfigError: The pattern is no regular expression.
    """
    if pattern is None:
        return text.strip()
    matches = list(compile_pattern(pattern).finditer(text))
    if not matches:
        return None
    found: str | None = matches[-1][1 if matches[-1].re.groups else 0]
    return None if found is None else found.strip()


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a regular expression.

    Raises:
        ConfigError: It is none.
    """
    try:
        return re.compile(pattern, re.MULTILINE)
    except re.error as error:
        raise ConfigError(expected="a regular expression", found=f"{pattern!r}: {error}") from error


def is_right(text: str, pattern: str | None, expected: str) -> bool:
    """Answer whether a text gives the expected answer."""
    return extract_answer(text, pattern) == expected.strip()
