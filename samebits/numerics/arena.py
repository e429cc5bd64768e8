"""Room for weights in pages of 2 MB, where the system has them.

Decoding reads every weight once a token; with pages of 4 KB the processor spends a tenth of that
time looking addresses up (docs/lab.md). Single linears are too small to get large pages of their
own, so they are laid out one after the other in blocks. Reaches speed, never bits.
"""

import mmap
from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

BLOCK_BYTES = 32 * 2**20
LARGE_PAGE_BYTES = 2 * 2**20
ALIGNMENT = 64
"""A cache line."""


def map_block(size_bytes: int) -> NDArray[np.uint8]:
    """Map zeroed memory that starts at a large page and is asked to consist of them."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    memory = mmap.mmap(-1, size_bytes + LARGE_PAGE_BYTES, flags=private)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    block = np.frombuffer(memory, np.uint8)
    return block[-block.ctypes.data % LARGE_PAGE_BYTES :][:size_bytes]


class Arena:
    """Hand out zeroed arrays from large blocks; a block is freed with the last of its arrays."""

    def __init__(self) -> None:
        self.rest = np.empty(0, np.uint8)

    def zeros(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """Make a C-contiguous array of zeros."""
        size_bytes = prod(shape) * np.dtype(dtype).itemsize
        if size_bytes > len(self.rest):
            self.rest = map_block(max(BLOCK_BYTES, size_bytes))
        taken = self.rest[:size_bytes]
        self.rest = self.rest[-(-size_bytes // ALIGNMENT) * ALIGNMENT :]
        return taken.view(dtype).reshape(shape)
