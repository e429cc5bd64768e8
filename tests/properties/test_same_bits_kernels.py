"""A whole model step has the same bits under every kernel set, level and thread count."""

from functools import cache

import numpy as np
import pytest

from samebits.numerics import portable, reference
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.order_free import Kernels, OrderFree
from tests.engine.tiny import CONFIG, make_decoder
from tests.numerics.cases import F32, assert_same_bits, make_rows

NATIVE = [(level, threads) for level in (*list_levels(), "wide") for threads in (1, 2)]
PAST, NEW = (0, 21, 40), (33, 1, 7)


def run_steps(kernels: Kernels, bits: int) -> tuple[str, F32, F32]:
    """Prefill three sequences, then step them together; give weights digest and all logits."""
    decoder = make_decoder(OrderFree(kernels, bits=bits, threads=1))
    rows = make_rows(PAST, NEW, 16)
    cache = decoder.make_cache(num_pages=int(rows.pages.max()) + 1, page_tokens=16)
    before = make_rows([0, 0, 0], PAST, 16)._replace(pages=rows.pages)
    page, offset = np.divmod(before.positions, 16)
    owner = np.repeat(np.arange(3), PAST)
    before = before._replace(slots=rows.pages[owner, page].astype(np.int64) * 16 + offset)
    logits = []
    for step, seed in ((before, 1), (rows, 2)):
        ids = np.random.default_rng(seed).integers(0, CONFIG.vocab_size, len(step.positions))
        logits.append(decoder.forward(ids, step, cache, np.arange(len(ids))))
    return decoder.weights_digest(), logits[0], logits[1]


@cache
def expect(bits: int) -> tuple[str, F32, F32]:
    return run_steps(reference, bits)


def assert_as_the_reference(kernels: Kernels, bits: int) -> None:
    digest, *logits = run_steps(kernels, bits)
    expected_digest, *expected = expect(bits)
    assert digest == expected_digest
    for found, wanted in zip(logits, expected, strict=True):
        assert_same_bits(found, wanted)


@pytest.mark.parametrize("bits", [16, 8])
def test_portable_kernels_step_as_the_reference(bits: int) -> None:
    assert_as_the_reference(portable, bits)


@pytest.mark.parametrize("bits", [16, 8])
@pytest.mark.parametrize(("level", "threads"), NATIVE)
def test_native_kernels_step_as_the_reference(level: str, threads: int, bits: int) -> None:
    assert_as_the_reference(NativeKernels(level=level, threads=threads), bits)


def test_weights_of_8_and_16_bits_do_differ() -> None:
    assert expect(16)[1].tobytes() != expect(8)[1].tobytes()
