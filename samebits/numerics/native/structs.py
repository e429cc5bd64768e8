"""The structures of samebits.h as ctypes, and how our values become them.

A structure holds addresses, not arrays: whoever keeps one keeps the values it was made from.
"""

from ctypes import Structure, c_double, c_int64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import UnsupportedInput
from samebits.numerics.values import PANEL, AttentionShape, HeadNorms, LayerCache, Rows, Weight


def fields(*names: str) -> tuple[tuple[str, Any], ...]:
    """Declare fields: "name" is a pointer, "name:int" 64 bits, "name:double" binary64."""
    kinds = {"": c_void_p, "int": c_int64, "double": c_double}
    return tuple((name.partition(":")[0], kinds[name.partition(":")[2]]) for name in names)


class CWeight(Structure):
    """samebits.h, sb_weight."""

    _fields_ = fields("packed", "scale", "bias", "num_outputs:int", "num_inputs:int", "bits:int")


class CCache(Structure):
    """samebits.h, sb_cache."""

    _fields_ = fields("keys", "values", "key_exponents", "value_exponents", "page_tokens:int")


class CShape(Structure):
    """samebits.h, sb_shape."""

    _fields_ = fields(
        *("num_heads:int", "num_kv_heads:int", "head_dim:int", "window_tokens:int"),
        "scale:double",
    )


class CRows(Structure):
    """samebits.h, sb_rows."""

    _fields_ = fields("positions", "slots", "starts", "pages", "num_sequences:int", "max_pages:int")


class CHeadNorms(Structure):
    """samebits.h, sb_head_norms."""

    _fields_ = fields("query", "key", "eps:double")


class COp(Structure):
    """samebits.h, sb_op."""

    _fields_ = fields(
        *("kind:int", "input:int", "output:int", "other:int", "width:int", "gelu:int"),
        *("weight", "norm", "shape", "head_norms", "cos", "sin", "cache", "eps:double"),
    )


MAX_HEAD = 1024
"""Widest head the C side takes."""


def check_kind(array: NDArray[Any], dtype: type, shape: tuple[int, ...], what: str) -> None:
    """Refuse an array that is not what the C side reads.

    Raises:
        UnsupportedInput: Another dtype, shape or memory order.
    """
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise UnsupportedInput(
            expected=f"{what} as C-contiguous {np.dtype(dtype).name} {shape}",
            found=f"{array.dtype.name} {array.shape}",
        )


def make_c_weight(weight: Weight) -> CWeight:
    """Describe a weight to the C side.

    Raises:
        UnsupportedInput: Its arrays are not those of its numbers (values.py, Weight).
    """
    panels, dtype = -(-weight.num_outputs // PANEL), np.int16 if weight.bits == 16 else np.int8
    packed_shape = (panels, -(-weight.num_inputs // 2), PANEL, 2)
    check_kind(weight.packed, dtype, packed_shape, "packed weights")
    check_kind(weight.scale, np.float32, (panels * PANEL,), "scales")
    if weight.bias is not None:
        check_kind(weight.bias, np.float32, (weight.num_outputs,), "a bias")
    return CWeight(
        weight.packed.ctypes.data,
        weight.scale.ctypes.data,
        None if weight.bias is None else weight.bias.ctypes.data,
        weight.num_outputs,
        weight.num_inputs,
        weight.bits,
    )


def make_c_shape(shape: AttentionShape) -> CShape:
    """Describe a layer's attention to the C side.

    Raises:
        UnsupportedInput: A head wider than MAX_HEAD, or of odd width.
    """
    if shape.head_dim > MAX_HEAD or shape.head_dim % 2:
        raise UnsupportedInput(
            expected=f"an even head width up to {MAX_HEAD}", found=str(shape.head_dim)
        )
    return CShape(
        shape.num_heads,
        shape.num_kv_heads,
        shape.head_dim,
        shape.window_tokens,
        shape.scale,
    )


def make_c_norms(norms: HeadNorms) -> CHeadNorms:
    """Describe head norms to the C side."""
    return CHeadNorms(norms.query.ctypes.data, norms.key.ctypes.data, norms.eps)


def make_c_rows(rows: Rows) -> CRows:
    """Describe a step's rows to the C side.

    Raises:
        UnsupportedInput: An array of another dtype or shape (values.py, Rows).
    """
    num_rows, num_sequences = len(rows.positions), len(rows.starts) - 1
    check_kind(rows.positions, np.int32, (num_rows,), "positions")
    check_kind(rows.slots, np.int64, (num_rows,), "slots")
    check_kind(rows.starts, np.int32, (num_sequences + 1,), "starts")
    check_kind(rows.pages, np.int32, (num_sequences, rows.pages.shape[1]), "pages")
    return CRows(
        rows.positions.ctypes.data,
        rows.slots.ctypes.data,
        rows.starts.ctypes.data,
        rows.pages.ctypes.data,
        num_sequences,
        rows.pages.shape[1],
    )


def make_c_cache(cache: LayerCache) -> CCache:
    """Describe one layer's cache to the C side."""
    return CCache(
        cache.keys.ctypes.data,
        cache.values.ctypes.data,
        cache.key_exponents.ctypes.data,
        cache.value_exponents.ctypes.data,
        cache.page_tokens,
    )
