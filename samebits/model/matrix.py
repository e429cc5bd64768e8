"""Weights as rows of encoded blocks in a file, and two views of them.

Implements RowSource (tensor.py). Knows neither container formats nor families.
"""

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ModelFileError
from samebits.model.dequant import Encoding
from samebits.model.tensor import RowSource
from samebits.model.weight_file import WeightFile

# Decoding makes temporaries of several times its output; this bounds them to some 16 MB.
_DECODE_VALUES = 1 << 20


class EncodedMatrix:
    """Decode rows of one tensor of a weight file.

    Attributes:
        name: The tensor's name in its file, for errors.
        shape: (N rows, K columns).
        offset: First byte in the file.
        num_bytes: Length in the file.
    """

    __slots__ = ("_encoding", "_file", "_raw", "_row_bytes", "name", "num_bytes", "offset", "shape")

    def __init__(
        self,
        *,
        name: str,
        shape: tuple[int, int],
        encoding: Encoding,
        file: WeightFile,
        offset: int,
    ) -> None:
        """Describe a tensor; nothing is read yet.

        Raises:
            ModelFileError: The rows are not whole blocks, or the file ends before the tensor.
        """
        self.name = name
        self.shape = shape
        self.offset = offset
        self._encoding = encoding
        self._file = file
        self._raw: NDArray[np.uint8] | None = None
        self._row_bytes = encoding.row_bytes(shape[1])
        self.num_bytes = shape[0] * self._row_bytes
        if offset + self.num_bytes > file.size:
            raise ModelFileError(
                expected=f"{offset + self.num_bytes} bytes for tensor {name!r} in {file.path}",
                found=f"a file of {file.size}",
                remedy="Fetch the file again.",
            )

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Decode rows [start, stop): see RowSource."""
        out = np.empty((stop - start, self.shape[1]), dtype=np.float32)
        step = max(1, _DECODE_VALUES // self.shape[1])
        for first in range(start, stop, step):
            last = min(first + step, stop)
            at = self.offset + first * self._row_bytes
            raw = self._file.read(at, (last - first) * self._row_bytes)
            out[first - start : last - start] = self._decode(raw)
        return out

    def read_picked(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decode the rows named; the encoded bytes stay in memory from the first call on."""
        if self._raw is None:
            raw = self._file.read(self.offset, self.num_bytes)
            self._raw = raw.reshape(self.shape[0], self._row_bytes)
        return self._decode(self._raw[rows])

    def has_same_bytes(self, other: "EncodedMatrix") -> bool:
        """Say whether another tensor is this one once more; reads both until they differ."""
        if (self.shape, self._encoding) != (other.shape, other._encoding):
            return False
        for at in range(0, self.num_bytes, _DECODE_VALUES):
            num_bytes = min(_DECODE_VALUES, self.num_bytes - at)
            mine = self._file.read(self.offset + at, num_bytes)
            if not np.array_equal(mine, other._file.read(other.offset + at, num_bytes)):
                return False
        return True

    def _decode(self, raw: NDArray[np.uint8]) -> NDArray[np.float32]:
        blocks = raw.reshape(-1, self._encoding.block_bytes)
        with np.errstate(invalid="ignore", over="ignore"):
            values = self._encoding.decode(blocks)
        if not np.isfinite(values).all():
            raise ModelFileError(
                expected=f"finite weights in tensor {self.name!r} of {self._file.path}",
                found="NaN or infinity",
                remedy="Fetch the file again, or ask its maker.",
            )
        return values.reshape(-1, self.shape[1])


class HalvedRows:
    """Undo the row order that llama.cpp's converter gives to q and k of Llama models.

    In the file rows 2j and 2j + 1 of a head are the pair that RoPE turns; here they are rows j and
    j + head_dim / 2, as in the model's own checkpoint.
    """

    __slots__ = ("_head_dim", "_source")

    def __init__(self, source: RowSource, head_dim: int) -> None:
        """View a source whose rows are heads of head_dim rows."""
        self._source = source
        self._head_dim = head_dim

    @property
    def shape(self) -> tuple[int, int]:
        """(N rows, K columns)."""
        return self._source.shape

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Decode rows [start, stop): see RowSource."""
        first = start // self._head_dim * self._head_dim
        last = -(-stop // self._head_dim) * self._head_dim
        wanted = self._file_rows(np.arange(start, stop, dtype=np.int64))
        return self._source.read_rows(first, last)[wanted - first]

    def read_picked(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decode the rows named: see RowSource."""
        return self._source.read_picked(self._file_rows(rows))

    def _file_rows(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        head, within = np.divmod(rows, self._head_dim)
        half, pair = np.divmod(within, self._head_dim // 2)
        file_rows: NDArray[np.int64] = head * self._head_dim + pair * 2 + half
        return file_rows


class OnePlusRows:
    """Add one, in float32, to weights stored as distances from one (Gemma's norms)."""

    __slots__ = ("_source",)

    def __init__(self, source: RowSource) -> None:
        """View a source of such weights."""
        self._source = source

    @property
    def shape(self) -> tuple[int, int]:
        """(N rows, K columns)."""
        return self._source.shape

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        """Decode rows [start, stop): see RowSource."""
        return np.float32(1) + self._source.read_rows(start, stop)

    def read_picked(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Decode the rows named: see RowSource."""
        return np.float32(1) + self._source.read_picked(rows)
