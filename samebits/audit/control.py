"""The positive control: a prompt changed by a little has to change the answer.

Were it not so, a server that is constant, or a cache before it, would be called stable.
"""

from samebits.audit.asking import Asker, change
from samebits.audit.observation import Answer
from samebits.audit.pairs import compare_answers
from samebits.audit.planned import CONTROL
from samebits.errors import TargetError

TRIES = 3
"""Prompts that are changed, until one changes the answer."""


def make_control(asker: Asker) -> dict[str, object]:
    """Make the control, and give the note that tells it.

    Raises:
        TargetError: Nothing was answered at all.
    """
    results = []
    for prompt in asker.options.prompts[:TRIES]:
        changed = asker.ask_one(asker.base, change(prompt))
        results.append(differ(asker.ask_one(asker.base, prompt), changed))
        if results[-1]:
            break
    if all(result is None for result in results):
        raise TargetError(expected="an answer", found=asker.last_error)
    return {"name": CONTROL, "differs": any(results)}


def differ(one: Answer, other: Answer) -> bool | None:
    """Answer whether two answers differ in tokens or bits; None if one is missing."""
    pair = compare_answers(one, other)
    return None if pair is None else pair.tokens_differ or bool(pair.bits_differ)
