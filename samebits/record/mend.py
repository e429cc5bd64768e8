"""Values that canonical JSON cannot carry, and what a record holds in their place.

What comes from outside may hold lone surrogates, NaN or infinities; a writer must neither stop at
them nor lose them unseen. Normative: docs/formats.md, "Audit record".
"""

import math
import re
from collections.abc import Mapping
from typing import Any

LONE = re.compile("[\ud800-\udfff]")
"""Python's texts hold no pairs: each surrogate in one stands alone."""
NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def mend(value: Any) -> Any:
    """Replace lone surrogates and numbers that are not finite, at every depth."""
    if isinstance(value, str):
        return LONE.sub(spell_surrogate, value)
    if isinstance(value, float):
        return value if math.isfinite(value) else spell_number(value)
    if isinstance(value, Mapping):
        return {mend(str(key)): mend(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mend(item) for item in value]
    return value


def spell_surrogate(match: re.Match[str]) -> str:
    """Spell a lone surrogate as U+FFFD and its number, so that two of them stay two."""
    return f"\ufffd<{ord(match[0]):04X}>"


def spell_number(value: float) -> str:
    """Spell NaN or an infinity as a text."""
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def count_lone(value: Any) -> int:
    """Count the lone surrogates of a value, at every depth."""
    if isinstance(value, str):
        return len(LONE.findall(value))
    if isinstance(value, Mapping):
        return sum(count_lone(key) + count_lone(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return sum(count_lone(item) for item in value)
    return 0
