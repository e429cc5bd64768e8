"""Whether what happened to some prompts only is a matter of their length."""

from collections.abc import Collection, Mapping, Sequence

from samebits.audit.blocks import Index
from samebits.audit.notes import Only
from samebits.audit.prompts import AuditPrompt, as_messages
from samebits.audit.statistics import separation_p

SIGNIFICANCE = 0.05
Lengths = Mapping[str, int]
"""Id of the prompt to its length."""
NAMES = {
    "tokens": (Only.TOKENS_OR_MORE, Only.TOKENS_OR_FEWER),
    "characters": (Only.CHARACTERS_OR_MORE, Only.CHARACTERS_OR_FEWER),
}


def measure_lengths(index: Index, base: str, prompts: Sequence[AuditPrompt]) -> tuple[str, Lengths]:
    """Measure prompts: in tokens if the base's answers tell all of them, else in characters.

    Returns:
        The unit and the lengths.
    """
    counted = {
        prompt: seen.answer.num_prompt_tokens
        for prompt, rounds in index.get(base, {}).items()
        for asked in rounds.values()
        for seen in asked
        if seen.answer.num_prompt_tokens is not None
    }
    if counted and all(prompt.id in counted for prompt in prompts):
        return "tokens", counted
    return "characters", {
        prompt.id: sum(len(turn["content"]) for turn in as_messages(prompt)) for prompt in prompts
    }


def find_condition(
    affected: Collection[str], asked: Collection[str], unit: str, lengths: Lengths
) -> str:
    """Say which lengths are affected, if length separates them and that is no accident.

    Returns:
        Empty if all are, none is, or nothing was found.
    """
    ours = [lengths[prompt] for prompt in asked if prompt in affected and prompt in lengths]
    others = [lengths[prompt] for prompt in asked if prompt not in affected and prompt in lengths]
    if not ours or not others:
        return ""
    if separation_p(len(ours), len(ours) + len(others)) >= SIGNIFICANCE:
        return ""
    more, fewer = NAMES[unit]
    if min(ours) > max(others):
        return more.format(n=min(ours))
    if max(ours) < min(others):
        return fewer.format(n=max(ours))
    return ""
