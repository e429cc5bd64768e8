"""Whether an effect is a matter of length."""

from dataclasses import replace

import pytest

from samebits.audit.axes import BASE
from samebits.audit.blocks import index_observations
from samebits.audit.lengths import find_condition, measure_lengths
from samebits.audit.prompts import AuditPrompt
from tests.audit.seen import PROMPTS, observe, say

LENGTHS = {prompt: 10 * i for i, prompt in enumerate(PROMPTS)}


@pytest.mark.parametrize(
    ("affected", "says"),
    [
        (PROMPTS[12:], "prompts of 120 tokens or more"),
        (PROMPTS[:3], "prompts of 20 tokens or fewer"),
        (PROMPTS[15:], ""),
        (PROMPTS, ""),
        ((), ""),
        ((*PROMPTS[12:], PROMPTS[3]), ""),
    ],
)
def test_a_length_is_named_only_if_it_separates_and_not_by_accident(
    affected: tuple[str, ...], says: str
) -> None:
    assert find_condition(affected, PROMPTS, "tokens", LENGTHS) == says


def test_equal_lengths_on_both_sides_separate_nothing() -> None:
    lengths = {**LENGTHS, PROMPTS[11]: LENGTHS[PROMPTS[12]]}
    assert find_condition(PROMPTS[12:], PROMPTS, "tokens", lengths) == ""


def test_tokens_count_where_all_are_known_and_characters_else() -> None:
    prompts = [AuditPrompt(id="p0", text="abc"), AuditPrompt(id="p1", text="ab")]
    known = [observe(BASE, f"p{i}", replace(say(), num_prompt_tokens=7 + i)) for i in range(2)]
    assert measure_lengths(index_observations(known), "{}", prompts) == (
        "tokens",
        {"p0": 7, "p1": 8},
    )
    assert measure_lengths(index_observations(known[:1]), "{}", prompts) == (
        "characters",
        {"p0": 3, "p1": 2},
    )
