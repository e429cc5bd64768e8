"""The structures of samebits.h as ctypes, and how our values become them.

A structure holds addresses, not arrays: whoever keeps one keeps the values it was made from.
"""

from ctypes import Structure, c_double, c_int64, c_void_p
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import UnsupportedInput
from samebits.numerics.values import (
    PANEL,
    AttentionShape,
    HeadNorms,
    LayerCache,
    RopeTable,
    Rows,
    Weight,
)


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


def address_of(array: NDArray[Any], dtype: type, shape: tuple[int, ...], what: str) -> int:
    """Give the address of an array that is exactly as expected; nothing is converted.

    Raises:
        UnsupportedInput: Another dtype, shape or memory order, or no columns at all.
    """
    is_laid_out = array.flags.c_contiguous and array.flags.aligned
    if array.dtype != dtype or array.shape != shape or not is_laid_out or not shape[-1]:
        order = "" if is_laid_out else ", not contiguous or not aligned"
        wanted = shape if shape[-1] else (*shape[:-1], "at least 1")
        raise UnsupportedInput(
            expected=f"{what} as C-contiguous {np.dtype(dtype).name} {wanted}",
            found=f"{array.dtype.name} {array.shape}{order}",
        )
    return array.ctypes.data


def make_c_weight(weight: Weight) -> CWeight:
    """Describe a weight to the C side.

    Raises:
        UnsupportedInput: Its arrays are not those of its numbers (values.py, Weight).
    """
    panels, dtype = -(-weight.num_outputs // PANEL), np.int16 if weight.bits == 16 else np.int8
    packed_shape = (panels, -(-weight.num_inputs // 2), PANEL, 2)
    return CWeight(
        address_of(weight.packed, dtype, packed_shape, "packed weights"),
        address_of(weight.scale, np.float32, (panels * PANEL,), "scales"),
        None
        if weight.bias is None
        else address_of(weight.bias, np.float32, (weight.num_outputs,), "a bias"),
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


def make_c_norms(norms: HeadNorms, head_dim: int) -> CHeadNorms:
    """Describe head norms to the C side."""
    return CHeadNorms(
        address_of(norms.query, np.float32, (head_dim,), "a norm of query heads"),
        address_of(norms.key, np.float32, (head_dim,), "a norm of key heads"),
        norms.eps,
    )


def table_addresses(table: RopeTable, head_dim: int) -> tuple[int, int]:
    """Give the addresses of cosines and sines, (positions, D/2) each."""
    shape = (len(table.cos), head_dim // 2)
    return (
        address_of(table.cos, np.float32, shape, "cosines"),
        address_of(table.sin, np.float32, shape, "sines"),
    )


def make_c_rows(rows: Rows) -> CRows:
    """Describe a step's rows to the C side."""
    num_rows, num_sequences, max_pages = len(rows.positions), len(rows.pages), rows.pages.shape[1]
    return CRows(
        address_of(rows.positions, np.int32, (num_rows,), "positions"),
        address_of(rows.slots, np.int64, (num_rows,), "slots"),
        address_of(rows.starts, np.int32, (num_sequences + 1,), "starts"),
        address_of(rows.pages, np.int32, (num_sequences, max_pages), "pages"),
        num_sequences,
        max_pages,
    )


def make_c_cache(cache: LayerCache, shape: AttentionShape) -> CCache:
    """Describe one layer's cache to the C side."""
    tokens, width = cache.page_tokens, shape.head_dim
    pages = (len(cache.keys), shape.num_kv_heads)
    panels = (*pages, tokens // PANEL, width // 2, PANEL, 2)
    return CCache(
        address_of(cache.keys, np.int16, panels, "cached keys"),
        address_of(cache.values, np.int16, (*pages, tokens // 2, width, 2), "cached values"),
        address_of(cache.key_exponents, np.int16, (*pages, tokens), "key exponents"),
        address_of(cache.value_exponents, np.int16, (*pages, tokens), "value exponents"),
        tokens,
    )
