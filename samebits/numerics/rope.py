"""RoPE tables from integers: the same bits on every machine, because no libm is asked.

A table is defined by these steps and by nothing else (docs/numerics.md, "RoPE tables"):

1. Frequency i of D/2 is exp(-(2i/D) * ln theta) radians a position, in decimal arithmetic of 60
   digits, each operation rounded half to even.
2. Divided by 2 pi (50 decimals of pi), and stretched as the model says, it is a fraction of a turn,
   rounded to a multiple of 2**-64 and kept as a 64-bit integer.
3. Position times that integer, modulo 2**64, is the angle; whole turns fall away exactly.
4. The nearest quarter turn k is taken off; the rest, in [-1/8, 1/8) of a turn, becomes a binary64
   number of radians, x = fl(rest) * fl(2 pi * 2**-64).
5. cos x and sin x are Taylor polynomials up to x**16 and x**15, in Horner form over fl(x * x),
   coefficients fl(1/n!), every operation rounded once to binary64.
6. k swaps and negates them; the results are rounded once to binary32.

The error before the last rounding stays below 1e-15 plus position * 2**-65 turns, so a value
differs from the correctly rounded one only where that is next to a tie.
"""

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ConfigError
from samebits.numerics.values import RopeTable

F64 = NDArray[np.float64]

DIGITS = 60
PI = Decimal("3.14159265358979323846264338327950288419716939937510")
RADIANS = np.float64(float.fromhex("0x1.921fb54442d18p-62"))
"""2 pi * 2**-64: radians in one unit of the 64-bit angle."""
COS = tuple(np.float64((-1.0) ** (n // 2) / factorial(n)) for n in range(0, 17, 2))
SIN = tuple(np.float64((-1.0) ** (n // 2) / factorial(n)) for n in range(1, 16, 2))
BLOCK_POSITIONS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How a model stretches its wavelengths to reach a longer context."""

    kind: str = "none"
    """none, linear or llama3."""
    factor: float = 1.0
    """Stretch of all wavelengths (linear), or of the long ones (llama3)."""
    low_freq_factor: float = 1.0
    """llama3: wavelengths above original_context / low_freq_factor are stretched in full."""
    high_freq_factor: float = 4.0
    """llama3: wavelengths below original_context / high_freq_factor are left alone."""
    original_context: int = 0
    """llama3: context length before stretching, in tokens."""


UNSCALED = Scaling()


def stretch(turns: Decimal, scaling: Scaling) -> Decimal:
    """Apply a model's scaling to one frequency, in turns a position, in the context in force.

    Raises:
        ConfigError: An unknown kind.
    Source: position interpolation, Chen et al. 2023; Llama 3.1 as in transformers.
    """
    if scaling.kind == "none":
        return turns
    if scaling.kind == "linear":
        return turns / Decimal(scaling.factor)
    if scaling.kind == "llama3":
        return stretch_llama3(turns, scaling)
    raise ConfigError(expected="RoPE scaling none, linear or llama3", found=scaling.kind)


def stretch_llama3(turns: Decimal, scaling: Scaling) -> Decimal:
    """Stretch long wavelengths by the factor, short ones not, those between in proportion."""
    low, high = Decimal(scaling.low_freq_factor), Decimal(scaling.high_freq_factor)
    periods = scaling.original_context * turns
    if periods < low:
        return turns / Decimal(scaling.factor)
    if periods > high:
        return turns
    smooth = (periods - low) / (high - low)
    return (1 - smooth) * turns / Decimal(scaling.factor) + smooth * turns


def make_frequencies(
    head_dim: int, theta: float, scaling: Scaling = UNSCALED
) -> NDArray[np.uint64]:
    """Give the (D/2,) frequencies in units of 2**-64 turn a position.

    Raises:
        ConfigError: head_dim is odd, theta below 1, or the scaling unknown.
    """
    if head_dim % 2 or head_dim < 2 or not theta >= 1:
        raise ConfigError(
            expected="an even head width and theta >= 1", found=f"{head_dim} and {theta}"
        )
    with localcontext(Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)):
        log = Decimal(theta).ln()
        radians = [(log * Decimal(-2 * i) / head_dim).exp() for i in range(head_dim // 2)]
        turns = [stretch(r / (2 * PI), scaling) for r in radians]
        units = [int((t * 2**64).to_integral_value()) for t in turns]
    return np.array([u % 2**64 for u in units], np.uint64)


def horner(coefficients: tuple[np.float64, ...], y: F64) -> F64:
    """Evaluate a polynomial, constant first, each operation rounded."""
    total = np.full_like(y, coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * y + c
    return total


def cos_sin(angle: NDArray[np.uint64]) -> tuple[F64, F64]:
    """Give cosine and sine of angles in units of 2**-64 turn, by the steps above."""
    quarter = (angle + np.uint64(2**61)) >> np.uint64(62)
    rest = (angle - (quarter << np.uint64(62))).view(np.int64)
    x = rest.astype(np.float64) * RADIANS
    square = x * x
    c, s = horner(COS, square), horner(SIN, square) * x
    odd = (quarter & np.uint64(1)).astype(bool)
    cos, sin = np.where(odd, -s, c), np.where(odd, c, s)
    sign = np.where(quarter >= 2, -1.0, 1.0)
    return cos * sign, sin * sign


def make_rope_table(
    head_dim: int,
    theta: float,
    positions: int,
    scaling: Scaling = UNSCALED,
    dtype: type[np.floating[Any]] = np.float32,
) -> RopeTable:
    """Tabulate cosines and sines for positions [0, positions).

    Args:
        head_dim: D, even. theta: base of the wavelengths. dtype: float32 for the contract;
            float64 skips the last rounding, for plain-f64.
    Raises:
        ConfigError: head_dim is odd, theta below 1, or the scaling unknown.
    Source: docs/numerics.md, "RoPE tables"; Su et al. 2021.
    """
    frequencies = make_frequencies(head_dim, theta, scaling)
    cos = np.empty((positions, head_dim // 2), dtype)
    sin = np.empty_like(cos)
    for start in range(0, positions, BLOCK_POSITIONS):
        stop = min(start + BLOCK_POSITIONS, positions)
        angles = np.arange(start, stop, dtype=np.uint64)[:, None] * frequencies
        cos[start:stop], sin[start:stop] = cos_sin(angles)
    return RopeTable(cos=cos, sin=sin)
