"""One safetensors file: a table of tensors in JSON, then their bytes without gaps.

Read by position, row by row, like GGUF; every length is checked before it is used.
"""

from math import prod
from pathlib import Path
from typing import Any

from samebits.errors import ModelFileError
from samebits.model.dequant import BF16, F16, F32
from samebits.model.json_file import parse_json
from samebits.model.matrix import EncodedMatrix
from samebits.model.weight_file import WeightFile

_HEADER_LIMIT_BYTES = 100 << 20
_ENCODINGS = {encoding.name: encoding for encoding in (F32, F16, BF16)}


def open_safetensors(path: Path) -> tuple[WeightFile, dict[str, EncodedMatrix]]:
    """Read the table of a safetensors file and check it against the file's size.

    Raises:
        ModelFileError: The file is damaged, foreign or holds a type not read here.
    """
    file = WeightFile(path)
    header_bytes = _read_header_len(file)
    table = parse_json(file.read(8, header_bytes).tobytes(), f"the header of {path}")
    table.pop("__metadata__", None)
    start = 8 + header_bytes
    tensors = {name: _make_tensor(name, entry, file, start) for name, entry in table.items()}
    _check_no_gaps(tensors, file, start)
    return file, tensors


def _read_header_len(file: WeightFile) -> int:
    if file.size < 8:
        raise ModelFileError(
            expected=f"a safetensors file at {file.path}", found=f"{file.size} bytes"
        )
    header_bytes = int.from_bytes(file.read(0, 8).tobytes(), "little")
    if header_bytes > min(file.size - 8, _HEADER_LIMIT_BYTES):
        raise ModelFileError(
            expected=f"a header of at most {min(file.size - 8, _HEADER_LIMIT_BYTES)} bytes in "
            f"{file.path}",
            found=str(header_bytes),
            remedy="The file is cut off or no safetensors file.",
        )
    return header_bytes


def _make_tensor(name: str, entry: Any, file: WeightFile, start: int) -> EncodedMatrix:
    where = f"tensor {name!r} of {file.path}"
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise ModelFileError(
            expected=f"dtype, shape and data_offsets for {where}", found=f"{entry!r:.200}"
        )
    encoding = _ENCODINGS.get(str(entry["dtype"]))
    if encoding is None:
        raise ModelFileError(
            expected=f"one of {', '.join(_ENCODINGS)} for {where}", found=str(entry["dtype"])
        )
    shape = _check_sizes(entry["shape"], f"shape of {where}")
    offsets = _check_sizes(entry["data_offsets"], f"data_offsets of {where}")
    if not 1 <= len(shape) <= 2 or 0 in shape:
        raise ModelFileError(
            expected=f"a vector or a matrix that is not empty for {where}",
            found=f"shape {shape}",
        )
    num_bytes = prod(shape) * encoding.block_bytes
    if len(offsets) != 2 or offsets[1] - offsets[0] != num_bytes:
        raise ModelFileError(
            expected=f"data_offsets {num_bytes} bytes apart for {where}", found=str(offsets)
        )
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    return EncodedMatrix(
        name=name, shape=(rows, columns), encoding=encoding, file=file, offset=start + offsets[0]
    )


def _check_sizes(value: Any, what: str) -> list[int]:
    is_list = isinstance(value, list)
    if not is_list or any(type(size) is not int or size < 0 for size in value):
        raise ModelFileError(
            expected=f"a list of integers from 0 as {what}", found=f"{value!r:.200}"
        )
    return list(value)


def _check_no_gaps(tensors: dict[str, EncodedMatrix], file: WeightFile, start: int) -> None:
    """Check that each tensor begins where the one before ends, up to the end of the file."""
    at = start
    for tensor in sorted(tensors.values(), key=lambda one: one.offset):
        if tensor.offset != at:
            raise ModelFileError(
                expected=f"tensor {tensor.name!r} at byte {at} of {file.path}",
                found=f"byte {tensor.offset}: tensors overlap or leave a gap",
            )
        at += tensor.num_bytes
    if at != file.size:
        raise ModelFileError(
            expected=f"{at} bytes in {file.path}", found=f"{file.size}: more than its tensors"
        )
