"""Two answers compared: the first token that differs, and the bits up to it."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from samebits.audit.observation import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """What two answers have in common."""

    tokens_differ: bool
    """Token ids, or spellings, or the text: the finest that both have."""
    index: int | None
    """First token, from 0, that differs, or that only one has; None if none does, or if only
    texts could be compared."""
    num_equal: int | None
    """Tokens that agree from the start; None if only texts could be compared."""
    bits_differ: bool | None
    """Whether bits differ up to and including the first token that does; after it the contexts are
    other questions. None: not both report them."""
    bits_index: int | None
    """First step, from 0, whose bits differ."""


def compare_answers(base: Answer, treated: Answer) -> Pair | None:
    """Compare two answers; None if one is missing."""
    if base.error is not None or treated.error is not None:
        return None
    one, other = (spell_answer(answer, finest([base, treated])) for answer in (base, treated))
    index = first_difference(one, other)
    is_text = isinstance(one, str)
    bits_index = first_bits_difference([base, treated], None if is_text else index)
    has_bits = has_steps(base) and has_steps(treated) and not (is_text and index is not None)
    return Pair(
        tokens_differ=index is not None,
        index=None if is_text else index,
        num_equal=None if is_text else (len(one) if index is None else index),
        bits_differ=bits_index is not None if has_bits else None,
        bits_index=bits_index if has_bits else None,
    )


def finest(answers: Sequence[Answer]) -> str:
    """Name the finest spelling that all answers have: token_ids, tokens or text."""
    for name in ("token_ids", "tokens"):
        if all(getattr(answer, name) is not None for answer in answers):
            return name
    return "text"


def spell_answer(answer: Answer, name: str) -> Sequence[Hashable]:
    """Give an answer in the spelling that `finest` named."""
    spelled: Sequence[Hashable] = getattr(answer, name)
    return spelled


def has_steps(answer: Answer) -> bool:
    """Answer whether an answer is there and reports bits."""
    return answer.error is None and bool(answer.steps)


def first_difference(one: Sequence[Hashable], other: Sequence[Hashable]) -> int | None:
    """Find the first place at which two sequences differ, or where one has ended."""
    if one == other:
        return None
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)


def first_bits_difference(answers: Sequence[Answer], index: int | None) -> int | None:
    """Find the first step whose bits differ among answers, up to and including token `index`.

    Steps that one of them lacks are not compared; None if nothing differs.
    """
    steps = [answer.steps or () for answer in answers]
    end = min(len(row) for row in steps)
    end = end if index is None else min(end, index + 1)
    if len({row[:end] for row in steps}) == 1:
        return None
    return next(i for i in range(end) if len({row[i] for row in steps}) > 1)
