"""The golden cases of single operations; their digests are operations.json.

Inputs are functions of integers (selftest.draw_integers), never of a library's random generator.
Larger than the self-test's, and of shapes that a model has.
"""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.numerics.order_free import Kernels
from samebits.numerics.philox import draw_u64
from samebits.numerics.reference import LOG2_E
from samebits.numerics.rope import Scaling, make_rope_table
from samebits.numerics.selftest import (
    draw_floats,
    draw_integers,
    draw_logits,
    draw_weight,
    fill_cache,
    hard_rows,
)
from samebits.numerics.values import AttentionShape, HeadNorms, Rows

Arrays = Iterator[NDArray[Any]]
PAGE_TOKENS = 32
PAST, NEW = (0, 129, 1), (33, 1, 16)


def quantise_rows(kernels: Kernels) -> Arrays:
    yield from kernels.quantise_rows(hard_rows(576))
    yield from kernels.quantise_rows(draw_floats(1, 33, 1537, low=-60, high=30))


def quantise_weight(kernels: Kernels, bits: int) -> Arrays:
    yield from kernels.quantise_weight(hard_rows(576), bits)
    yield from kernels.quantise_weight(draw_floats(2, 100, 64, low=-12, high=0), bits)


def linear(kernels: Kernels, bits: int) -> Arrays:
    x = hard_rows(1100)
    yield kernels.linear(x, draw_weight(100, 1100, bits, False))
    yield kernels.linear(x[:1], draw_weight(100, 1100, bits, True))
    many = draw_floats(3, 65, 577)
    yield kernels.linear(many, draw_weight(49, 577, bits, True), draw_floats(4, 65, 49))


def rms_norm(kernels: Kernels) -> Arrays:
    yield kernels.rms_norm(hard_rows(576), draw_floats(5, 576), 1e-5)


def attention(kernels: Kernels, shape: AttentionShape) -> Arrays:
    """Append and attend; what is appended is part of the answer."""
    width = shape.head_dim
    rows = make_step()
    cache = fill_cache(int(rows.pages.max()) + 1, PAGE_TOKENS, shape)
    norms = HeadNorms(query=draw_floats(6, width), key=draw_floats(7, width), eps=1e-6)
    table = make_rope_table(width, 1e4, max(PAST) + max(NEW) + 1)
    heads = shape.num_heads + 2 * shape.num_kv_heads
    qkv = draw_floats(8, len(rows.positions), heads * width)
    q = kernels.rope_append(qkv, shape, norms if shape.window_tokens else None, table, rows, cache)
    yield q
    yield from (cache.keys, cache.values, cache.key_exponents, cache.value_exponents)
    yield kernels.attention(q, shape, rows, cache)


def make_step() -> Rows:
    """Lay out a prefill, a decode and a chunk; pages in falling order."""
    most = -(-(max(PAST) + max(NEW)) // PAGE_TOKENS)
    pages = np.arange(len(PAST) * most, dtype=np.int32)[::-1].reshape(len(PAST), most).copy()
    positions = np.concatenate([np.arange(p, p + n) for p, n in zip(PAST, NEW, strict=True)])
    owner = np.repeat(np.arange(len(PAST)), NEW)
    slots = pages[owner, positions // PAGE_TOKENS] * PAGE_TOKENS + positions % PAGE_TOKENS
    starts = np.cumsum((0, *NEW)).astype(np.int32)
    return Rows(positions.astype(np.int32), slots.astype(np.int64), starts, pages)


def gate(kernels: Kernels, activation: str) -> Arrays:
    yield kernels.gate(draw_floats(9, 7, 2 * 1001, low=-30, high=9), activation)


def argmax(kernels: Kernels) -> Arrays:
    yield kernels.argmax(draw_logits(10, 9, 3001))


def softmax_weights(kernels: Kernels) -> Arrays:
    factors = np.array([LOG2_E, 0.7, 0.01], np.float32)
    for row, factor in zip(draw_logits(11, 3, 3001), factors, strict=True):
        yield kernels.softmax_weights(row, factor)


def log_probabilities(kernels: Kernels) -> Arrays:
    yield kernels.log_probabilities(draw_logits(12, 3, 3001))


def rope_tables(_: Kernels) -> Arrays:
    """Tables come from no kernel set, but are part of the contract."""
    scaling = Scaling(
        kind="llama3",
        factor=32.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_context=64,
    )
    for table in (make_rope_table(64, 1e5, 300), make_rope_table(24, 5e5, 300, scaling)):
        yield table.cos
        yield table.sin


def draws(_: Kernels) -> Arrays:
    """What sampling draws, likewise."""
    seeds = draw_integers(13, 16).tolist()
    yield np.array([draw_u64(s, i % 3, i) for i, s in enumerate(seeds)], np.uint64)


def make_shape(heads: int, kv_heads: int, head_dim: int, window: int) -> AttentionShape:
    return AttentionShape(
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        scale=head_dim**-0.5,
        window_tokens=window,
    )


CASES: dict[str, Callable[[Kernels], Arrays]] = {
    "quantise_rows": quantise_rows,
    "quantise_weight 16": lambda k: quantise_weight(k, 16),
    "quantise_weight 8": lambda k: quantise_weight(k, 8),
    "linear 16": lambda k: linear(k, 16),
    "linear 8": lambda k: linear(k, 8),
    "rms_norm": rms_norm,
    "rope_append, attention 9/3x64": lambda k: attention(k, make_shape(9, 3, 64, 0)),
    "rope_append, attention 4/1x256, window 20": lambda k: attention(k, make_shape(4, 1, 256, 20)),
    "rope_append, attention 2/2x80": lambda k: attention(k, make_shape(2, 2, 80, 0)),
    "gate silu": lambda k: gate(k, "silu"),
    "gate gelu_tanh": lambda k: gate(k, "gelu_tanh"),
    "argmax": argmax,
    "softmax_weights": softmax_weights,
    "log_probabilities": log_probabilities,
    "rope tables": rope_tables,
    "draws": draws,
}


def digest_case(name: str, kernels: Kernels) -> str:
    """Digest what a kernel set gives in one case: dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for array in CASES[name](kernels):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.tobytes())
    return f"sha256:{digest.hexdigest()}"
