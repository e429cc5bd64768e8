"""GGUF files, version 2 and 3, little-endian: metadata and the table of tensors.

Every count, length and offset is checked against the file's size, in Python's integers, before it
is used. Knows no families. Format: the GGUF specification in ggml's repository; the rules refused
here are listed one by one in tests/hostile.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from samebits.errors import ModelFileError
from samebits.model.cursor import Cursor
from samebits.model.dequant import find_encoding
from samebits.model.matrix import EncodedMatrix
from samebits.model.weight_file import WeightFile

MAGIC = b"GGUF"

_NAME_LIMIT_BYTES = 1 << 16
_NESTING_LIMIT = 4
_MAX_DIMS = 4
_STRING, _ARRAY, _BOOL = 8, 9, 7
# Type number -> NumPy's name of it; struct formats agree through dtype.char.
_SCALARS = {
    **{0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1"},
    **{10: "<u8", 11: "<i8", 12: "<f8"},
}
_SCALAR_BYTES = {number: np.dtype(name).itemsize for number, name in _SCALARS.items()}
# Least bytes an element of an array can take, so that a count can be checked before it is believed.
_LEAST_BYTES = {**_SCALAR_BYTES, _STRING: 8, _ARRAY: 12}


@dataclass(frozen=True, slots=True, kw_only=True)
class GgufFile:
    """An open GGUF file."""

    file: WeightFile
    metadata: Mapping[str, Any]
    """int, float, bool, str, list (of strings or lists) or NumPy array (of numbers)."""
    tensors: Mapping[str, EncodedMatrix]
    """By name in the file; a vector is one row."""


def open_gguf(path: Path) -> GgufFile:
    """Read the header of a GGUF file and check it against the file's size.

    Raises:
        ModelFileError: The file is damaged, foreign or uses an encoding not read here.
    """
    file = WeightFile(path)
    cursor = Cursor(file)
    num_tensors, num_keys = _read_preamble(cursor)
    metadata = _read_metadata(cursor, num_keys)
    table = _read_table(cursor, num_tensors)
    alignment = _read_alignment(metadata, path)
    data_start = -(-cursor.at // alignment) * alignment
    tensors = {
        entry.name: EncodedMatrix(
            name=entry.name,
            shape=entry.shape,
            encoding=find_encoding(entry.type_id, entry.name),
            file=file,
            offset=data_start + entry.offset,
        )
        for entry in table
    }
    _check_alignment(table, alignment)
    _check_no_overlap(tensors)
    return GgufFile(file=file, metadata=metadata, tensors=tensors)


def _check_no_overlap(tensors: Mapping[str, EncodedMatrix]) -> None:
    """Check that no two tensors share bytes.

    Raises:
        ModelFileError: Two do; names both.
    """
    ordered = sorted(tensors.values(), key=lambda tensor: tensor.offset)
    for one, two in itertools.pairwise(ordered):
        if one.offset + one.num_bytes > two.offset:
            raise ModelFileError(
                expected=f"tensor {two.name!r} at byte {one.offset + one.num_bytes} or later",
                found=f"byte {two.offset}, inside tensor {one.name!r}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    name: str
    shape: tuple[int, int]
    type_id: int
    offset: int


def _read_preamble(cursor: Cursor) -> tuple[int, int]:
    """Check magic and version; return the number of tensors and of metadata keys."""
    path = cursor.file.path
    magic = cursor.take_bytes(4, "the magic number")
    if magic != MAGIC:
        raise ModelFileError(
            expected=f"a GGUF file at {path}", found=f"a file that begins {magic!r}"
        )
    version = cursor.take_u32("the version")
    if version not in (2, 3):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        found = "a big-endian file" if swapped in (2, 3) else f"version {version}"
        raise ModelFileError(expected=f"GGUF version 2 or 3, little-endian, in {path}", found=found)
    num_tensors = cursor.take_u64("the number of tensors")
    num_keys = cursor.take_u64("the number of metadata keys")
    cursor.check_count(num_keys, 13, "metadata keys")
    cursor.check_count(num_tensors, 24, "tensors")
    return num_tensors, num_keys


def _read_metadata(cursor: Cursor, num_keys: int) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for _ in range(num_keys):
        key = _read_name(cursor, "a metadata key")
        if key in metadata:
            raise ModelFileError(expected="metadata keys that differ", found=f"{key!r} twice")
        type_id = cursor.take_u32(f"the type of {key!r}")
        metadata[key] = _read_value(cursor, type_id, f"the value of {key!r}", 0)
    return metadata


def _read_name(cursor: Cursor, what: str) -> str:
    name = cursor.take_string(what)
    if not 0 < len(name) < _NAME_LIMIT_BYTES:
        expected = f"{what} of 1 to {_NAME_LIMIT_BYTES} letters"
        raise ModelFileError(expected=expected, found=f"{len(name)} letters")
    return name


def _read_value(cursor: Cursor, type_id: int, what: str, depth: int) -> Any:
    if type_id == _STRING:
        return cursor.take_string(what)
    if type_id == _ARRAY:
        return _read_array(cursor, what, depth)
    if type_id not in _SCALARS:
        raise ModelFileError(expected=f"a type from 0 to 12 for {what}", found=f"type {type_id}")
    raw = cursor.take_bytes(_SCALAR_BYTES[type_id], what)
    value = np.frombuffer(raw, dtype=_SCALARS[type_id])[0].item()
    return _as_bool(value, what) if type_id == _BOOL else value


def _as_bool(value: int, what: str) -> bool:
    if value not in (0, 1):
        raise ModelFileError(expected=f"0 or 1 for {what}", found=str(value))
    return bool(value)


def _read_array(cursor: Cursor, what: str, depth: int) -> Any:
    type_id = cursor.take_u32(what)
    count = cursor.take_u64(what)
    if type_id not in _LEAST_BYTES:
        raise ModelFileError(
            expected=f"elements of type 0 to 12 in {what}", found=f"type {type_id}"
        )
    if depth >= _NESTING_LIMIT:
        raise ModelFileError(expected=f"at most {_NESTING_LIMIT} arrays in each other", found=what)
    cursor.check_count(count, _LEAST_BYTES[type_id], f"elements of {what}")
    if type_id == _STRING:
        return cursor.take_strings(count, what)
    if type_id == _ARRAY:
        return [_read_value(cursor, type_id, what, depth + 1) for _ in range(count)]
    raw = cursor.take_bytes(count * _SCALAR_BYTES[type_id], what)
    values = np.frombuffer(raw, dtype=_SCALARS[type_id])
    if type_id == _BOOL and values.size:
        _as_bool(int(values.max()), what)
    return values


def _read_table(cursor: Cursor, num_tensors: int) -> list[_Entry]:
    names: set[str] = set()
    table = []
    for _ in range(num_tensors):
        entry = _read_entry(cursor)
        if entry.name in names:
            raise ModelFileError(expected="tensor names that differ", found=f"{entry.name!r} twice")
        names.add(entry.name)
        table.append(entry)
    return table


def _read_entry(cursor: Cursor) -> _Entry:
    name = _read_name(cursor, "a tensor name")
    what = f"the description of tensor {name!r}"
    num_dims = cursor.take_u32(what)
    if num_dims > _MAX_DIMS:
        expected = f"at most {_MAX_DIMS} dimensions for tensor {name!r}"
        raise ModelFileError(expected=expected, found=str(num_dims))
    # The file lists the dimension that varies fastest first: columns, then rows.
    dims = [cursor.take_u64(what) for _ in range(num_dims)]
    columns, rows, *rest = [*dims, 1, 1][: max(2, num_dims)]
    if not columns or not rows or any(size != 1 for size in rest):
        expected = f"a vector or a matrix that is not empty for tensor {name!r}"
        raise ModelFileError(expected=expected, found=f"dimensions {dims}")
    type_id = cursor.take_u32(what)
    offset = cursor.take_u64(what)
    return _Entry(name=name, shape=(rows, columns), type_id=type_id, offset=offset)


def _read_alignment(metadata: Mapping[str, Any], path: Path) -> int:
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 8 or alignment % 8 or alignment > 1 << 20:
        expected = f"a multiple of 8 as general.alignment in {path}"
        raise ModelFileError(expected=expected, found=repr(alignment))
    return alignment


def _check_alignment(table: list[_Entry], alignment: int) -> None:
    for entry in table:
        if entry.offset % alignment:
            raise ModelFileError(
                expected=f"an offset that is a multiple of {alignment} for tensor {entry.name!r}",
                found=str(entry.offset),
            )
