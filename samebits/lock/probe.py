"""Runs the numeric probe in another process, so that its environment acts and ours is left alone.

What a list of versions cannot tell, the digests do: the same program on the same kernels gives the
same bytes, and other bytes mean that something below is other, whatever its name.
"""

import importlib.util
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import ConfigError, RecordCorrupt
from samebits.lock.capture import order_pool
from samebits.lock.facts import ThreadPool
from samebits.lock.probe_child import MARK, NOT_REPEATABLE
from samebits.record.canonical import parse_json
from samebits.record.typed import read_typed

CHILD = Path(__file__).with_name("probe_child.py")
TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchFacts:
    """What PyTorch is built with, and what is in force after it has computed."""

    version: str
    capability: str
    """Level of its own kernels: DEFAULT, AVX2, AVX512 …"""
    threads: int
    interop_threads: int
    mkl_threads: int | None
    """None without MKL."""
    mkl: str
    """Version; empty if it is built without, here and below."""
    onednn: str
    cuda: str
    deterministic: bool
    """Whether deterministic algorithms are demanded."""
    matmul_precision: str
    """highest, high or medium."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPackage:
    """An installed package as the interpreter tells it."""

    name: str
    version: str
    record: str | None
    """Digest of what its wheel held; None without a RECORD."""
    origin: str
    """Empty: an index; else folder, editable folder, file, or commit with its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """What an interpreter computes, and on what."""

    python: str
    libc: str
    packages: tuple[FoundPackage, ...]
    pools: tuple[ThreadPool, ...]
    """Of all libraries that were loaded after the computation, in order."""
    torch: TorchFacts | None
    digests: Mapping[str, str]
    """By name such as torch.softmax.bfloat16; "not repeatable", "not available"."""
    lacks: tuple[str, ...]
    """What is not there, in sentences."""


def run_probe(
    python: str, variables: Mapping[str, str], *, timeout_s: float = TIMEOUT_S
) -> ProbeResult:
    """Compute the fixed things twice in each of two processes.

    Args:
        python: An interpreter from Python 3.9 on; samebits need not be installed there.
        variables: The whole environment of the processes.
    Raises:
        ConfigError: It cannot be started, ends early or takes longer than `timeout_s`.
    """
    command = [python, str(CHILD), find_threadpoolctl()]
    end = time.monotonic() + timeout_s
    try:
        with start(command, variables) as first, start(command, variables) as second:
            one, other = (read_result(process, end) for process in (first, second))
    except subprocess.TimeoutExpired as error:
        raise ConfigError(
            expected=f"the numeric probe to end in {timeout_s:g} s", found="no end"
        ) from error
    return join(one, other)


def find_threadpoolctl() -> str:
    """Find the file of threadpoolctl, which is one file and needs nothing else."""
    spec = importlib.util.find_spec("threadpoolctl")
    return str(spec.origin) if spec is not None else ""


@contextmanager
def start(command: list[str], variables: Mapping[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """Start a process whose notes nobody sees, as they may hold anything; it is ended in any case.

    Raises:
        ConfigError: It does not start.
    """
    try:
        process = subprocess.Popen(
            command,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, ValueError) as error:
        found = getattr(error, "strerror", None) or type(error).__name__
        raise ConfigError(expected="a Python interpreter that starts", found=found) from error
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_result(process: "subprocess.Popen[bytes]", end: float) -> ProbeResult:
    """Wait for a process until an end, in seconds of the monotonic clock, and read its line."""
    output, _ = process.communicate(timeout=max(end - time.monotonic(), 0))
    lines = [line for line in output.splitlines() if line.startswith(MARK.encode())]
    if process.returncode or len(lines) != 1:
        raise refuse_end(process.returncode)
    try:
        value = parse_json(lines[0].removeprefix(MARK.encode()))
        result: ProbeResult = read_typed(ProbeResult, value, "probe")
    except RecordCorrupt as error:
        raise refuse_end(process.returncode) from error
    return result


def refuse_end(code: int) -> ConfigError:
    """Make the error for a probe that did not do what it should."""
    ends = {-4: "an illegal instruction: a variable asks for more than the processor has"}
    said = ends.get(code, f"it ended with {code}" if code else "it says something else")
    return ConfigError(
        expected="the numeric probe to run in that Python, with these variables",
        found=said,
        remedy=f"To see its own words, run {CHILD.name} of samebits/lock with that Python.",
    )


def join(one: ProbeResult, other: ProbeResult) -> ProbeResult:
    """Keep the digests that both processes give; what else differs is said to be unsteady."""
    digests = {
        name: value if other.digests.get(name) == value else NOT_REPEATABLE
        for name, value in one.digests.items()
    }
    pools = tuple(sorted(one.pools, key=order_pool))
    unsteady = [
        f"{what} differ between two processes"
        for what, same in (
            ("thread pools", pools == tuple(sorted(other.pools, key=order_pool))),
            ("facts of torch", one.torch == other.torch),
            ("packages", one.packages == other.packages),
        )
        if not same
    ]
    return ProbeResult(
        python=one.python,
        libc=one.libc,
        packages=one.packages,
        pools=pools,
        torch=one.torch,
        digests=digests,
        lacks=(*one.lacks, *unsteady),
    )
