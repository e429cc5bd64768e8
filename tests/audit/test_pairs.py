"""Two answers compared."""

from samebits.audit.observation import Answer
from samebits.audit.pairs import compare_answers


def ids(*token_ids: int, steps: tuple[str, ...] | None = None) -> Answer:
    return Answer(text="", token_ids=token_ids, steps=steps)


def test_the_first_token_that_differs_is_named() -> None:
    pair = compare_answers(ids(1, 2, 3), ids(1, 9, 3))
    assert pair is not None and (pair.tokens_differ, pair.index, pair.num_equal) == (True, 1, 1)


def test_an_answer_that_goes_on_differs_where_the_other_ends() -> None:
    pair = compare_answers(ids(1, 2), ids(1, 2, 3))
    assert pair is not None and (pair.tokens_differ, pair.index) == (True, 2)


def test_equal_answers_have_all_tokens_in_common() -> None:
    pair = compare_answers(ids(1, 2), ids(1, 2))
    assert pair is not None and (pair.tokens_differ, pair.index, pair.num_equal) == (False, None, 2)


def test_bits_count_up_to_the_token_that_differs_and_no_further() -> None:
    one = ids(1, 2, 3, steps=("a", "b", "c"))
    later = compare_answers(one, ids(1, 9, 3, steps=("a", "b", "x")))
    before = compare_answers(one, ids(1, 9, 3, steps=("a", "x", "c")))
    assert later is not None and (later.bits_differ, later.bits_index) == (False, None)
    assert before is not None and (before.bits_differ, before.bits_index) == (True, 1)


def test_steps_that_one_answer_lacks_are_not_compared() -> None:
    long, short = ids(1, 2, 3, steps=("a", "b", "c")), ids(1, 2, 3, steps=("a", "b"))
    pair = compare_answers(long, short)
    assert pair is not None and pair.bits_differ is False
    pair = compare_answers(long, ids(1, 2, 3))
    assert pair is not None and pair.bits_differ is None


def test_the_finest_spelling_that_both_have_decides() -> None:
    with_ids = Answer(text="a b", token_ids=(1, 2), tokens=("a", " b"))
    spelled = Answer(text="a b", tokens=("a ", "b"))
    pair = compare_answers(with_ids, spelled)
    assert pair is not None and (pair.tokens_differ, pair.index) == (True, 0)
    text = compare_answers(with_ids, Answer(text="a b"))
    assert text is not None and not text.tokens_differ and text.num_equal is None


def test_texts_differ_at_no_token_that_could_be_named() -> None:
    pair = compare_answers(Answer(text="a b"), Answer(text="a c"))
    assert pair is not None and pair.tokens_differ and pair.index is None


def test_a_missing_answer_is_no_difference() -> None:
    assert compare_answers(ids(1), Answer(error="timed out")) is None
