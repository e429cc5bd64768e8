"""The processor: its name, and the instruction sets by which libraries choose kernels."""

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

CPUINFO = Path("/proc/cpuinfo")
X86 = (
    *("sse2", "ssse3", "sse4_1", "sse4_2", "avx", "avx2", "f16c", "fma", "fma4", "avx_vnni"),
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512ifma", "avx512vbmi"),
    *("avx512_vbmi2", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx512_bitalg"),
    *("avx512_vpopcntdq", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "avx_ifma"),
    *("avx_vnni_int8", "avx_ne_convert", "avx10"),
)
ARM = (
    *("asimd", "neon", "asimdhp", "asimddp", "asimdfhm", "fphp", "bf16", "i8mm", "fcma"),
    *("sve", "sve2", "svebf16", "svei8mm", "sme", "sme2"),
)
KERNEL_FLAGS = frozenset(X86 + ARM)
"""As Linux spells them."""


class Processor(NamedTuple):
    """A processor."""

    name: str
    """Empty if the system does not tell."""
    isa: tuple[str, ...]


def read_processor(path: Path = CPUINFO) -> Processor:
    """Read the first processor's name and flags; without the file, what Python knows."""
    entries = read_entries(path)
    isa = tuple(sorted(KERNEL_FLAGS & list_flags(entries)))
    return Processor(spell_name(entries) if entries else platform.processor(), isa)


def read_cpu_flags(path: Path = CPUINFO) -> frozenset[str]:
    """Read all flags of the first processor; empty where the system does not tell."""
    return list_flags(read_entries(path))


def list_flags(entries: Mapping[str, str]) -> frozenset[str]:
    """List the flags, which x86 and Arm keep under two names."""
    return frozenset(entries.get("flags", entries.get("Features", "")).split())


def read_entries(path: Path) -> dict[str, str]:
    """Read the entries of the first processor; empty where there is no such file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        # Not Linux: no flags are made up.
        return {}
    lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, colon, value in lines if colon}


def spell_name(entries: Mapping[str, str]) -> str:
    """Name a processor by model, or by the numbers that Arm's are known by."""
    name = entries.get("model name", entries.get("Model", ""))
    arm = ("CPU implementer", "CPU variant", "CPU part", "CPU revision")
    x86 = ("cpu family", "model", "stepping")
    numbers = " ".join(entries[key] for key in (*arm, *x86) if key in entries)
    return re.sub(r"\s+", " ", f"{name} ({numbers})".strip() if numbers else name)


def count_cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
