"""Translates the sentences that analyses and targets give in English.

They come from fixed lists: a sentence is looked up word for word, or by its pattern where it holds
values. One that is not known is given as it is. The texts are in sentences_zh.py.
"""

import re
from functools import cache

from samebits.report.sentences_zh import SENTENCES_ZH

FIELD = re.compile(r"\\{(\w+)\\}")
NUMBERS = ("n", "num", "of", "row")
"""Names of values that are numbers; all others take anything."""


def open_field(found: re.Match[str]) -> str:
    """Give the pattern of a value."""
    name = found.group(1)
    return rf"(?P<{name}>\d+)" if name in NUMBERS else rf"(?P<{name}>.+?)"


@cache
def patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Compile the sentences that hold values."""
    return tuple(
        (re.compile(FIELD.sub(open_field, re.escape(english)), re.DOTALL), chinese)
        for english, chinese in SENTENCES_ZH.items()
        if "{" in english
    )


def translate(sentence: str) -> str:
    """Give the Chinese of a sentence; the sentence itself if it is not known."""
    if sentence in SENTENCES_ZH:
        return SENTENCES_ZH[sentence]
    for pattern, chinese in patterns():
        if found := pattern.fullmatch(sentence):
            values = {
                name: SENTENCES_ZH.get(text, text) for name, text in found.groupdict().items()
            }
            return chinese.format_map(values)
    return sentence
