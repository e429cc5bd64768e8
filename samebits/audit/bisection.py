"""Narrows a threshold: which level to ask between the largest clean one and the smallest found.

Only for axes whose levels are numbers. Levels asked on the way are exploratory: no tests.
"""

from collections.abc import Sequence
from dataclasses import replace

from samebits.audit.axes import Contrast, with_call

NARROWED = ("batch", "concurrency")
"""Axes of a factor of the call that counts up from the base's 1."""


def value_of(contrast: Contrast) -> int:
    """Give the number that is the level of an ordered axis, which its factor is named after."""
    value: int = getattr(contrast.treated.call, contrast.axis)
    return value


def find_middle(
    least: Contrast, clean: Sequence[Contrast], asked: Sequence[Contrast]
) -> Contrast | None:
    """Choose the next level of one axis to ask.

    Args:
        least: The smallest level with an effect.
        clean: Contrasts without any difference.
        asked: All that were asked, these and undecided ones.
    Returns:
        None if the two are neighbours, or what lies between was asked and is undecided.
    """
    low = max((value_of(c) for c in clean if value_of(c) < value_of(least)), default=1)
    middle = (low + value_of(least)) // 2
    if middle == low or middle in map(value_of, asked):
        return None
    treated = with_call(least.treated, **{least.axis: middle})
    return replace(least, level=str(middle), treated=treated)
