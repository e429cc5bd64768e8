"""The facts of a machine, as plain values that records carry.

No clock, host name, user or path stands in them; two captures of an unchanged machine are equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPool:
    """A library with threads that is loaded in the process."""

    api: str
    """blas or openmp."""
    name: str
    """openblas, mkl, blis, flexiblas, openmp."""
    prefix: str
    """First letters of the file's name, such as libgomp."""
    version: str | None
    architecture: str | None
    """Kernels that the library chose for this processor, as it calls them."""
    threading: str | None
    """pthreads, openmp, intel, gnu …"""
    threads: int
    """Really in force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """Processor, system, Python, packages, libraries and variables."""

    processor: str
    """Model name; empty if the system does not tell."""
    architecture: str
    """x86_64, aarch64, arm64 …"""
    isa: tuple[str, ...]
    """Instruction sets that kernels are chosen by, in order of name; empty if not told."""
    cores: int
    """That this process may use."""
    system: str
    """Linux, Darwin …"""
    kernel: str
    libc: str
    """Name and version; empty if not told."""
    python: str
    """Implementation and version."""
    packages: Mapping[str, str]
    """Installed packages that steer numbers, with local version tags such as +cpu."""
    pools: tuple[ThreadPool, ...]
    """Of libraries already loaded; none is loaded to look."""
    variables: Mapping[str, str]
    """Environment variables that steer numbers and are set."""
