"""Inverse controls: what must not move the contract's bits does move those of plain arithmetic.

Without them, a test of invariance might hold because it changes nothing. Rows, chunks and pages
are in tests/numerics/test_plain.py. The values of neighbours, their number being equal, never
move plain bits either: a row of a matrix product does not read other rows.
"""

import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from samebits.model.decoder import Decoder
from samebits.numerics import portable
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.order_free import OrderFree
from samebits.numerics.plain import Plain
from samebits.numerics.selftest import draw_floats
from tests.engine.tiny import CONFIG, MatrixInMemory, make_tensors
from tests.numerics.cases import have_same_bits, make_rows

MOVING = ["plain-f32", "plain-bf16"]
ROWS, WIDTH, OUTPUTS = 300, 576, 4000
SMALL = replace(CONFIG, width=256, head_dim=64, ffn_width=512)
"""The tiny model, wide enough for bfloat16 to show a difference."""
Change = Callable[[Callable[[int], Arithmetic]], list[NDArray[Any]]]


def open_plain(name: str) -> Callable[[int], Arithmetic]:
    return lambda threads: Plain(name, threads=threads)


def open_portable(threads: int) -> Arithmetic:
    return OrderFree(portable, threads=threads)


def open_native(threads: int) -> Arithmetic:
    return OrderFree(NativeKernels(level=list_levels()[0], threads=threads), threads=threads)


def multiply(arithmetic: Arithmetic, x: NDArray[np.float32]) -> NDArray[Any]:
    weight = arithmetic.load_linear([MatrixInMemory(draw_floats(1, OUTPUTS, WIDTH))])
    return arithmetic.linear(arithmetic.embed(x, 1.0), weight)


def vary_threads(open_with: Callable[[int], Arithmetic]) -> list[NDArray[Any]]:
    """Multiply with one thread and with two, in force both times."""
    x, found = draw_floats(2, ROWS, WIDTH), []
    for threads in (1, 2):
        arithmetic = open_with(threads)
        assert arithmetic.threads == threads
        found.append(multiply(arithmetic, x))
    return found


def vary_order(open_with: Callable[[int], Arithmetic]) -> list[NDArray[Any]]:
    """Multiply the same rows in two orders."""
    x = draw_floats(3, ROWS, WIDTH)
    arithmetic = open_with(1)
    return [multiply(arithmetic, x), multiply(arithmetic, x[::-1].copy())[::-1].copy()]


def vary_neighbours(open_with: Callable[[int], Arithmetic]) -> list[NDArray[Any]]:
    """Step a small model on one sequence alone, then among others."""
    decoder = Decoder(SMALL, make_tensors(SMALL), open_with(1))
    found = []
    for others in (0, 1, 6, 15):
        rows = make_rows([0] * (others + 1), [9] * (others + 1), 16)
        cache = decoder.make_cache(num_pages=int(rows.pages.max()) + 1, page_tokens=16)
        ids = np.random.default_rng(5).integers(0, SMALL.vocab_size, 9 * 16)[: 9 * (others + 1)]
        found.append(decoder.forward(ids, rows, cache, np.arange(9 * (others + 1)))[:9])
    return found


CHANGES: list[Change] = [vary_threads, vary_order, vary_neighbours]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", MOVING)
def test_plain_arithmetic_moves_its_bits(name: str, change: Change) -> None:
    first, *others = change(open_plain(name))
    assert not all(have_same_bits(other, first) for other in others)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("open_with", [open_portable, open_native])
def test_the_contract_does_not(open_with: Callable[[int], Arithmetic], change: Change) -> None:
    first, *others = change(open_with)
    assert all(have_same_bits(other, first) for other in others)


MULTIPLY = """
from tests.properties.test_inverse_controls import print_products
print_products()
"""


def print_products() -> None:
    """Print the processor that BLAS believes to run on, then a digest of a product by name."""
    print(threadpool_info()[0]["architecture"])
    for name in ("sb1", *MOVING):
        arithmetic = open_portable(1) if name == "sb1" else Plain(name)
        product = multiply(arithmetic, draw_floats(4, 33, WIDTH))
        print(name, hashlib.sha256(product.tobytes()).hexdigest())


@cache
def vary_processor() -> tuple[dict[str, str], ...]:
    """Digest products with the BLAS kernels of four generations of processors; by name for each."""
    found, architectures = [], set()
    for core in ("Haswell", "Sandybridge", "Nehalem", "Prescott"):
        done = subprocess.run(
            [sys.executable, "-c", MULTIPLY],
            env={**os.environ, "OPENBLAS_CORETYPE": core, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        architecture, *lines = done.stdout.splitlines()
        architectures.add(architecture)
        found.append(dict(line.split() for line in lines))
    assert len(architectures) == 4, f"BLAS took no notice of OPENBLAS_CORETYPE: {architectures}"
    return tuple(found)


needs_openblas = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64")
    or all(found.get("internal_api") != "openblas" for found in threadpool_info()),
    reason="OPENBLAS_CORETYPE needs OpenBLAS on x86",
)


@needs_openblas
@pytest.mark.parametrize("name", MOVING)
def test_plain_arithmetic_depends_on_the_processor(name: str) -> None:
    assert len({digests[name] for digests in vary_processor()}) > 1


@needs_openblas
def test_the_contract_over_blas_does_not_depend_on_the_processor() -> None:
    assert len({digests["sb1"] for digests in vary_processor()}) == 1
