"""What surrounds a call of the C kernels: modes, threads, forks, callers. None reaches the bits."""

import ctypes
import ctypes.util
import gc
import os
import platform
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from samebits.errors import ConfigError
from samebits.numerics import reference
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.selftest import CASES, digest_case, draw_integers, load_answers
from tests.numerics.cases import assert_same_bits, hard_rows, make_weight

BEST = list_levels()[0]
TASKS = Path("/proc/self/task")
LIBM = ctypes.CDLL(ctypes.util.find_library("m"))
ROUNDINGS = (
    {"upward": 0x400000, "downward": 0x800000, "toward zero": 0xC00000}
    if platform.machine() in ("aarch64", "arm64")
    else {"upward": 0x800, "downward": 0x400, "toward zero": 0xC00}
)
"""FE_UPWARD, FE_DOWNWARD and FE_TOWARDZERO of fenv.h."""


@contextmanager
def rounding(mode: int) -> Iterator[None]:
    """Round another way in this thread."""
    before = LIBM.fegetround()
    assert LIBM.fesetround(mode) == 0
    try:
        yield
    finally:
        LIBM.fesetround(before)


@contextmanager
def flushing() -> Iterator[None]:
    """Flush subnormals to zero, and take them for zero, in this thread."""
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormals")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def subnormal_gates(rows: int) -> NDArray[np.float32]:
    """Make gates whose every result is subnormal."""
    u = (draw_integers(1, rows, 512) & 0x7FFFFF).astype(np.uint32).view(np.float32)
    return np.concatenate([np.ones((rows, 512), np.float32), u], axis=1)


def ask_all(kernels: NativeKernels) -> dict[str, str]:
    return {name: digest_case(name, kernels) for name in CASES}


@pytest.mark.parametrize("level", [*list_levels(), "wide"])
def test_a_caller_that_flushes_subnormals_does_not_change_bits(level: str) -> None:
    kernels = NativeKernels(level=level, threads=2)
    gu = subnormal_gates(500)
    expected = reference.gate(gu, "silu")
    assert np.count_nonzero(expected.view(np.uint32)) > 200_000
    with flushing():
        found = kernels.gate(gu, "silu")
        answers = ask_all(kernels)
    assert_same_bits(found, expected)
    assert answers == load_answers()


def test_a_pool_opened_by_a_caller_that_flushes_does_not_keep_flushing() -> None:
    gu = subnormal_gates(20_000)
    with flushing():
        kernels = NativeKernels(level=BEST, threads=2)
    for _ in range(3):
        assert_same_bits(kernels.gate(gu, "silu"), reference.gate(gu, "silu"))


@pytest.mark.parametrize("level", [*list_levels(), "wide"])
@pytest.mark.parametrize("mode", ROUNDINGS)
def test_a_caller_that_rounds_another_way_does_not_change_bits(level: str, mode: str) -> None:
    kernels = NativeKernels(level=level, threads=2)
    with rounding(ROUNDINGS[mode]):
        answers = ask_all(kernels)
    assert answers == load_answers()


def test_a_call_gives_the_caller_its_modes_back() -> None:
    kernels = NativeKernels(level=BEST, threads=1)
    with rounding(ROUNDINGS["upward"]):
        kernels.gate(subnormal_gates(1), "silu")
        assert LIBM.fegetround() == ROUNDINGS["upward"]
    assert LIBM.fegetround() == 0


def count_tasks() -> int:
    return len(list(TASKS.iterdir()))


def run_times() -> dict[str, int]:
    """Give the nanoseconds that each thread of this process has run."""
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in TASKS.iterdir()}


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/task")


@linux_only
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_the_threads_asked_for_exist_and_work_and_go(threads: int) -> None:
    gc.collect()
    before = run_times()
    kernels = NativeKernels(level=BEST, threads=threads)
    assert kernels.threads == threads
    new = sorted(set(run_times()) - set(before))
    assert len(new) == threads - 1
    idle = run_times()
    x, weight = hard_rows(64, 513), make_weight(320, 513)
    for _ in range(3):
        kernels.linear(x, weight)
    worked = run_times()
    assert all(worked[task] > idle[task] for task in new)
    del kernels
    assert count_tasks() == len(before)


def test_thread_counts_that_cannot_be_are_refused() -> None:
    for threads in (0, -1):
        with pytest.raises(ConfigError, match="threads"):
            NativeKernels(level=BEST, threads=threads)


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    assert ask_all(NativeKernels(level=BEST, threads=threads)) == load_answers()


CALLERS = """
    import sys
    from concurrent.futures import ThreadPoolExecutor
    from samebits.numerics import reference
    from samebits.numerics.native.kernels import NativeKernels
    from samebits.numerics.selftest import draw_floats, draw_weight

    kernels = NativeKernels(level=sys.argv[1], threads=int(sys.argv[2]))
    weight = draw_weight(640, 577, 16, False)
    inputs = [draw_floats(rows, rows, 577) for rows in (1, 38, 75, 112)]
    expected = [reference.linear(x, weight).tobytes() for x in inputs]

    def repeat(index):
        x = inputs[index]
        return sum(kernels.linear(x, weight).tobytes() != expected[index] for _ in range(50))

    with ThreadPoolExecutor(4) as executor:
        assert list(executor.map(repeat, range(4))) == [0, 0, 0, 0]
"""


def run_script(script: str, *arguments: str) -> None:
    """Run a script in a process of its own, so that a crash is one failure."""
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", ["1", "2"])
def test_callers_in_several_threads_do_not_disturb_each_other(threads: str) -> None:
    run_script(CALLERS, BEST, threads)


FORK = """
    import os, sys
    from samebits.numerics.native.kernels import NativeKernels
    from samebits.numerics.selftest import check_kernels

    def count():
        return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else None

    kernels = NativeKernels(level=sys.argv[1], threads=3)
    assert check_kernels(kernels) == ()
    alone = count()
    child = os.fork()
    if child == 0:
        failures = check_kernels(kernels)
        same_threads = kernels.threads == 3 and count() == alone
        os._exit(0 if not failures and same_threads else 1)
    assert check_kernels(kernels) == ()
    assert os.waitpid(child, 0)[1] == 0, "the child computed something else"
    assert check_kernels(kernels) == () and count() == alone
"""


@pytest.mark.parametrize("level", list_levels())
def test_a_child_of_a_fork_has_its_own_threads_and_the_same_bits(level: str) -> None:
    run_script(FORK, level)
