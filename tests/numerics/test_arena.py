"""Memory for weights."""

import numpy as np

from samebits.numerics.arena import ALIGNMENT, BLOCK_BYTES, Arena


def test_arrays_are_zero_aligned_and_apart() -> None:
    arena = Arena()
    arrays = [arena.zeros((3, n), np.int16) for n in (1, 1000, 7, 4096)]
    for value, array in enumerate(arrays, start=1):
        assert array.flags.c_contiguous and array.flags.writeable
        assert array.ctypes.data % ALIGNMENT == 0
        assert not array.any()
        array[:] = value
    assert [set(array.ravel().tolist()) for array in arrays] == [{1}, {2}, {3}, {4}]


def test_an_array_larger_than_a_block_has_one_to_itself() -> None:
    arena = Arena()
    small = arena.zeros((10,), np.int8)
    large = arena.zeros((BLOCK_BYTES + 1,), np.int8)
    small[:] = 1
    assert large.shape == (BLOCK_BYTES + 1,) and not large[-1:].any()


def test_arrays_outlive_their_arena() -> None:
    array = Arena().zeros((1000,), np.int32)
    array[:] = 5
    assert int(array.sum()) == 5000
