"""The self-test passes every sound kernel set and names what a broken one gets wrong."""

import ctypes
import ctypes.util
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from samebits.errors import UnsupportedInput
from samebits.numerics import portable, reference, selftest
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.order_free import Kernels
from samebits.numerics.selftest import CASES, check_kernels, check_thread
from samebits.numerics.values import Weight, unpack_weight
from tests.numerics.cases import F32

OPERATIONS = (
    *("quantise_rows", "quantise_weight", "linear", "rms_norm", "rope_append", "attention"),
    *("gate", "argmax", "softmax_weights", "log_probabilities"),
)


def break_kernels(**broken: Callable[..., Any]) -> Kernels:
    """Make the portable kernels with some operations replaced."""
    sound = {name: getattr(portable, name) for name in OPERATIONS}
    kernels: Any = SimpleNamespace(**{**sound, **broken})
    return kernels  # type: ignore[no-any-return]


def saturating_linear(x: F32, weight: Weight, residual: F32 | None = None) -> F32:
    """Add pairs of products with saturation at 31 bits, as a 16-bit vpmaddubsw would at 15."""
    q, e = reference.quantise_rows(x)
    w = unpack_weight(weight, 0, len(weight.packed)).astype(np.int64)
    pairs = np.zeros((len(q), len(w), (q.shape[1] + 1) // 2), np.int64)
    for parity in (0, 1):
        products = q[:, None, parity::2].astype(np.int64) * w[None, :, parity::2]
        pairs[..., : products.shape[2]] += products
    limit = 2**29 if weight.bits == 16 else 2**22
    acc = np.clip(pairs, -limit, limit).sum(axis=-1)
    return reference.scale_sums(acc, e, weight, residual)


def wrapping_linear(x: F32, weight: Weight, residual: F32 | None = None) -> F32:
    """Let the sums of 16-bit weights wrap at 45 bits, those of 8-bit weights at 31."""
    q, e = reference.quantise_rows(x)
    half = 2**44 if weight.bits == 16 else 2**30
    acc = (reference.accumulate(q, weight) + half) % (2 * half) - half
    return reference.scale_sums(acc, e, weight, residual)


def flush(x: NDArray[Any]) -> NDArray[Any]:
    """Replace subnormals by zero."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, x * np.float32(0), x)


def rows_with_ties_away_from_zero(x: F32) -> tuple[NDArray[np.int16], NDArray[np.int32]]:
    """Quantise with halves rounded away from zero."""
    _, e = reference.quantise_rows(x)
    scaled = x * reference.pow2(15 - e)[..., None]
    q = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    q = np.where(e[..., None] == reference.ZERO_EXPONENT, 0, np.clip(q, -32767, 32767))
    return q.astype(np.int16), e


def last_argmax(logits: F32) -> NDArray[np.int64]:
    """Let ties go to the highest id."""
    ids: NDArray[np.int64] = logits.shape[-1] - 1 - reference.argmax(logits[:, ::-1])
    return ids


def fused_gate(gu: F32, activation: str) -> F32:
    """Compute in double precision and round once."""
    g, u = np.split(gu.astype(np.float64), 2, axis=-1)
    with np.errstate(over="ignore"):
        y: F32 = (g / (1 + np.exp(-g)) * u).astype(np.float32)
    return y


def attention_of_everything(q: F32, shape: Any, rows: Any, cache: Any) -> F32:
    """Forget the window."""
    whole = type(shape)(
        num_heads=shape.num_heads,
        num_kv_heads=shape.num_kv_heads,
        head_dim=shape.head_dim,
        scale=shape.scale,
    )
    return portable.attention(q, whole, rows, cache)


def stale_attention(q: F32, shape: Any, rows: Any, cache: Any) -> F32:
    """See one token too many: the slot behind the last, whatever lies there."""
    return portable.attention(q, shape, rows._replace(positions=rows.positions + 1), cache)


@pytest.mark.parametrize("name", ["reference", "portable", *list_levels(), "wide"])
def test_sound_kernels_pass(name: str) -> None:
    sets = {"reference": reference, "portable": portable}
    kernels = sets[name] if name in sets else NativeKernels(level=name, threads=2)
    assert check_kernels(kernels) == ()


BROKEN: dict[str, tuple[dict[str, Callable[..., Any]], set[str]]] = {
    "saturates": (
        {"linear": saturating_linear},
        {"extreme sums, 16-bit weights", "extreme sums, 8-bit weights", "long sum"},
    ),
    "wraps": ({"linear": wrapping_linear}, {"long sum", "extreme sums, 8-bit weights"}),
    "flushes the products": (
        {"linear": lambda *a: flush(reference.linear(*a))},
        {"linear, 16-bit weights", "linear, 8-bit weights"},
    ),
    "flushes the norm's input": (
        {"rms_norm": lambda x, w, eps: reference.rms_norm(flush(x), w, eps)},
        {"RMSNorm"},
    ),
    "flushes the gate": (
        {"gate": lambda gu, a: flush(reference.gate(gu, a))},
        {"gate, SiLU", "gate, GELU"},
    ),
    "rounds ties away": ({"quantise_rows": rows_with_ties_away_from_zero}, {"quantisers"}),
    "takes the last of ties": ({"argmax": last_argmax}, {"sampling"}),
    "fuses the gate": ({"gate": fused_gate}, {"gate, SiLU", "gate, GELU"}),
    "forgets the window": (
        {"attention": attention_of_everything},
        {"attention, window and head norms"},
    ),
    "reads stale slots": (
        {"attention": stale_attention},
        {"attention", "attention, window and head norms"},
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_kernels_are_caught_and_named(how: str) -> None:
    broken, named = BROKEN[how]
    failures = set(check_kernels(break_kernels(**broken)))
    assert named <= failures
    assert failures <= set(CASES)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_is_off_by_one_bit_is_caught(operation: str) -> None:
    def off(*arguments: Any) -> Any:
        answer = getattr(portable, operation)(*arguments)
        first = answer[0] if isinstance(answer, tuple) else answer
        first.view(np.uint8).reshape(-1)[-1] ^= 1
        return answer

    assert check_kernels(break_kernels(**{operation: off}))


def test_a_refusal_counts_as_a_failure() -> None:
    def refuse(logits: F32) -> Any:
        raise UnsupportedInput(expected="nothing", found="something")

    assert check_kernels(break_kernels(argmax=refuse)) == ("sampling",)


def test_the_reference_still_gives_the_pinned_answers() -> None:
    answers = selftest.load_answers()
    assert list(answers) == list(CASES)
    assert {name: selftest.digest_case(name, reference) for name in CASES} == answers


def test_a_thread_that_flushes_subnormals_is_noticed() -> None:
    assert check_thread() == ()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormals")
    try:
        failures = check_thread()
    finally:
        torch.set_flush_denormal(False)
    assert failures == (
        "this thread flushes results to zero",
        "this thread takes subnormals for zero",
    )
    assert check_thread() == ()


def test_a_thread_that_rounds_another_way_is_noticed() -> None:
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    noticed = []
    for mode in (0x400, 0x800, 0xC00, 0x400000, 0x800000, 0xC00000):  # x86, then aarch64
        if libm.fesetround(mode) == 0:
            try:
                noticed.append(check_thread())
            finally:
                libm.fesetround(0)
    assert len(noticed) == 3
    assert set(noticed) == {("this thread does not round to nearest even",)}


def test_a_level_is_tested_within_milliseconds() -> None:
    # A bound on effort, not a benchmark: processor time, ten times what it takes.
    kernels = NativeKernels(level=list_levels()[0], threads=1)
    check_kernels(kernels)
    start = time.process_time()
    check_kernels(kernels)
    assert time.process_time() - start < 0.25
