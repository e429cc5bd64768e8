"""Two captures of an unchanged environment are equal bytes; each change is named."""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.errors import LockMismatch
from samebits.lock import (
    Lock,
    capture_lock,
    check_lock,
    compare_locks,
    find_ignored,
    lock_digest,
    write_lock,
)
from samebits.lock.compare import Severity
from samebits.record.typed import plain_value
from tests.lock.places import bare_python, plain_variables, without_torch, write_package

COUNTS = {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
TWO_CORES = pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core: no two counts")


def fields_of(a: Lock, b: Lock) -> set[str]:
    return {item.field for item in compare_locks(a, b)}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("place")


@pytest.fixture(scope="module")
def numpy_variables(place: Path) -> Mapping[str, str]:
    """NumPy without torch."""
    return {**without_torch(place), **COUNTS}


@pytest.fixture(scope="module")
def with_numpy(place: Path, numpy_variables: Mapping[str, str]) -> Lock:
    return capture_lock(numpy_variables, folder=place)


@pytest.fixture(scope="module")
def with_torch(place: Path) -> Lock:
    pytest.importorskip("torch")
    return capture_lock(plain_variables(**COUNTS), folder=place)


def test_two_captures_of_an_unchanged_environment_are_equal_bytes(
    place: Path, numpy_variables: Mapping[str, str], with_numpy: Lock
) -> None:
    again = capture_lock(numpy_variables, folder=place)
    assert write_lock(again) == write_lock(with_numpy)
    assert lock_digest(again) == lock_digest(with_numpy)
    check_lock(with_numpy, again)


def test_a_lock_holds_no_clock_host_user_or_path(with_numpy: Lock, place: Path) -> None:
    text = json.dumps(plain_value(with_numpy))
    for word in (os.uname().nodename, str(place), sys.prefix, str(Path.home()), "/"):
        assert word not in text


@TWO_CORES
def test_another_number_of_threads_is_named_and_so_are_the_results_that_it_moves(
    place: Path, numpy_variables: Mapping[str, str], with_numpy: Lock
) -> None:
    one = dict.fromkeys(COUNTS, "1")
    now = capture_lock({**numpy_variables, **one}, folder=place)
    found = fields_of(with_numpy, now)
    assert found >= {"variables.OMP_NUM_THREADS", "variables.OPENBLAS_NUM_THREADS"}
    assert any(field.startswith("pools.") and field.endswith(".threads") for field in found)
    assert find_ignored(now) == ()
    with pytest.raises(LockMismatch, match=r"variables\.OMP_NUM_THREADS: 2, now 1") as caught:
        check_lock(with_numpy, now)
    assert {item.field for item in caught.value.differences} == found  # type: ignore[attr-defined]


@TWO_CORES
def test_a_one_thread_setting_that_a_library_ignores_is_named(
    place: Path, numpy_variables: Mapping[str, str]
) -> None:
    asked = {**numpy_variables, "OMP_NUM_THREADS": "1"}
    [found] = find_ignored(capture_lock(asked, folder=place))
    assert found.field.startswith("asked.OMP_NUM_THREADS.")
    assert (found.a, found.b, found.severity) == ("1", "2", Severity.MOVES_BITS)


@TWO_CORES
def test_a_count_that_code_sets_over_the_variable_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "sitecustomize.py").write_text("import torch\ntorch.set_num_threads(2)\n")
    variables = plain_variables(
        PYTHONPATH=str(tmp_path), OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"
    )
    found = find_ignored(capture_lock(variables, folder=tmp_path))
    assert {(item.field, item.a, item.b) for item in found} >= {
        ("asked.OMP_NUM_THREADS.torch", "1", "2")
    }


@TWO_CORES
def test_threads_asked_of_the_engine_alone_are_held_against_those_in_force(
    with_numpy: Lock,
) -> None:
    found = find_ignored(replace(with_numpy, threads=1))
    assert found
    assert {(item.field.split(".")[1], item.a, item.b) for item in found} == {("threads", "1", "2")}


@TWO_CORES
def test_a_variable_of_a_library_that_is_not_there_is_named_only_where_others_disobey(
    with_numpy: Lock,
) -> None:
    def ask(count: str) -> Lock:
        variables = {"BLIS_NUM_THREADS": count}
        return replace(with_numpy, machine=replace(with_numpy.machine, variables=variables))

    assert [item.field for item in find_ignored(ask("1"))] == ["asked.BLIS_NUM_THREADS"]
    assert find_ignored(ask("2")) == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [("ATEN_CPU_CAPABILITY", "default"), ("ONEDNN_MAX_CPU_ISA", "SSE41"), ("MKL_CBWR", "AVX2")],
)
def test_a_cap_of_instructions_or_a_mode_of_blas_is_named(
    tmp_path: Path, name: str, value: str
) -> None:
    python = bare_python(tmp_path)
    old = capture_lock(plain_variables(), python=python, folder=tmp_path)
    now = capture_lock(plain_variables(**{name: value}), python=python, folder=tmp_path)
    [found] = compare_locks(old, now)
    assert (found.field, found.a, found.b) == (f"variables.{name}", "absent", value)
    assert (found.severity, found.effect) == (Severity.MOVES_BITS, "other kernels are chosen")


def test_caps_show_in_what_torch_reports_and_in_what_it_computes(
    place: Path, with_torch: Lock
) -> None:
    caps = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE"}
    now = capture_lock(plain_variables(**COUNTS, **caps), folder=place)
    assert now.torch is not None and now.torch.capability == "DEFAULT"
    assert find_ignored(now) == ()
    found = fields_of(with_torch, now)
    assert found >= {"torch.capability", "probe.torch.softmax.float32"}
    if now.torch.mkl:
        assert "probe.torch.product.float32.128x768x512" in found
    name = "ATEN_CPU_CAPABILITY"
    machine = replace(now.machine, variables={**now.machine.variables, name: "avx512"})
    [ignored] = find_ignored(replace(now, machine=machine))
    assert (ignored.field, ignored.a, ignored.b) == (f"asked.{name}.torch", "avx512", "DEFAULT")


def test_kernels_that_openblas_is_told_to_use_are_named_with_the_results_that_move(
    place: Path, numpy_variables: Mapping[str, str], with_numpy: Lock
) -> None:
    now = capture_lock({**numpy_variables, "OPENBLAS_CORETYPE": "Nehalem"}, folder=place)
    found = fields_of(with_numpy, now)
    assert "variables.OPENBLAS_CORETYPE" in found
    assert any(field.startswith("probe.numpy.product.float32") for field in found)
    assert any(field.endswith(".architecture") for field in found)


def test_a_package_with_another_version_or_another_wheel_is_named(tmp_path: Path) -> None:
    python, site = bare_python(tmp_path), tmp_path / "site"
    variables = plain_variables(PYTHONPATH=str(site))

    def capture(version: str, record: str | None) -> Lock:
        write_package(site, "numpy", version, record)
        return capture_lock(variables, python=python, folder=tmp_path)

    old = capture("2.0+cpu", "numpy/a.py,sha256=x,1\n")
    assert old.packages["numpy"].version == "2.0+cpu"
    assert fields_of(old, capture("2.0+cu128", "numpy/a.py,sha256=x,1\n")) == {"packages.numpy"}
    wheel = capture("2.0+cpu", "numpy/a.py,sha256=y,1\n")
    [found] = compare_locks(old, wheel)
    assert (found.field, found.severity) == ("packages.numpy.record", Severity.MOVES_BITS)
    write_package(site, "left-pad", "1.0", None)
    [found] = compare_locks(wheel, capture("2.0+cpu", "numpy/a.py,sha256=y,1\n"))
    assert (found.field, found.a, found.b) == ("packages.left-pad", "absent", "1.0")
    assert found.severity is Severity.UNKNOWN


def test_a_machine_of_another_kind_is_compared_without_a_crash(with_numpy: Lock) -> None:
    other = replace(
        with_numpy,
        machine=replace(
            with_numpy.machine, processor="A800", architecture="aarch64", isa=("sve",), pools=()
        ),
        packages={},
        probe={},
    )
    found = fields_of(with_numpy, other)
    assert found >= {"processor", "architecture", "isa", "packages.numpy", "probe.libm.exp"}
    assert fields_of(other, with_numpy) == found


def test_a_limit_below_what_is_asked_is_named_though_libraries_count_without_it(
    with_numpy: Lock,
) -> None:
    def ask(**variables: str) -> list[tuple[str, str, str]]:
        machine = replace(with_numpy.machine, variables=variables, pools=())
        found = find_ignored(replace(with_numpy, machine=machine, torch=None))
        return [(item.field, item.a, item.b) for item in found]

    limited = ask(OMP_NUM_THREADS="2", OMP_THREAD_LIMIT="1")
    assert limited == [("asked.OMP_NUM_THREADS.OMP_THREAD_LIMIT", "2", "1")]
    assert ask(OMP_NUM_THREADS="2", OMP_THREAD_LIMIT="2") == []
