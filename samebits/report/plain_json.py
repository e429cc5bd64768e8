"""Spells plain values as canonical JSON."""

import math
from collections.abc import Mapping
from typing import Any

from samebits.record.canonical import canonical_bytes


def write_json(value: Mapping[str, Any]) -> str:
    """Spell a value in canonical JSON, one line; what JSON has no number for is a string."""
    return canonical_bytes(spell_floats(value)).decode() + "\n"


def spell_floats(value: Any) -> Any:
    """Replace NaN and infinities by their names, and lone surrogates by question marks."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return str(value.encode("utf-8", "replace").decode("utf-8"))
    if isinstance(value, Mapping):
        return {spell_floats(key): spell_floats(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [spell_floats(item) for item in value]
    return value
