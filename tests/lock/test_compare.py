"""Every difference of two machines is named, with what it can change."""

from typing import Any

import pytest

from samebits.lock.compare import Difference, Severity, compare_machines
from tests.audit.audit_records import make_machine, make_pool

MOVES, HARMLESS = Severity.MOVES_BITS, Severity.HARMLESS


def test_equal_machines_have_no_difference() -> None:
    assert compare_machines(make_machine(), make_machine()) == ()


@pytest.mark.parametrize(
    ("changes", "field", "severity"),
    [
        ({"processor": "Another"}, "processor", MOVES),
        ({"architecture": "aarch64"}, "architecture", MOVES),
        ({"isa": ("avx2", "avx512f", "fma")}, "isa", MOVES),
        ({"cores": 4}, "cores", MOVES),
        ({"system": "Darwin"}, "system", MOVES),
        ({"kernel": "6.2.0"}, "kernel", HARMLESS),
        ({"libc": "glibc 2.41"}, "libc", MOVES),
        ({"python": "CPython 3.12.1"}, "python", HARMLESS),
        (
            {"packages": {"numpy": "2.4.6", "torch": "2.13.0+cu128"}},
            "packages.torch",
            MOVES,
        ),
        ({"variables": {"OMP_NUM_THREADS": "1"}}, "variables.OMP_NUM_THREADS", MOVES),
        (
            {"variables": {"OMP_NUM_THREADS": "2", "PYTHONHASHSEED": "0"}},
            "variables.PYTHONHASHSEED",
            HARMLESS,
        ),
        (
            {"variables": {"OMP_NUM_THREADS": "2", "LD_PRELOAD": "libiomp5.so"}},
            "variables.LD_PRELOAD",
            MOVES,
        ),
        ({"pools": (make_pool(threads=1),)}, "pools.libopenblas.threads", MOVES),
        ({"pools": (make_pool(version="0.3.31"),)}, "pools.libopenblas.version", MOVES),
        ({"pools": ()}, "pools.libopenblas", MOVES),
        (
            {"pools": (make_pool(), make_pool(prefix="libgomp", version=None))},
            "pools.libgomp",
            MOVES,
        ),
        (
            {"pools": (make_pool(), make_pool(threads=1))},
            "pools.libopenblas#2",
            MOVES,
        ),
    ],
)
def test_each_difference_is_named_once(
    changes: dict[str, Any], field: str, severity: Severity
) -> None:
    found = compare_machines(make_machine(), make_machine(**changes))
    assert [(item.field, item.severity) for item in found] == [(field, severity)]
    assert bool(found[0].effect) == (severity is MOVES)
    assert found[0].a != found[0].b


def test_what_one_side_lacks_is_absent_on_it() -> None:
    other = make_machine(packages={"numpy": "2.4.6"})
    assert compare_machines(make_machine(), other) == (
        Difference(
            field="packages.torch",
            a="2.13.0+cpu",
            b="absent",
            severity=MOVES,
            effect="other kernels or another order of operations",
        ),
    )


def test_differences_that_can_move_bits_come_first() -> None:
    found = compare_machines(make_machine(), make_machine(kernel="6.2", python="x", cores=1))
    assert [item.severity for item in found] == [MOVES, HARMLESS, HARMLESS]
