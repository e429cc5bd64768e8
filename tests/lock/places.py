"""Interpreters and environments to lock in tests: without packages, or with NumPy but no torch."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONPATH", "OMP_NUM_THREADS")


def plain_variables(**more: str) -> dict[str, str]:
    """The environment without what steers numbers."""
    return {k: v for k, v in os.environ.items() if k not in UNSET} | more


def bare_python(folder: Path) -> str:
    """Write an interpreter that sees no installed package but those on PYTHONPATH: it is quick."""
    file = folder / "python"
    file.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    file.chmod(0o755)
    return str(file)


def without_torch(folder: Path) -> Mapping[str, str]:
    """Write a torch that cannot be imported, which saves the time of the real one."""
    (folder / "torch.py").write_text("raise ImportError\n")
    return plain_variables(PYTHONPATH=str(folder))


def write_package(site: Path, name: str, version: str, record: str | None, **files: str) -> Path:
    """Write what an installer leaves of a package."""
    info = site / f"{name.replace('-', '_')}-0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{files.pop('extra', '')}\n"
    )
    if record is not None:
        (info / "RECORD").write_text(record)
    for file, text in files.items():
        (info / f"{file}.json").write_text(text)
    return info
