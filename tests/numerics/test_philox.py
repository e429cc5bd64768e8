"""Philox gives the answers its authors publish, and a draw reads all of its key and counter."""

import pytest

from samebits.numerics.philox import draw_u64, philox4x32

ONES = 0xFFFFFFFF
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (ONES, ONES, ONES, ONES),
        (ONES, ONES),
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers_of_random123(
    counter: tuple[int, int, int, int],
    key: tuple[int, int],
    answer: tuple[int, int, int, int],
) -> None:
    assert philox4x32(counter, key) == answer


def test_a_draw_is_the_first_two_words_low_word_first() -> None:
    assert draw_u64(0, 0, 0) == 0xE169C58D_6627E8D5
    seed = 0x299F31D0_A4093822
    assert draw_u64(seed, 0x03707344_13198A2E, 0x85A308D3_243F6A88) == 0x94FDCCEB_D16CFE09


def test_every_bit_of_seed_index_and_position_reaches_the_draw() -> None:
    arguments = [[0, 0, 0]] + [
        [1 << bit if place == which else 0 for place in range(3)]
        for which in range(3)
        for bit in range(64)
    ]
    assert len({draw_u64(*a) for a in arguments}) == len(arguments)
