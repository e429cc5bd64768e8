"""The start-up self-test: a kernel set against known answers, in milliseconds.

The inputs are where kernels of this kind go wrong: operands at their limits, sums at the edges of
32-bit blocks, ties, subnormals, zero rows, partial pages, stale memory. The answers are digests in
selftest.json, made by the reference; `python -m tests.golden.regenerate` makes them again.
Inputs come from integers alone, so that a processor in a strange mode gets the right questions.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ConfigError, SamebitsError
from samebits.numerics.order_free import Kernels
from samebits.numerics.reference import LOG2_E
from samebits.numerics.values import (
    LIMIT,
    PANEL,
    AttentionShape,
    HeadNorms,
    LayerCache,
    RopeTable,
    Rows,
    Weight,
    make_cache,
)

F32 = NDArray[np.float32]
Arrays = Iterator[NDArray[Any]]

ANSWERS = Path(__file__).with_name("selftest.json")
EDGES = (1, 33, 511, 513, 514, 1027)
"""Widths around the 256 pairs that fit an int32."""
BEYOND_CARRY = 65539
"""A width beyond the 32,768 pairs after which whole products are flushed."""


def draw_integers(seed: int, *shape: int) -> NDArray[np.int64]:
    """Draw integers in [0, 2**63), each a function of seed and place.

    Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014.
    """
    z = np.arange(1, math.prod(shape) + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = z + np.uint64(seed * 0xD1342543DE82EF95 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(1)).astype(np.int64).reshape(shape)


def draw_floats(seed: int, *shape: int, low: int = -8, high: int = 4) -> F32:
    """Draw binary32 numbers of either sign, magnitudes in [2**low, 2**high), from bits."""
    z = draw_integers(seed, *shape)
    bits = (z & 0x7FFFFF) | ((z >> 23) % (high - low) + low + 127) << 23 | (z >> 62) << 31
    return bits.astype(np.uint32).view(np.float32)


def from_bits(*bits: int) -> F32:
    """Make binary32 numbers from their bits."""
    return np.array(bits, np.uint32).view(np.float32)


def hard_rows(width: int) -> F32:
    """Make 9 awkward rows: extremes, outliers, ties, powers of two, tiny, subnormal and zero."""
    x = draw_floats(width, 9, width)
    signs = draw_integers(width + 1, 9, width) >> 20 & 1
    odd = (draw_integers(width + 2, width) % 65534 - 32767) * 2 + 1
    x[0] = np.where(signs[0], 65504.0, -65504.0)
    x[1, width // 2] = 25600.0
    x[2] = np.ldexp(odd.astype(np.float32), -16)  # halves of a unit: ties of the quantiser
    x[3] = np.minimum(np.abs(x[3]), 1.0)
    x[3, width // 3] = -4.0
    x[4] = np.where(signs[4], x[4], from_bits(0x007FFFFF)[0])
    x[5] = (draw_integers(width + 3, width) & 0x7FFFFF).astype(np.uint32).view(np.float32)
    x[6] = np.where(signs[6], from_bits(0x80000000)[0], from_bits(0)[0])
    x[7] = np.where(signs[7], from_bits(0x1F800000)[0], from_bits(0x9F7FFFFF)[0])
    return x


def fill_weight(num_outputs: int, num_inputs: int, bits: int, unit: int) -> Weight:
    """Make a weight of +unit and -unit, output by output, without packing anything."""
    panels = -(-num_outputs // PANEL)
    kind = np.int16 if bits == 16 else np.int8
    row = np.where(np.arange(PANEL) % 3 == 1, -unit, unit).astype(kind)
    shape = (panels, -(-num_inputs // 2), PANEL, 2)
    packed = np.empty((*shape[:2], 2 * PANEL), kind)
    packed[...] = row.repeat(2)
    packed = packed.reshape(shape)
    if num_inputs % 2:
        packed[:, -1, :, 1] = 0
    scale = draw_floats(num_outputs, panels * PANEL)
    return Weight(
        packed=packed,
        scale=scale,
        bias=None,
        num_outputs=num_outputs,
        num_inputs=num_inputs,
        bits=bits,
    )


def draw_weight(num_outputs: int, num_inputs: int, bits: int, bias: bool) -> Weight:
    """Draw packed weights over their whole range; scales down to where products are subnormal."""
    panels, limit = -(-num_outputs // PANEL), LIMIT[bits]
    shape = (panels, -(-num_inputs // 2), PANEL, 2)
    values = draw_integers(num_inputs, *shape) % (2 * limit + 1) - limit
    if num_inputs % 2:
        values[:, -1, :, 1] = 0
    scale = draw_floats(num_outputs, panels * PANEL, low=-40)
    scale[::5] = from_bits(0x00000123)[0]
    return Weight(
        packed=values.astype(np.int16) if bits == 16 else values.astype(np.int8),
        scale=scale,
        bias=draw_floats(num_inputs, num_outputs) if bias else None,
        num_outputs=num_outputs,
        num_inputs=num_inputs,
        bits=bits,
    )


def case_quantisers(kernels: Kernels) -> Arrays:
    """Ties, extremes, subnormals, zero rows."""
    x = hard_rows(77)
    yield from kernels.quantise_rows(x)
    for bits in (16, 8):
        yield from kernels.quantise_weight(x, bits)


def extreme_rows(rows: int, width: int) -> F32:
    """Make rows whose quantised magnitudes are all 32767; signs by row: all +, all -, mixed."""
    x = np.full((rows, width), from_bits(0x3F7FFFFF)[0])
    x[1::3] = from_bits(0xBF7FFFFF)[0]
    x[2::3, ::3] = from_bits(0xBF7FFFFF)[0]
    return x


def case_extreme_sums(kernels: Kernels, bits: int) -> Arrays:
    """All operands at their limit, at the edges of every block: what overflows or saturates."""
    for width in EDGES:
        yield kernels.linear(extreme_rows(7, width), fill_weight(17, width, bits, LIMIT[bits]))


def case_long_sum(kernels: Kernels) -> Arrays:
    """One row and one panel so wide that every 32-bit accumulator has to be flushed."""
    weight = fill_weight(5, BEYOND_CARRY, 16, LIMIT[16])
    yield kernels.linear(extreme_rows(1, BEYOND_CARRY), weight)


def case_linear(kernels: Kernels, bits: int) -> Arrays:
    """Hard rows, odd width, ragged outputs, bias, residual, subnormal results."""
    x = hard_rows(259)
    yield kernels.linear(x, draw_weight(33, 259, bits, True), draw_floats(3, 9, 33))
    yield kernels.linear(x[5:6], draw_weight(16, 259, bits, False))
    yield kernels.linear(x[4:5], draw_weight(16, 259, bits, False))


def case_rms_norm(kernels: Kernels) -> Arrays:
    """Hard rows; with and without a useful eps."""
    x = hard_rows(101)
    for eps in (1e-5, 2.0**-126):
        yield kernels.rms_norm(x, draw_floats(9, 101), eps)


def make_step(page_tokens: int) -> tuple[Rows, int]:
    """Lay out three sequences, one of them prefilling, pages in no order; and count the pages."""
    past, new = (0, 37, 5), (19, 1, 3)
    pages = np.array([[4, 1, 0], [2, 6, 3], [5, 0, 0]], np.int32)
    positions = np.concatenate([np.arange(p, p + n) for p, n in zip(past, new, strict=True)])
    owner = np.repeat(np.arange(3), new)
    slots = pages[owner, positions // page_tokens] * page_tokens + positions % page_tokens
    starts = np.cumsum((0, *new)).astype(np.int32)
    return Rows(positions.astype(np.int32), slots.astype(np.int64), starts, pages), 7


def fill_cache(num_pages: int, page_tokens: int, shape: AttentionShape) -> LayerCache:
    """Make a cache full of numbers: what a step does not own is as bad as what it does."""
    cache = make_cache(
        num_pages=num_pages,
        page_tokens=page_tokens,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
    )
    for array in (cache.keys, cache.values):
        array[...] = draw_integers(array.shape[3], *array.shape) % 65535 - 32767
    for array in (cache.key_exponents, cache.value_exponents):
        array[...] = draw_integers(array.shape[1], *array.shape) % 24 - 20
    return cache


def case_attention(kernels: Kernels, window: int, with_norms: bool) -> Arrays:
    """Append and attend: prefill and decode together, partial pages, a window, ragged heads."""
    shape = AttentionShape(
        num_heads=6, num_kv_heads=2, head_dim=24, scale=0.2, window_tokens=window
    )
    rows, num_pages = make_step(16)
    cache = fill_cache(num_pages, 16, shape)
    angles = [draw_floats(seed, 64, 12, low=-3, high=0) for seed in (1, 2)]
    norms = HeadNorms(query=draw_floats(3, 24), key=draw_floats(4, 24), eps=1e-6)
    qkv = draw_floats(5, len(rows.positions), 10 * 24)
    qkv[1] = 0.0
    table = RopeTable(cos=angles[0], sin=angles[1])
    q = kernels.rope_append(qkv, shape, norms if with_norms else None, table, rows, cache)
    yield q
    yield from (cache.keys, cache.values, cache.key_exponents, cache.value_exponents)
    yield kernels.attention(q, shape, rows, cache)


def case_gate(kernels: Kernels, activation: str) -> Arrays:
    """The polynomial everywhere, its clipped ends, ties of its rounding, subnormals."""
    g = draw_floats(11, 1, 512, low=-30, high=9)
    g[0, :6] = from_bits(0x00000001, 0x80000000, 0x53800000, 0xD3800000, 0x42AEAC50, 0x3F000000)
    u = draw_floats(12, 1, 512)
    u[0, 6:9] = from_bits(0x00000077, 0x00400000, 0x80000001)
    yield kernels.gate(np.concatenate([g, u], axis=1), activation)


def draw_logits(seed: int, *shape: int) -> F32:
    """Draw numbers in (-64, 64) with many ties."""
    return ((draw_integers(seed, *shape) % 4095 - 2047) / 32).astype(np.float32)


def case_sampling(kernels: Kernels) -> Arrays:
    """Ties of argmax, weights down to nothing, log-probabilities."""
    logits = draw_logits(21, 3, 517)
    logits[1] = np.where(draw_integers(22, 517) >> 9 & 1, from_bits(0x80000000)[0], np.float32(0))
    yield kernels.argmax(logits)
    for row in logits:
        yield kernels.softmax_weights(row, LOG2_E)
    yield kernels.softmax_weights(logits[0], from_bits(0x3CF5C28F)[0])
    yield kernels.log_probabilities(logits)


CASES: dict[str, Callable[[Kernels], Arrays]] = {
    "quantisers": case_quantisers,
    "extreme sums, 16-bit weights": lambda k: case_extreme_sums(k, 16),
    "extreme sums, 8-bit weights": lambda k: case_extreme_sums(k, 8),
    "long sum": case_long_sum,
    "linear, 16-bit weights": lambda k: case_linear(k, 16),
    "linear, 8-bit weights": lambda k: case_linear(k, 8),
    "RMSNorm": case_rms_norm,
    "attention": lambda k: case_attention(k, 0, False),
    "attention, window and head norms": lambda k: case_attention(k, 11, True),
    "gate, SiLU": lambda k: case_gate(k, "silu"),
    "gate, GELU": lambda k: case_gate(k, "gelu_tanh"),
    "sampling": case_sampling,
}


def digest_case(name: str, kernels: Kernels) -> str:
    """Digest what a kernel set answers in one case: dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for array in CASES[name](kernels):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


@cache
def load_answers() -> dict[str, str]:
    """Read the known answers: sha256 in hexadecimal by case."""
    answers: dict[str, str] = json.loads(ANSWERS.read_text(encoding="utf-8"))
    return answers


def check_kernels(kernels: Kernels) -> tuple[str, ...]:
    """Name the cases in which a kernel set does not give the known answer."""
    return tuple(
        name for name, answer in load_answers().items() if not passes(name, answer, kernels)
    )


def passes(name: str, answer: str, kernels: Kernels) -> bool:
    """Say whether one case gives its known answer; a refusal is a failure too."""
    try:
        return digest_case(name, kernels) == answer
    except SamebitsError:
        return False


def check_thread() -> tuple[str, ...]:
    """Name what is wrong with the floating-point modes of the calling thread, as NumPy sees it."""
    failures = []
    smallest_normal, half, subnormal = from_bits(0x00800000, 0x3F000000, 0x00000400)
    if not int((smallest_normal * half).view(np.uint32)):
        failures.append("this thread flushes results to zero")
    if not int((subnormal * np.float32(1024.0)).view(np.uint32)):
        failures.append("this thread takes subnormals for zero")
    if not rounds_to_nearest_even():
        failures.append("this thread does not round to nearest even")
    return tuple(failures)


def check_modes() -> None:
    """Refuse to compute in a thread whose floating-point modes are not the contract's.

    Raises:
        ConfigError: It flushes to zero or rounds another way.
    """
    if failures := check_thread():
        raise ConfigError(
            expected="IEEE 754 default modes in the calling thread",
            found="; ".join(failures),
            remedy="Another library changed them: call samebits from a thread it does not touch.",
        )


def rounds_to_nearest_even() -> bool:
    """Say whether ties go to even, on both sides of zero and in both directions."""
    one = from_bits(0x3F800000, 0x3F800001, 0xBF800000, 0xBF800001)
    half_unit = from_bits(0x33800000, 0x33800000, 0xB3800000, 0xB3800000)
    found: list[int] = (one + half_unit).view(np.uint32).tolist()
    return found == [0x3F800000, 0x3F800002, 0xBF800000, 0xBF800002]
