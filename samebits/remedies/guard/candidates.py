"""Which tokens lie within epsilon of the top, on raw logits.

Raw: before temperature, penalties, masks and softmax, which make ties that the logits did not have.
"""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ConfigError, UnsupportedInput

Logits = NDArray[Any]
"""(V,) float16, float32 or float64. A bfloat16 row is widened by the caller, which is exact."""
FLOATS = ("float16", "float32", "float64")


def candidates(logits: Logits, epsilon: float) -> NDArray[np.int64]:
    """List the tokens whose logit is at most epsilon below the greatest, in order of id.

    The boundary is closed: a token exactly epsilon below belongs. The difference is taken in
    binary64, whose rounding is monotone, so no token that lies within epsilon is ever missed; one
    that lies beyond it by less than the last bit of the difference may be let in.

    Args:
        logits: (V,), raw, float16, float32 or float64.
        epsilon: Finite and at least 0; in units of the logits, which are nats.
    Returns:
        (C,) int64, ascending; never empty.
    Raises:
        ConfigError: No such epsilon.
        UnsupportedInput: Another shape or dtype, NaN or infinity.
    """
    check_epsilon(epsilon)
    return list_near(widen(logits), epsilon)


def list_near(wide: NDArray[np.float64], epsilon: float) -> NDArray[np.int64]:
    """List candidates of a widened row; see `candidates`."""
    return np.flatnonzero(wide.max() - wide <= epsilon)


def argmax(logits: Logits) -> int:
    """Give the lowest id among the greatest logits (V,).

    Raises:
        UnsupportedInput: As for `candidates`.
    """
    return int(widen(logits).argmax())


def widen(logits: Logits) -> NDArray[np.float64]:
    """Give a row of logits in binary64, exactly.

    Raises:
        UnsupportedInput: Another shape or dtype than (V,) of FLOATS, NaN or infinity.
    """
    if logits.ndim != 1 or logits.size == 0 or logits.dtype.name not in FLOATS:
        raise UnsupportedInput(
            expected="raw logits (V,) of " + ", ".join(FLOATS),
            found=f"{logits.dtype.name} {logits.shape}",
        )
    wide = logits.astype(np.float64)
    if not np.isfinite(wide).all():
        raise UnsupportedInput(
            expected="finite logits",
            found="NaN or infinity",
            remedy="Guard the raw logits, before any mask; or the model itself overflows.",
        )
    return wide


def check_epsilon(epsilon: Any) -> None:
    """Refuse what is no distance.

    Raises:
        ConfigError: No number, not finite, or below 0.
    """
    is_number = isinstance(epsilon, int | float | np.number) and not isinstance(epsilon, bool)
    # Not isfinite, which fails at integers beyond binary64.
    if not (is_number and 0 <= epsilon <= sys.float_info.max):
        raise ConfigError(expected="an epsilon that is finite and at least 0", found=repr(epsilon))
