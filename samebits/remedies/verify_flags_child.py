"""Tells what reached the process that runs this file: variables, hashes, OpenMP's own switch.

Run by path, in any Python from 3.9 on, whether samebits is installed there or not. Its arguments
are names of variables. With MKL_VERBOSE and ONEDNN_VERBOSE set, the libraries tell about themselves
on standard output besides.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import sys
from importlib import import_module
from typing import Any

MARK = "samebits-evidence "
"""Begins the line that is ours on standard output."""
OPENMP = ("libgomp.so.1", "libiomp5.so", "libomp.so", "libomp.dylib")
FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, OSError, ImportError)
"""What a library raises where it lacks something."""


def main() -> None:
    """Make the libraries compute something, then write one line of JSON."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    load("numpy")
    torch = load("torch")
    if torch is not None:
        compute(torch)
    report = {
        "variables": {name: os.environ.get(name, "") for name in sys.argv[1:]},
        "hash": str(hash("samebits")),
        "omp_dynamic": read_omp_dynamic(),
    }
    sys.stdout.write(f"\n{MARK}{json.dumps(report)}\n")


def load(name: str) -> Any:
    """Import a library; None if there is none, or it fails."""
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return import_module(name)
    except FAILURES:
        return None


def compute(torch: Any) -> None:
    """Make MKL multiply and oneDNN convolve, so that each says what it is."""
    try:
        torch.ones(64, 64) @ torch.ones(64, 64)
        torch.nn.functional.conv2d(torch.ones(1, 64, 28, 28), torch.ones(64, 64, 3, 3))
    except FAILURES:
        return


def read_omp_dynamic() -> int | None:
    """Read whether the OpenMP that is loaded may change its thread count; None if there is none."""
    for name in OPENMP:
        try:
            library = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
            return int(library.omp_get_dynamic())
        except FAILURES:
            continue
    return None


if __name__ == "__main__":
    main()
