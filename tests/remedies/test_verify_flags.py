"""Asked is held against effective: by what real processes say, and for every kind of answer."""

import os
import sys
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import ConfigError
from samebits.lock.facts import ThreadPool
from samebits.lock.probe import ProbeResult, TorchFacts
from samebits.lock.probe_child import NOT_REPEATABLE
from samebits.remedies.verify_flags import (
    Check,
    State,
    check_probe,
    check_variable,
    refuse_ignored,
    verify_flags,
)
from samebits.remedies.verify_flags_evidence import Evidence

OPENBLAS = ThreadPool(
    api="blas", name="openblas", prefix="libopenblas", version="1", architecture="Zen",
    threading="pthreads", threads=2,
)  # fmt: skip
OPENMP = ThreadPool(
    api="openmp", name="openmp", prefix="libgomp", version=None, architecture=None, threading=None,
    threads=1,
)  # fmt: skip
TORCH = TorchFacts(
    version="2", capability="AVX2", threads=1, interop_threads=1, mkl_threads=1, mkl="2024",
    onednn="3", cuda="", deterministic=False, matmul_precision="highest",
)  # fmt: skip


def make_evidence(variables: dict[str, str], **changes: Any) -> Evidence:
    probe = ProbeResult(
        python="CPython", libc="", packages=(), pools=(OPENBLAS, OPENMP), torch=TORCH,
        digests=changes.pop("digests", {"a": "sha256:0"}), lacks=(),
    )  # fmt: skip
    values: dict[str, Any] = {
        "hashes": ("1", "1"), "omp_dynamic": 0, "mkl_branch": "AUTO", "mkl_dynamic": "0",
        "onednn_isa": "Intel AVX2",
    }  # fmt: skip
    return Evidence(probe=probe, variables=variables, **values | changes)


def test_threads_above_openmps_limit_are_ignored_though_libraries_count_without_it() -> None:
    for limit, state in (("1", State.IGNORED), ("2", State.IN_FORCE)):
        variables = {"OMP_NUM_THREADS": "2", "OMP_THREAD_LIMIT": limit}
        evidence = make_evidence(variables)
        probe = replace(evidence.probe, torch=replace(TORCH, threads=2), pools=())
        found = check_variable("OMP_NUM_THREADS", "2", replace(evidence, probe=probe))
        assert found.state is state


def judge(name: str, asked: str, **changes: Any) -> Check:
    return check_variable(name, asked, make_evidence({name: asked}, **changes))


@pytest.mark.parametrize(
    ("name", "asked", "changes", "state"),
    [
        ("OMP_NUM_THREADS", "1", {}, State.IN_FORCE),
        ("OMP_NUM_THREADS", "1,4", {}, State.IN_FORCE),
        ("OMP_NUM_THREADS", "2", {}, State.IGNORED),
        ("OPENBLAS_NUM_THREADS", "2", {}, State.IN_FORCE),
        ("OPENBLAS_NUM_THREADS", "1", {}, State.IGNORED),
        ("MKL_NUM_THREADS", "1", {}, State.IN_FORCE),
        ("MKL_NUM_THREADS", "4", {}, State.IGNORED),
        ("ATEN_CPU_CAPABILITY", "avx2", {}, State.IN_FORCE),
        ("ATEN_CPU_CAPABILITY", "default", {}, State.IGNORED),
        ("MKL_CBWR", "AUTO", {}, State.IN_FORCE),
        ("MKL_CBWR", "AVX2", {}, State.IGNORED),
        ("MKL_CBWR", "BRANCH=AVX2", {"mkl_branch": "AVX2"}, State.IN_FORCE),
        ("MKL_CBWR", "AVX2,STRICT", {"mkl_branch": "AUTO,STRICT"}, State.IGNORED),
        ("MKL_CBWR", "AVX2", {"mkl_branch": ""}, State.UNVERIFIED),
        ("MKL_DYNAMIC", "FALSE", {}, State.IN_FORCE),
        ("MKL_DYNAMIC", "FALSE", {"mkl_dynamic": "1"}, State.IGNORED),
        ("OMP_DYNAMIC", "TRUE", {}, State.IGNORED),
        ("OMP_DYNAMIC", "FALSE", {"omp_dynamic": None}, State.UNVERIFIED),
        ("ONEDNN_MAX_CPU_ISA", "AVX2", {}, State.IN_FORCE),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", {}, State.IN_FORCE),
        ("ONEDNN_MAX_CPU_ISA", "SSE41", {}, State.IGNORED),
        ("ONEDNN_MAX_CPU_ISA", "AVX2", {"onednn_isa": "Intel AVX-512 with AVX512BW"},
         State.IGNORED),
        ("ONEDNN_MAX_CPU_ISA", "AVX2", {"onednn_isa": "AArch64"}, State.UNVERIFIED),
        ("PYTHONHASHSEED", "0", {}, State.IN_FORCE),
        ("PYTHONHASHSEED", "0", {"hashes": ("1", "2")}, State.IGNORED),
        ("PYTHONHASHSEED", "random", {"hashes": ("1", "2")}, State.IN_FORCE),
        ("TORCHINDUCTOR_DETERMINISTIC", "1", {}, State.UNVERIFIED),
    ],
)  # fmt: skip
def test_each_answer_of_a_library_is_judged(
    name: str, asked: str, changes: dict[str, Any], state: State
) -> None:
    assert judge(name, asked, **changes).state is state


def test_what_is_ignored_is_an_error_that_says_asked_and_effective() -> None:
    with pytest.raises(ConfigError, match=r"asked 1, effective 2 \(libopenblas\)"):
        refuse_ignored([judge("OMP_NUM_THREADS", "1"), judge("OPENBLAS_NUM_THREADS", "1")])


def test_what_is_unverified_is_no_error() -> None:
    refuse_ignored([judge("TORCHINDUCTOR_DETERMINISTIC", "1")])


def test_a_probe_that_does_not_repeat_itself_is_an_error() -> None:
    digests = {"a": "sha256:0", "torch.sum": NOT_REPEATABLE}
    check = check_probe(make_evidence({}, digests=digests))
    assert check.state is State.IGNORED
    assert "torch.sum" in check.found


def test_without_a_python_everything_is_listed_as_unverified() -> None:
    checks = verify_flags("", {"OMP_NUM_THREADS": "1", "HOME": "/x"})
    assert [(x.name, x.state) for x in checks] == [("OMP_NUM_THREADS", State.UNVERIFIED)]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any package: it starts at once."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


def test_a_real_start_proves_the_seed_of_hashes_and_tells_what_it_cannot(
    bare_python: Path,
) -> None:
    environment = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"}
    checks = {x.name: x for x in verify_flags(str(bare_python), environment)}
    assert checks["PYTHONHASHSEED"].state is State.IN_FORCE
    assert checks["numeric probe"].state is State.IN_FORCE
    assert checks["OMP_NUM_THREADS"].state is State.UNVERIFIED


def test_a_variable_that_a_start_up_file_changes_is_caught(bare_python: Path) -> None:
    (site,) = bare_python.parents[1].glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text("import os; os.environ['OMP_NUM_THREADS'] = '2'\n")
    checks = verify_flags(str(bare_python), {"OMP_NUM_THREADS": "1"})
    (site / "sitecustomize.py").unlink()
    with pytest.raises(ConfigError, match="OMP_NUM_THREADS: asked 1, effective 2"):
        refuse_ignored(checks)


def test_a_python_that_does_not_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        verify_flags(str(tmp_path / "python"), {"OMP_NUM_THREADS": "1"})


def test_real_libraries_take_the_thread_counts_and_a_capped_level() -> None:
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME", "LD_LIBRARY_PATH")}
    asked = {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_DYNAMIC": "FALSE",
        "ATEN_CPU_CAPABILITY": "default",
        "PYTHONHASHSEED": "0",
    }
    checks = verify_flags(sys.executable, {**kept, **asked})
    refuse_ignored(checks)
    proven = {x.name for x in checks if x.state is State.IN_FORCE}
    assert {"OMP_NUM_THREADS", "ATEN_CPU_CAPABILITY", "PYTHONHASHSEED", "numeric probe"} <= proven
