"""The structures of samebits.h as ctypes, and how our values become them.

A structure holds addresses, not arrays: whoever keeps one keeps the values it was made from.
"""

from ctypes import Structure, c_float, c_int64, c_void_p
from typing import Any

from samebits.numerics.reference import score_factor
from samebits.numerics.values import AttentionShape, HeadNorms, LayerCache, Rows, Weight


def fields(*names: str) -> tuple[tuple[str, Any], ...]:
    """Declare fields: "name" is a pointer, "name:int" 64 bits, "name:float" binary32."""
    kinds = {"": c_void_p, "int": c_int64, "float": c_float}
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
        "score_factor:float",
    )


class CRows(Structure):
    """samebits.h, sb_rows."""

    _fields_ = fields("positions", "slots", "starts", "pages", "num_sequences:int", "max_pages:int")


class CHeadNorms(Structure):
    """samebits.h, sb_head_norms."""

    _fields_ = fields("query", "key", "eps:float")


class COp(Structure):
    """samebits.h, sb_op."""

    _fields_ = fields(
        *("kind:int", "input:int", "output:int", "other:int", "width:int", "gelu:int"),
        *("weight", "norm", "shape", "head_norms", "cos", "sin", "cache", "eps:float"),
    )


def make_c_weight(weight: Weight) -> CWeight:
    """Describe a weight to the C side."""
    return CWeight(
        weight.packed.ctypes.data,
        weight.scale.ctypes.data,
        None if weight.bias is None else weight.bias.ctypes.data,
        weight.num_outputs,
        weight.num_inputs,
        weight.bits,
    )


def make_c_shape(shape: AttentionShape) -> CShape:
    """Describe a layer's attention to the C side."""
    return CShape(
        shape.num_heads,
        shape.num_kv_heads,
        shape.head_dim,
        shape.window_tokens,
        float(score_factor(shape.scale)),
    )


def make_c_norms(norms: HeadNorms) -> CHeadNorms:
    """Describe head norms to the C side."""
    return CHeadNorms(norms.query.ctypes.data, norms.key.ctypes.data, norms.eps)


def make_c_rows(rows: Rows) -> CRows:
    """Describe a step's rows to the C side."""
    return CRows(
        rows.positions.ctypes.data,
        rows.slots.ctypes.data,
        rows.starts.ctypes.data,
        rows.pages.ctypes.data,
        len(rows.starts) - 1,
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
