"""What figures show, as plain values; drawing.py and heat.py turn them into SVG.

Labels are in the reader's language and already harmless to look at.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A count for each label."""

    labels: tuple[str, ...]
    values: tuple[int, ...]
    texts: tuple[str, ...]
    """What each value counts, in words."""
    tones: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A share with its interval."""

    label: str
    value: float
    low: float
    high: float
    tone: str
    text: str
    """What stands at the right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Shares from 0 to 1 under each other."""

    rows: tuple[Interval, ...]
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A share that falls in steps: alive[i] from tokens[i] on, 1 before the first."""

    tokens: tuple[int, ...]
    alive: tuple[float, ...]
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Counts in bins; the last bin has no upper end."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    band: float
    """From 0 to here lies the drift."""
    band_label: str
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """An error at each place; None where it is not known."""

    label: str
    values: tuple[float | None, ...]
    is_dashed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Depth:
    """Errors along the way through a model, on a logarithmic scale."""

    depths: tuple[int, ...]
    """Layer of each place."""
    curves: tuple[Curve, ...]
    is_equal: tuple[bool, ...]
    marked: int | None
    """Index of the first place whose bits differ."""
    mark_label: str
    unit: str
    equal_label: str
    layer_label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """A state for each row and column."""

    rows: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    """For each row and column: same, bits, tokens, missing, or empty where nothing was asked."""
    gaps: tuple[str, ...]
    """For each row: why it is empty, or empty."""
    legend: tuple[tuple[str, str], ...]
    """State and its name."""
    unit: str


Chart = Bars | Intervals | Steps | Histogram | Depth | Heat
