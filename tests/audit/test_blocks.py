"""Blocks, and which answers in them are equal."""

from dataclasses import replace

from samebits.audit.axes import BASE, with_call
from samebits.audit.blocks import (
    Block,
    index_observations,
    list_blocks,
    split_answers,
    split_bits,
    split_tokens,
)
from samebits.audit.observation import Answer
from tests.audit.seen import REPEAT, batch, observe, say


def block(base: list[Answer], treated: list[Answer]) -> Block:
    return Block(
        prompt="p0",
        round=0,
        base=tuple(base),
        treated=tuple(treated),
        num_base=len(base),
        num_treated=len(treated),
    )


def test_a_block_holds_one_prompt_of_one_round() -> None:
    two = batch(2)
    seen = [
        observe(condition, prompt, say(), round=number, repeat=repeat)
        for condition in (BASE, two.treated)
        for prompt in ("p0", "p1")
        for number in (0, 1)
        for repeat in range(2 + number)
    ]
    blocks = list_blocks(two, index_observations(seen))
    assert [(b.prompt, b.round, len(b.base), len(b.treated)) for b in blocks] == [
        ("p0", 0, 2, 2),
        ("p0", 1, 3, 3),
        ("p1", 0, 2, 2),
        ("p1", 1, 3, 3),
    ]


def test_a_round_that_only_one_side_was_asked_is_no_block() -> None:
    two = batch(2)
    seen = [observe(BASE, "p0", say(), round=1), observe(two.treated, "p0", say())]
    assert list_blocks(two, index_observations(seen)) == []


def test_missing_answers_are_counted_and_not_compared() -> None:
    two = batch(2)
    seen = [
        observe(BASE, "p0", say()),
        observe(BASE, "p0", Answer(error="timed out"), repeat=1),
        observe(two.treated, "p0", say()),
    ]
    (only,) = list_blocks(two, index_observations(seen))
    assert (only.num_base, len(only.base)) == (2, 1)
    assert not split_tokens(only).differs_across


def test_of_a_call_made_again_the_last_stands() -> None:
    seen = [observe(BASE, "p0", Answer(error="x")), observe(BASE, "p0", say(3), attempt=1)]
    (only,) = list_blocks(REPEAT, index_observations(seen))
    assert only.base == (say(3),)


def test_calls_that_lean_on_each_other_come_from_one_attempt() -> None:
    cold, warm = with_call(BASE, prefix="cold"), with_call(BASE, prefix="warm")
    contrast = replace(batch(2), axis="prefix", base=cold, treated=warm, leans=True)
    seen = [
        observe(cold, "p0", say(1)),
        observe(warm, "p0", say(1)),
        observe(warm, "p0", say(1), repeat=1),
        observe(cold, "p0", say(2), attempt=1),
        observe(warm, "p0", say(2), attempt=1),
    ]
    (only,) = list_blocks(contrast, index_observations(seen))
    assert (only.base, only.treated) == ((say(2),), (say(2),))


def test_repeats_are_compared_within_one_session() -> None:
    seen = [observe(BASE, "p0", say(i), repeat=i, session=i) for i in range(2)]
    assert [len(b.base) for b in list_blocks(REPEAT, index_observations(seen))] == [1, 1]


def test_equal_answers_have_one_number() -> None:
    split = split_tokens(block([say(0), say(1)], [say(1), say(2)]))
    assert (split.base, split.treated) == ((0, 1), (1, 2))
    assert list(split.classes()) == [(1, 0), (1, 1), (0, 1)]
    assert (split.num_pairs, split.num_differ) == (4, 3)


def test_bits_after_the_first_token_that_differs_are_other_questions() -> None:
    one = Answer(token_ids=(1, 2, 3), steps=("a", "b", "c"))
    other = Answer(token_ids=(1, 9, 3), steps=("a", "b", "x"))
    moved = Answer(token_ids=(1, 9, 3), steps=("y", "b", "x"))
    assert split_bits(block([one, one], [other, other])) == ((0, 0), (0, 0))
    assert split_bits(block([one, one], [moved, moved])) == ((0, 0), (1, 1))


def test_bits_that_one_side_never_reports_are_not_visible() -> None:
    assert split_bits(block([say(), say()], [say(bits=None)])) is None
    assert split_bits(block([say(), say(bits=None)], [say(bits=1)])) == ((0,), (1,))


def test_mixed_spellings_are_compared_by_what_all_have() -> None:
    spelled = Answer(text="1 2 0")
    assert not split_tokens(block([say(0)], [spelled])).differs_across
    assert split_tokens(block([say(0)], [replace(spelled, text="1 2 7")])).differs_across


def test_extracted_answers_may_agree_where_tokens_do_not() -> None:
    wordy, short = Answer(text="so it is 42"), Answer(text="42")
    assert split_tokens(block([wordy], [short])).differs_across
    assert not split_answers(block([wordy], [short]), r"\d+").differs_across
    assert split_answers(block([wordy], [Answer(text="none")]), r"\d+").differs_across
