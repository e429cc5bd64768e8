"""The facts of a machine, as plain values that records carry.

No clock, host name, user or path stands in them; two captures of an unchanged machine are equal.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from samebits.errors import RecordCorrupt


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

    def value(self) -> dict[str, Any]:
        """Give the facts as plain values."""
        return asdict(self)

    @classmethod
    def from_value(cls, value: object) -> "MachineFacts":
        """Read what `value` gave.

        Raises:
            RecordCorrupt: A key is missing, unknown or of another type.
        """
        found = take(value, "machine", MACHINE)
        pools = tuple(
            ThreadPool(**take(item, f"machine.pools[{i}]", POOL))
            for i, item in enumerate(found["pools"])
        )
        isa = texts(found["isa"], "machine.isa")
        for name in ("packages", "variables"):
            texts(list(found[name].values()), f"machine.{name}")
        return cls(**{**found, "isa": isa, "pools": pools})


MACHINE: Mapping[str, tuple[type, ...]] = {
    **{f.name: (str,) for f in fields(MachineFacts)},
    "isa": (list, tuple),
    "cores": (int,),
    "packages": (dict,),
    "pools": (list, tuple),
    "variables": (dict,),
}
POOL: Mapping[str, tuple[type, ...]] = {
    **dict.fromkeys(("api", "name", "prefix"), (str,)),
    **{name: (str, type(None)) for name in ("version", "architecture", "threading")},
    "threads": (int,),
}


def take(value: object, where: str, kinds: Mapping[str, tuple[type, ...]]) -> dict[str, Any]:
    """Give an object with exactly these keys and types back."""
    if not isinstance(value, dict) or set(value) != set(kinds):
        raise RecordCorrupt(
            expected=f"{where}: an object of {', '.join(sorted(kinds))}",
            found=", ".join(sorted(value)) if isinstance(value, dict) else repr(value)[:80],
        )
    for name, kind in kinds.items():
        if not isinstance(value[name], kind) or isinstance(value[name], bool):
            raise RecordCorrupt(
                expected=f"{where}.{name}: {' or '.join(one.__name__ for one in kind)}",
                found=repr(value[name])[:80],
            )
    return value


def texts(value: object, where: str) -> tuple[str, ...]:
    """Give a list of texts back as a tuple."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise RecordCorrupt(expected=f"{where}: texts", found=repr(value)[:80])
    return tuple(value)
