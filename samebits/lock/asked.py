"""What was asked of libraries, held against what is in force after they have computed.

A setting that a library ignores leaves no other trace (USER-CASES D2).
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from samebits.lock.compare import KERNELS, Difference, Severity
from samebits.lock.contents import Lock
from samebits.lock.facts import ThreadPool
from samebits.lock.variables import SPLITS

READERS: Mapping[str, tuple[str, ...]] = {
    "openmp": ("OMP_NUM_THREADS",),
    "openblas": ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"),
    "mkl": ("MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    "blis": ("BLIS_NUM_THREADS", "OMP_NUM_THREADS"),
}
"""Variables that each kind of library reads, first the one that it obeys."""
ALONE = "it was asked, and no library that is loaded reads it"


def find_ignored(lock: Lock) -> tuple[Difference, ...]:
    """Name every setting that is not in force: its field begins with "asked"."""
    return (*find_threads(lock), *find_limited(lock), *find_unread(lock), *find_kernels(lock))


def find_threads(lock: Lock) -> Iterator[Difference]:
    """Compare asked numbers of threads with those of each library that could obey."""
    for library, kind, count in list_counts(lock):
        asked = ask_each(lock, READERS.get(kind, ()))
        for name, number in (("threads", lock.threads), *asked):
            if number is not None and number != count:
                yield make_finding(f"asked.{name}.{library}", number, count, SPLITS)


def find_limited(lock: Lock) -> Iterator[Difference]:
    """Compare asked numbers of threads with OpenMP's limit, which libraries do not count in."""
    limit = read_count(lock, "OMP_THREAD_LIMIT")
    for name, number in (("threads", lock.threads), *ask_each(lock, ("OMP_NUM_THREADS",))):
        if limit is not None and number is not None and number > limit:
            yield make_finding(f"asked.{name}.OMP_THREAD_LIMIT", number, limit, SPLITS)


def ask_each(lock: Lock, names: Sequence[str]) -> list[tuple[str, int | None]]:
    """List the numbers of threads that variables ask for."""
    return [(name, read_count(lock, name)) for name in names]


def list_counts(lock: Lock) -> Iterator[tuple[str, str, int]]:
    """List libraries with their kinds and the threads that they use."""
    for pool in lock.machine.pools:
        yield pool.prefix, pool.name, pool.threads
    if lock.torch is not None:
        yield "torch", "openmp", lock.torch.threads
        if lock.torch.mkl_threads is not None:
            yield "mkl of torch", "mkl", lock.torch.mkl_threads


def read_count(lock: Lock, name: str) -> int | None:
    """Read the number of threads that a variable asks for; None if it asks for none."""
    found = re.match(r"\d+", lock.machine.variables.get(name, ""))
    return int(found.group()) if found else None


def find_unread(lock: Lock) -> Iterator[Difference]:
    """Name thread variables of libraries that are not there, if the others use other numbers."""
    counts = list(list_counts(lock))
    read = {name for _, kind, _ in counts for name in READERS.get(kind, ())}
    for name in sorted({name for names in READERS.values() for name in names} - read):
        number = read_count(lock, name)
        others = sorted({count for _, _, count in counts} - {number})
        if number is not None and others:
            yield make_finding(f"asked.{name}", number, " and ".join(map(str, others)), ALONE)


def find_kernels(lock: Lock) -> Iterator[Difference]:
    """Compare asked kernels with those that libraries say they chose."""
    variables = lock.machine.variables
    level = variables.get("ATEN_CPU_CAPABILITY", "")
    if level and lock.torch is not None and lock.torch.capability.lower() != level.lower():
        yield make_finding("asked.ATEN_CPU_CAPABILITY.torch", level, lock.torch.capability, KERNELS)
    core = variables.get("OPENBLAS_CORETYPE", "")
    for pool in lock.machine.pools:
        if core and is_other_core(pool, core):
            yield make_finding(
                f"asked.OPENBLAS_CORETYPE.{pool.prefix}", core, pool.architecture, KERNELS
            )


def is_other_core(pool: ThreadPool, core: str) -> bool:
    """Answer whether an OpenBLAS uses other kernels than asked."""
    chosen = (pool.architecture or "").lower()
    return pool.name == "openblas" and bool(chosen) and chosen != core.lower()


def make_finding(field: str, asked: object, found: object, effect: str) -> Difference:
    """Name a setting that is not in force: `a` is what was asked, `b` what is in force."""
    return Difference(
        field=field,
        a=str(asked),
        b=str(found),
        severity=Severity.MOVES_BITS,
        effect=effect,
    )
