"""The C kernels as a kernel set: finds the library, picks a level, checks shapes, calls.

Nothing is loaded at import. Arrays of another dtype, shape or layout are refused, never converted.
What the C side computes is decided in docs/numerics.md; the C side is level.c, api.c and pool.c.
"""

import ctypes
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_double, c_float, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ConfigError, InvariantBroken, UnsupportedInput
from samebits.numerics.arithmetic import Walk
from samebits.numerics.native.program import Program, record
from samebits.numerics.native.structs import (
    CCache,
    COp,
    CRows,
    CShape,
    CWeight,
    address_of,
    make_c_cache,
    make_c_norms,
    make_c_rows,
    make_c_shape,
    make_c_weight,
    table_addresses,
)
from samebits.numerics.reference import check_gate, check_linear
from samebits.numerics.values import (
    AttentionShape,
    HeadNorms,
    LayerCache,
    RopeTable,
    Rows,
    Weight,
)

F32 = NDArray[np.float32]

LEVELS = ("avx512vnni", "avx512", "avx2", "generic")
"""Instruction-set levels, best first. `wide`, the AVX-512 code without AVX-512, is for tests."""
NOT_FINITE = 1
NO_MEMORY = 2


SIGNATURES: dict[str, list[Any]] = {
    "sb_quantise_rows": [c_void_p, c_void_p, c_int64, c_int64, c_void_p, c_void_p],
    "sb_quantise_weight": [c_void_p, c_void_p, c_int64, c_int64, c_int, c_void_p, c_void_p],
    "sb_linear": [c_void_p, POINTER(CWeight), c_void_p, c_int64, c_void_p, c_void_p],
    "sb_rms_norm": [c_void_p, c_void_p, c_void_p, c_double, c_int64, c_int64, c_void_p],
    "sb_rope_append": [
        *(c_void_p, c_void_p, POINTER(CShape), c_void_p, c_void_p, c_void_p),
        *(POINTER(CRows), POINTER(CCache), c_void_p),
    ],
    "sb_attention": [
        *(c_void_p, c_void_p, POINTER(CShape), POINTER(CRows), POINTER(CCache), c_void_p),
    ],
    "sb_gate": [c_void_p, c_void_p, c_int, c_int64, c_int64, c_void_p],
    "sb_argmax": [c_void_p, c_void_p, c_int64, c_int64, c_void_p],
    "sb_softmax_weights": [c_void_p, c_void_p, c_float, c_int64, c_void_p],
    "sb_run": [
        *(c_void_p, POINTER(COp), c_int64, c_int64, c_int64),
        *(POINTER(CRows), c_void_p, c_void_p, POINTER(c_int64)),
    ],
    "sb_log_probabilities": [c_void_p, c_void_p, c_int64, c_int64, c_void_p],
}


def find_library() -> Path | None:
    """Give the path of the compiled library; None if this installation has none."""
    for suffix in (".so", ".dylib"):
        path = Path(__file__).with_name(f"libsamebits{suffix}")
        if path.exists():
            return path
    return None


@cache
def load_library() -> ctypes.CDLL:
    """Load the compiled library once.

    Raises:
        ConfigError: This installation has none, or the file cannot be loaded.
    """
    path = find_library()
    if path is None:
        raise ConfigError(
            expected="the compiled kernels (libsamebits)",
            found="an installation made without a C compiler",
            remedy="Install gcc or clang and reinstall, or use the portable kernels.",
        )
    try:
        return declare(ctypes.CDLL(str(path)))
    except (OSError, AttributeError) as error:
        raise ConfigError(
            expected="a libsamebits made from these sources",
            found=str(error),
            remedy="Reinstall samebits; from a checkout, run scripts/setup.",
        ) from error


def declare(library: ctypes.CDLL) -> ctypes.CDLL:
    """Tell ctypes the signature of every function; AttributeError if one is missing."""
    library.sb_open.argtypes, library.sb_open.restype = [c_char_p, c_int], c_void_p
    library.sb_close.argtypes, library.sb_close.restype = [c_void_p], None
    library.sb_threads.argtypes = [c_void_p]
    library.sb_has_level.argtypes = [c_char_p]
    for name, types in SIGNATURES.items():
        getattr(library, name).argtypes = types
    return library


def list_levels() -> tuple[str, ...]:
    """List the levels this processor can run, best first; empty without the library."""
    if find_library() is None:
        return ()
    return tuple(name for name in LEVELS if load_library().sb_has_level(name.encode()))


def check_status(status: int, what: str) -> None:
    """Turn a status of the C side into an error.

    Raises:
        UnsupportedInput: NaN or infinity.
        MemoryError: The scratch memory could not be had.
        InvariantBroken: A status nobody defined.
    """
    if status == NOT_FINITE:
        raise UnsupportedInput(expected=f"finite numbers in {what}", found="NaN or infinity")
    if status == NO_MEMORY:
        raise MemoryError(f"no scratch memory for {what}")
    if status:
        raise InvariantBroken(expected="a known status", found=f"{status} from {what}")


class NativeKernels:
    """The contract in C, on a number of threads that is really in force.

    Attributes:
        level: The instruction-set level in use.
        threads: Threads in force, the caller's included.
    """

    def __init__(self, *, level: str, threads: int) -> None:
        """Start the threads.

        Raises:
            ConfigError: No library, a level this processor lacks, or threads that cannot be had.
        """
        self.library = load_library()
        if not self.library.sb_has_level(level.encode()):
            raise ConfigError(expected=f"one of {', '.join(list_levels())}", found=level)
        self.context = self.library.sb_open(level.encode(), threads)
        if not self.context:
            raise ConfigError(expected="threads the system can start", found=str(threads))
        self.level = level
        self.recorded: tuple[Walk, Sequence[LayerCache], Program] | None = None

    def __del__(self) -> None:
        if getattr(self, "context", None):
            self.library.sb_close(self.context)

    @property
    def threads(self) -> int:
        """Threads in force."""
        return int(self.library.sb_threads(self.context))

    def quantise_rows(self, x: F32) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
        """See reference.quantise_rows."""
        q, e = np.empty(x.shape, np.int16), np.empty(x.shape[:-1], np.int32)
        at = address_of(x, np.float32, x.shape, "rows")
        status = self.library.sb_quantise_rows(
            self.context, at, e.size, x.shape[-1], q.ctypes.data, e.ctypes.data
        )
        check_status(status, "an activation")
        return q, e

    def quantise_weight(
        self, w: F32, bits: int
    ) -> tuple[NDArray[np.int16] | NDArray[np.int8], F32]:
        """See reference.quantise_weight."""
        q = np.empty(w.shape, np.int16) if bits == 16 else np.empty(w.shape, np.int8)
        s = np.empty(len(w), np.float32)
        at = address_of(w, np.float32, w.shape, "weights")
        status = self.library.sb_quantise_weight(
            self.context, at, w.shape[0], w.shape[1], bits, q.ctypes.data, s.ctypes.data
        )
        check_status(status, "a weight")
        return q, s

    def linear(self, x: F32, weight: Weight, residual: F32 | None = None) -> F32:
        """See reference.linear."""
        check_linear(x, weight)
        y = np.empty((len(x), weight.num_outputs), np.float32)
        at = None if residual is None else address_of(residual, np.float32, y.shape, "residual")
        status = self.library.sb_linear(
            self.context,
            byref(make_c_weight(weight)),
            address_of(x, np.float32, x.shape, "activations"),
            len(x),
            at,
            y.ctypes.data,
        )
        check_status(status, "an activation")
        return y

    def rms_norm(self, x: F32, weight: F32, eps: float) -> F32:
        """See reference.rms_norm."""
        y = np.empty(x.shape, np.float32)
        status = self.library.sb_rms_norm(
            self.context,
            address_of(x, np.float32, x.shape, "activations"),
            address_of(weight, np.float32, x.shape[-1:], "a norm weight"),
            eps,
            x.size // x.shape[-1],
            x.shape[-1],
            y.ctypes.data,
        )
        check_status(status, "a norm's input")
        return y

    def rope_append(
        self,
        qkv: F32,
        shape: AttentionShape,
        norms: HeadNorms | None,
        table: RopeTable,
        rows: Rows,
        cache: LayerCache,
    ) -> F32:
        """See reference.rope_append."""
        c_shape = make_c_shape(shape)
        heads = shape.num_heads + 2 * shape.num_kv_heads
        q = np.empty((len(qkv), shape.num_heads, shape.head_dim), np.float32)
        status = self.library.sb_rope_append(
            self.context,
            address_of(qkv, np.float32, (len(rows.positions), heads * shape.head_dim), "qkv"),
            byref(c_shape),
            None if norms is None else byref(make_c_norms(norms, shape.head_dim)),
            *table_addresses(table, shape.head_dim),
            byref(make_c_rows(rows)),
            byref(make_c_cache(cache, shape)),
            q.ctypes.data,
        )
        check_status(status, "a query, key or value")
        return q

    def attention(self, q: F32, shape: AttentionShape, rows: Rows, cache: LayerCache) -> F32:
        """See reference.attention."""
        c_shape = make_c_shape(shape)
        expected = (len(rows.positions), shape.num_heads, shape.head_dim)
        out = np.empty((len(q), shape.num_heads * shape.head_dim), np.float32)
        status = self.library.sb_attention(
            self.context,
            address_of(q, np.float32, expected, "queries"),
            byref(c_shape),
            byref(make_c_rows(rows)),
            byref(make_c_cache(cache, shape)),
            out.ctypes.data,
        )
        check_status(status, "an attention score")
        return out

    def run(self, walk: Walk, x: F32, rows: Rows, cache: Sequence[LayerCache]) -> F32:
        """Run a decoder's walk through its layers in one call.

        Args:
            walk: as (operations, x, rows, cache); recorded at its first use with this cache.
            x: (R, D).
        Returns:
            (R, D).
        """
        if self.recorded is None or self.recorded[0] != walk or self.recorded[1] is not cache:
            self.recorded = (walk, cache, record(walk, x.shape[1], rows, cache))
        program = self.recorded[2]
        at = address_of(x, np.float32, (len(rows.positions), x.shape[1]), "activations")
        y, failed = np.empty_like(x), c_int64(0)
        status = self.library.sb_run(
            self.context,
            program.ops,
            len(program.ops),
            program.num_buffers,
            program.max_width,
            byref(make_c_rows(rows)),
            at,
            y.ctypes.data,
            byref(failed),
        )
        check_status(status, f"operation {failed.value} ({program.names[failed.value]})")
        return y

    def gate(self, gu: F32, activation: str) -> F32:
        """See reference.gate."""
        check_gate(gu.shape[-1], activation)
        width = gu.shape[1] // 2
        y = np.empty((len(gu), width), np.float32)
        at = address_of(gu, np.float32, gu.shape, "gates")
        is_gelu = activation == "gelu_tanh"
        self.library.sb_gate(self.context, at, is_gelu, len(gu), width, y.ctypes.data)
        return y

    def argmax(self, logits: F32) -> NDArray[np.int64]:
        """See reference.argmax."""
        ids = np.empty(len(logits), np.int64)
        at = address_of(logits, np.float32, logits.shape, "logits")
        status = self.library.sb_argmax(self.context, at, *logits.shape, ids.ctypes.data)
        check_status(status, "logits")
        return ids

    def softmax_weights(self, logits: F32, factor: np.float32) -> NDArray[np.int64]:
        """See reference.softmax_weights."""
        w = np.empty(logits.shape, np.int64)
        at = address_of(logits, np.float32, logits.shape, "logits")
        status = self.library.sb_softmax_weights(
            self.context, at, float(factor), logits.size, w.ctypes.data
        )
        check_status(status, "logits")
        return w

    def log_probabilities(self, logits: F32) -> F32:
        """See reference.log_probabilities."""
        out = np.empty_like(logits)
        at = address_of(logits, np.float32, logits.shape, "logits")
        status = self.library.sb_log_probabilities(self.context, at, *logits.shape, out.ctypes.data)
        check_status(status, "logits")
        return out
