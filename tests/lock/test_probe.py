"""The numeric probe sees what versions do not tell, and says where a result does not repeat."""

import sys
import time
from pathlib import Path

import pytest

from samebits.errors import ConfigError
from samebits.lock.probe import run_probe
from samebits.lock.probe_child import (
    COUNT,
    NOT_REPEATABLE,
    RIGHT_FROM,
    SHAPES,
    digest_record,
    make_integers,
    read_origin,
)
from tests.lock.places import bare_python, plain_variables, without_torch


def test_a_probe_gives_the_same_result_again_and_says_what_it_lacks(tmp_path: Path) -> None:
    variables = without_torch(tmp_path)
    one = run_probe(sys.executable, variables)
    assert one == run_probe(sys.executable, variables)
    assert one.lacks == ("torch cannot be imported (ImportError)",)
    kinds = {name.split(".")[0] for name in one.digests}
    assert kinds == {"libm", "numpy"}
    assert NOT_REPEATABLE not in one.digests.values()
    assert {pool.name for pool in one.pools} >= {"openblas"}


def test_an_interpreter_without_packages_is_probed_as_far_as_it_goes(tmp_path: Path) -> None:
    found = run_probe(bare_python(tmp_path), plain_variables())
    assert found.lacks == ("numpy is not installed", "torch is not installed")
    assert set(found.digests) == {f"libm.{name}" for name in ("exp", "sin", "tanh", "log", "pow")}
    assert found.torch is None


@pytest.mark.parametrize("when", ["in each call", "in each process"])
def test_what_does_not_repeat_has_no_digest(tmp_path: Path, when: str) -> None:
    noise = "os.urandom(8)[0]" if when == "in each call" else "salt"
    (tmp_path / "sitecustomize.py").write_text(
        f"import math, os\nsalt = os.urandom(8)[0] + os.getpid()\nold = math.exp\n"
        f"math.exp = lambda x: old(x) + {noise}\nprint('samebits')\n"
    )
    variables = plain_variables(PYTHONPATH=str(tmp_path))
    # The switch -S of the bare interpreter leaves out sitecustomize, too.
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    (tmp_path / "numpy.py").write_text("raise ImportError\n")
    found = run_probe(sys.executable, variables)
    assert found.digests["libm.exp"] == NOT_REPEATABLE
    assert found.digests["libm.sin"] != NOT_REPEATABLE


def test_a_count_that_a_library_sets_after_its_start_is_reported_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import numpy, ctypes, threadpoolctl\nthreadpoolctl.threadpool_limits(2, 'blas')\n"
    )
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    found = run_probe(
        sys.executable, plain_variables(PYTHONPATH=str(tmp_path), OPENBLAS_NUM_THREADS="1")
    )
    assert [pool.threads for pool in found.pools if pool.name == "openblas"] == [2]


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("exit 3", "it ended with 3"),
        ("echo hello", "it says something else"),
        ("echo samebits-probe 7", "it says something else"),
        ("kill -ILL $$", "an illegal instruction"),
    ],
)
def test_what_is_no_python_is_refused(tmp_path: Path, script: str, found: str) -> None:
    (tmp_path / "python").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "python").chmod(0o755)
    with pytest.raises(ConfigError, match=found):
        run_probe(str(tmp_path / "python"), plain_variables())


def test_an_interpreter_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="that starts"):
        run_probe(str(tmp_path / "none"), plain_variables())


def test_a_probe_that_hangs_is_ended(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    start = time.monotonic()
    with pytest.raises(ConfigError, match="no end"):
        run_probe(str(tmp_path / "python"), plain_variables(), timeout_s=0.3)
    assert time.monotonic() - start < 20


def test_the_modules_beside_the_probe_shadow_none_of_the_probed_interpreter(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("import capture\n")
    (tmp_path / "torch.py").write_text("raise ImportError\n")
    found = run_probe(bare_python(tmp_path), plain_variables(PYTHONPATH=str(tmp_path)))
    assert found.lacks[0] == "numpy cannot be imported (ModuleNotFoundError)"


def test_integers_have_twenty_bits_and_suffice_for_every_shape() -> None:
    values = make_integers(2000)
    assert min(values) >= -(2**20) and max(values) < 2**20
    assert len(set(values)) > 1990
    assert all(rows * k <= COUNT and RIGHT_FROM + k * n <= COUNT for rows, k, n in SHAPES)


def test_one_wheel_has_one_digest_wherever_and_by_whom_it_is_installed() -> None:
    wheel = "a/__init__.py,sha256=x,1\na-1.dist-info/METADATA,sha256=y,2\n"
    here = (
        "../../../bin/a,sha256=p,9\na/__pycache__/__init__.cpython-311.pyc,,\n"
        "a-1.dist-info/RECORD,,\na-1.dist-info/INSTALLER,sha256=q,4\n"
        "a-1.dist-info/direct_url.json,sha256=r,5\n"
    )
    assert digest_record(here + wheel) == digest_record(wheel)
    assert digest_record(wheel.replace("=x", "=z")) != digest_record(wheel)
    assert digest_record(None) is None


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (None, ""),
        ('{"url": "https://u:p@h/x", "vcs_info": {"commit_id": "0123abcd"}}', "commit 0123abcd"),
        ('{"url": "x", "vcs_info": {"commit_id": "a secret"}}', "commit"),
        ('{"url": "file:///home/me", "dir_info": {"editable": true}}', "editable folder"),
        ('{"url": "file:///home/me", "dir_info": {}}', "folder"),
        ('{"url": "https://h/x.whl?token=t", "archive_info": {}}', "file"),
        ("[]", "unreadable"),
        ('{"dir_info": 7}', "unreadable"),
        ("{", "unreadable"),
    ],
)
def test_the_origin_of_a_package_is_told_without_an_address(text: str | None, origin: str) -> None:
    assert read_origin(text) == origin
