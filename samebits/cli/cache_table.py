"""Entries of an output cache as lines for a terminal."""

import time
from collections.abc import Iterable

from samebits.cache.upkeep import Listed
from samebits.report.visible import show_character

SHOWN_DIGITS = 12
SURFACE_CHARS = 20
NAMESPACE_CHARS = 10
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
"""By unit of an age."""


def print_table(entries: Iterable[Listed]) -> None:
    """Print one line an entry, at most 80 columns."""
    num_entries = size_bytes = 0
    for entry in entries:
        if not num_entries:
            print(spell_row("key", "age", "bytes", "weights", "surface", "namespace"))
        num_entries += 1
        size_bytes += entry.size_bytes
        print(
            spell_row(
                digits_of(entry.key),
                spell_age(time.time() - entry.created_ms / 1000),
                str(entry.size_bytes),
                digits_of(entry.weights),
                entry.surface,
                entry.namespace,
            )
        )
    print(f"{count(num_entries)}, {size_bytes} bytes of answers")


def spell_row(key: str, age: str, size: str, weights: str, surface: str, namespace: str) -> str:
    """Lay a line out; the namespace stands last, since most have none."""
    cells = (
        key.ljust(SHOWN_DIGITS),
        age.rjust(5),
        size.rjust(9),
        weights.ljust(SHOWN_DIGITS),
        show(surface, SURFACE_CHARS).ljust(SURFACE_CHARS),
        show(namespace, NAMESPACE_CHARS),
    )
    return "  ".join(cells).rstrip()


def digits_of(digest: str) -> str:
    """Give the first digits of a digest."""
    return show(digest.removeprefix("sha256:"), SHOWN_DIGITS, dots="")


def show(text: str, most: int, dots: str = "…") -> str:
    """Cut a text that comes from a file, and spell out what would steer a terminal."""
    safe = "".join(map(show_character, text))
    return safe if len(safe) <= most else safe[: most - len(dots)] + dots


def spell_age(seconds: float) -> str:
    """Give an age in the largest unit that it fills twice."""
    if seconds < 0:
        return "ahead"
    size = next((u for u in ("w", "d", "h", "m") if seconds >= 2 * SECONDS[u]), "s")
    return f"{int(seconds // SECONDS[size])}{size}"


def count(number: int) -> str:
    """Count answers in words."""
    return f"{number} {'answer' if number == 1 else 'answers'}"
