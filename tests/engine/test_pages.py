"""Pages are handed out lowest first, shared by count, and never lost or handed out twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.engine.pages import Pages
from samebits.errors import InvariantBroken


def test_the_lowest_free_pages_are_taken() -> None:
    pages = Pages(6)
    first, second = pages.take(2), pages.take(2)
    assert (first, second) == ([0, 1], [2, 3])
    pages.give_back(first)
    assert pages.take(3) == [0, 1, 4]


def test_a_shared_page_is_free_only_when_nobody_holds_it() -> None:
    pages = Pages(2)
    held = pages.take(1)
    pages.share(held)
    pages.give_back(held)
    assert pages.num_free == 1
    pages.give_back(held)
    assert pages.num_free == 2


def test_a_page_cannot_be_freed_or_shared_while_free_nor_taken_from_none() -> None:
    pages = Pages(1)
    for wrong in (pages.give_back, pages.share):
        with pytest.raises(InvariantBroken):
            wrong([0])
    with pytest.raises(InvariantBroken):
        pages.take(2)


def test_integrity_notices_a_leak_and_a_stranger() -> None:
    pages = Pages(3)
    held = pages.take(2)
    pages.check_integrity([held])
    for wrong in ([], [held, held], [[0]], [[0, 1, 2]]):
        with pytest.raises(InvariantBroken):
            pages.check_integrity(wrong)


@given(st.lists(st.tuples(st.sampled_from(["take", "share", "give"]), st.integers(0, 7))))
def test_any_order_of_use_keeps_the_books(moves: list[tuple[str, int]]) -> None:
    pages, held = Pages(8), list[list[int]]()
    for move, number in moves:
        if move == "take" and number <= pages.num_free:
            held.append(pages.take(number))
        elif move == "share" and held:
            held.append(pages.share(held[number % len(held)]))
        elif move == "give" and held:
            pages.give_back(held.pop(number % len(held)))
        pages.check_integrity(held)
    for mine in held:
        pages.give_back(mine)
    assert pages.num_free == 8
