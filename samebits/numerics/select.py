"""Choose the arithmetic and its kernels: self-tested first, then the fastest.

The choice changes speed and never bits, so it may depend on the machine and on a clock.
Decided in docs/numerics.md, "Self-test at start".
"""

import os
import time
from typing import NamedTuple

import numpy as np

from samebits.errors import ConfigError, InvariantBroken
from samebits.numerics import portable, reference
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.choice import Candidate, Choice
from samebits.numerics.native.kernels import (
    LEVELS,
    NativeKernels,
    find_library,
    list_levels,
    load_library,
)
from samebits.numerics.order_free import Kernels, OrderFree
from samebits.numerics.plain import PRECISIONS, Plain
from samebits.numerics.selftest import check_kernels, check_modes, fill_weight

ARITHMETICS = ("sb1", *PRECISIONS)
KERNELS = ("auto", "native", "portable", "reference")
MAX_THREADS = 1024
"""More are refused: nobody means them."""
PROBE_S = 0.004
"""Time given to each candidate's probe."""
LEAST_TURNS = 5
"""Turns of the probe even where other work eats the time: one turn may be all waiting."""
CLEARLY = 0.8
"""A lower level is taken only if it needs less than this share of the higher one's time."""


def select_arithmetic(
    name: str,
    *,
    bits: int = 16,
    threads: int | None = None,
    max_isa: str | None = None,
    kernels: str = "auto",
) -> Arithmetic:
    """Choose an arithmetic, with kernels that passed the self-test.

    Args:
        name: sb1, plain-f32, plain-bf16 or plain-f64.
        bits: Of a weight under sb1: 16 or 8.
        threads: In force afterwards; None: one for each processor this process may use.
        max_isa: Highest level of native kernels; None: no cap.
        kernels: native, portable or reference force a kind; auto takes native if there is one.
    Raises:
        ConfigError: An unknown name, native kernels where there are none, or a thread whose
            floating-point modes are not the default ones.
        InvariantBroken: No kernel set passed the self-test.
    """
    check_choice("arithmetic", name, ARITHMETICS)
    check_choice("kernels", kernels, KERNELS)
    if max_isa is not None:
        check_choice("max_isa", max_isa, LEVELS)
    wanted = check_threads(count_processors() if threads is None else threads)
    if name != "sb1":
        return Plain(name, threads=wanted)
    check_modes()
    tried = list(try_kinds(kernels, max_isa, wanted))
    chosen = pick(tried)
    arithmetic = OrderFree(chosen, bits=bits, threads=wanted)
    arithmetic.candidates = tuple(trial.candidate for trial in tried)
    return arithmetic


def describe_choice(arithmetic: Arithmetic) -> Choice:
    """Say which kernels, level and threads are in force now, and what was considered."""
    threads, has_library = arithmetic.threads, find_library() is not None
    if not isinstance(arithmetic, OrderFree):
        return Choice(
            kernels="numpy", level=None, threads=threads, has_library=has_library, candidates=()
        )
    return Choice(
        kernels=name_kind(arithmetic.kernels),
        level=getattr(arithmetic.kernels, "level", None),
        threads=threads,
        has_library=has_library,
        candidates=arithmetic.candidates,
    )


def name_kind(kernels: Kernels) -> str:
    """Give native, portable, reference, or the type's name of a set made elsewhere."""
    if isinstance(kernels, NativeKernels):
        return "native"
    names = {id(portable): "portable", id(reference): "reference"}
    return names.get(id(kernels), type(kernels).__name__)


def check_choice(what: str, found: str, allowed: tuple[str, ...]) -> None:
    """Refuse a name that does not exist.

    Raises:
        ConfigError: It lists those that do.
    """
    if found not in allowed:
        raise ConfigError(expected=f"{what} one of {', '.join(allowed)}", found=repr(found))


def check_threads(threads: int) -> int:
    """Refuse a thread count that cannot be meant.

    Raises:
        ConfigError: Below 1 or above MAX_THREADS.
    """
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        raise ConfigError(expected=f"1 to {MAX_THREADS} threads", found=repr(threads))
    return threads


def count_processors() -> int:
    """Count the processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Trial(NamedTuple):
    """A kernel set and how it did."""

    kernels: Kernels
    candidate: Candidate


def try_kinds(kind: str, max_isa: str | None, threads: int) -> list[Trial]:
    """Self-test the kernel sets of a kind, in the order of preference.

    Under auto the portable set is tried only if no native one may be used.
    """
    if kind in ("portable", "reference"):
        return [try_set(kind, portable if kind == "portable" else reference)]
    trials = []
    if kind == "native" or find_library() is not None:
        trials = compare([try_native(level, threads) for level in list_allowed(max_isa)])
    if kind == "auto" and all(trial.candidate.failures for trial in trials):
        trials.append(try_set("portable", portable))
    return trials


def list_allowed(max_isa: str | None) -> tuple[str, ...]:
    """List the native levels that run here and are not above max_isa, best first.

    Raises:
        ConfigError: There is no compiled library.
    """
    load_library()
    allowed = LEVELS if max_isa is None else LEVELS[LEVELS.index(max_isa) :]
    return tuple(level for level in list_levels() if level in allowed)


def try_native(level: str, threads: int) -> Trial:
    """Open a level with its threads and self-test it."""
    return try_set(f"native/{level}", NativeKernels(level=level, threads=threads))


def try_set(name: str, kernels: Kernels) -> Trial:
    """Self-test a kernel set."""
    candidate = Candidate(name=name, failures=check_kernels(kernels), seconds=None)
    return Trial(kernels, candidate)


def compare(trials: list[Trial]) -> list[Trial]:
    """Time those that passed, if they are several, in turns: a busy moment hits all alike."""
    passed = [trial.kernels for trial in trials if not trial.candidate.failures]
    if len(passed) < 2:
        return trials
    seconds = dict(zip(map(id, passed), time_kernels(passed), strict=True))
    return [
        Trial(
            kernels,
            Candidate(
                name=candidate.name,
                failures=candidate.failures,
                seconds=seconds.get(id(kernels)),
            ),
        )
        for kernels, candidate in trials
    ]


def time_kernels(sets: list[Kernels]) -> list[float]:
    """Time a product with many rows and one with a single row; the best of several turns each."""
    weight = fill_weight(256, 576, 16, 1000)
    inputs = [np.ones((rows, 576), np.float32) for rows in (32, 1)]
    best = [[float("inf")] * len(inputs) for _ in sets]
    deadline, turns = time.perf_counter() + PROBE_S * len(sets), 0
    while turns < LEAST_TURNS or time.perf_counter() < deadline:
        turns += 1
        for times, kernels in zip(best, sets, strict=True):
            for i, x in enumerate(inputs):
                start = time.perf_counter()
                kernels.linear(x, weight)
                times[i] = min(times[i], time.perf_counter() - start)
    return [sum(times) for times in best]


def pick(trials: list[Trial]) -> Kernels:
    """Take the first that passed, or a later one that is clearly faster.

    Raises:
        InvariantBroken: None passed.
    """
    passed = [trial for trial in trials if not trial.candidate.failures]
    if not passed:
        raise InvariantBroken(
            expected="kernels that pass the self-test",
            found="; ".join(f"{t.candidate.name} {t.candidate.outcome}" for t in trials),
            remedy="Report this with the processor's name. No result would be trustworthy.",
        )
    best = passed[0]
    for trial in passed[1:]:
        if (trial.candidate.seconds or 0.0) < CLEARLY * (best.candidate.seconds or 0.0):
            best = trial
    return best.kernels
