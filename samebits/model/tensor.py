"""The one way weights leave a file: as float32 rows, a block at a time.

Knows nothing of formats; matrix.py implements it. Blocks keep the peak memory of
loading near the quantised weights alone.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class RowSource(Protocol):
    """A two-dimensional weight, read in blocks of rows; a vector is one row."""

    @property
    def shape(self) -> tuple[int, int]:
        """(N rows, K columns)."""
        ...

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Decode rows [start, stop) to float32, shape (stop - start, K).

        Raises:
            ModelFileError: The bytes are missing, or decode to NaN or infinity.
        """
        ...

    def read_picked(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decode the rows named, in that order, to float32, shape (len(rows), K)."""
        ...
