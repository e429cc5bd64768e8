"""Why bits part: what a session finds when it looks inside its model.

Plain values only: a probe is a line of a record.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One operation on the way of a prompt, in order of execution."""

    name: str
    """As the model calls it, such as model.layers.3.self_attn.q_proj."""
    depth: int
    """Layer, from 0; -1 before the first, the number of layers after the last."""
    is_equal: bool
    """Whether the two conditions gave the same bits here."""
    error_base: float | None
    """Relative error against float64, ||x - x64|| / ||x64||, under the base; None: not known."""
    error_treated: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operands:
    """A real dot product of the model: what the report adds up in different orders."""

    name: str
    """Where it stands in the model."""
    x: tuple[float, ...]
    """Activations, exactly as the model held them."""
    w: tuple[float, ...]
    """Weights."""
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NearTie:
    """The two best tokens of one step under two conditions."""

    prompt: str
    """Id."""
    step: int
    tokens: tuple[str, ...]
    """Spelling of the candidates, best first under the base; at least two."""
    base: tuple[float, ...]
    """Logits of the candidates under the base."""
    treated: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Where bits part, how rounding grows with depth, and the numbers to show it on."""

    prompt: str
    """Id."""
    base: str
    """Key of the condition, here and below."""
    treated: str
    places: tuple[Place, ...]
    operands: Operands | None
    tie: NearTie | None
