"""Right and wrong answers of two records, item by item: a mean alone hides what changed."""

from collections.abc import Sequence

from samebits.audit.answers import is_right
from samebits.audit.compare_results import Flips, ScoreVerdict
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.statistics import mcnemar_p

Item = tuple[AuditPrompt, Sequence[Answer], Sequence[Answer]]
"""A prompt, and the answers of A and of B; neither is empty."""


def compare_items(
    items: Sequence[Item], a_pattern: str | None, b_pattern: str | None
) -> Flips | None:
    """Compare the items that have an expected answer; None if there are none."""
    graded = [
        (prompt.id, grade(a, a_pattern, prompt.answer), grade(b, b_pattern, prompt.answer))
        for prompt, a, b in items
        if prompt.answer is not None
    ]
    if not graded:
        return None
    lost = tuple(name for name, a, b in graded if a[0] and not b[0])
    won = tuple(name for name, a, b in graded if b[0] and not a[0])
    return Flips(
        verdict=judge_scores(len(lost), len(won)),
        num_items=len(graded),
        mean_a=sum(a[0] for _, a, _ in graded) / len(graded),
        mean_b=sum(b[0] for _, _, b in graded) / len(graded),
        right_to_wrong=lost,
        wrong_to_right=won,
        p_value=mcnemar_p(len(lost), len(won)),
        unsteady_a=tuple(name for name, a, _ in graded if len(set(a)) > 1),
        unsteady_b=tuple(name for name, _, b in graded if len(set(b)) > 1),
    )


def grade(answers: Sequence[Answer], pattern: str | None, expected: str) -> list[bool]:
    """Say of each answer whether it is right."""
    return [is_right(answer.text, pattern, expected) for answer in answers]


def judge_scores(num_lost: int, num_won: int) -> ScoreVerdict:
    """Say whether the same items are right; equal numbers of flips leave the mean as it was."""
    if not num_lost and not num_won:
        return ScoreVerdict.SAME_ITEMS
    return ScoreVerdict.EQUAL_MEANS if num_lost == num_won else ScoreVerdict.DIFFERENT
