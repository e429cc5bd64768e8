"""Graphics processors and repositories are read as the system tells them, and nothing else."""

import subprocess
from pathlib import Path

import pytest

from samebits.lock import gpu
from samebits.lock.contents import Gpu
from samebits.lock.git import read_git
from samebits.lock.gpu import list_gpus, read_bus, read_nvidia
from samebits.lock.variables import HIDDEN
from tests.lock.places import plain_variables


@pytest.fixture
def no_bus(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu, "PCI", tmp_path / "none")
    monkeypatch.setattr(gpu, "NVIDIA", tmp_path / "none")


@pytest.mark.usefixtures("no_bus")
@pytest.mark.parametrize(
    ("script", "found"),
    [
        (
            "echo 'NVIDIA H200, 570.1, 9.0'\necho 'NVIDIA A10, 570.1, 8.6'",
            (
                Gpu(name="NVIDIA H200", driver="570.1", capability="9.0"),
                Gpu(name="NVIDIA A10", driver="570.1", capability="8.6"),
            ),
        ),
        ("echo '$(id), 1, 2'", (Gpu(name=HIDDEN, driver="1", capability="2"),)),
        ("echo 'NVIDIA-SMI has failed'; exit 9", ()),
        ("echo 'A, 1, 2'; exit 9", ()),
    ],
)
def test_nvidia_smi_is_asked_and_believed_only_in_its_form(
    tmp_path: Path, script: str, found: tuple[Gpu, ...]
) -> None:
    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert list_gpus(plain_variables(PATH=f"{tmp_path}:/bin:/usr/bin")) == found


@pytest.mark.usefixtures("no_bus")
def test_without_any_there_are_none() -> None:
    assert list_gpus({"PATH": ""}) == ()


def test_the_files_of_the_driver_tell_where_its_program_is_missing(tmp_path: Path) -> None:
    (tmp_path / "version").write_text(
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.10  Tue\nGCC version: 13\n"
    )
    (tmp_path / "gpus" / "0").mkdir(parents=True)
    (tmp_path / "gpus" / "0" / "information").write_text(
        "Model: \t\t NVIDIA A100-SXM4-40GB\nGPU UUID: \t GPU-1234\n"
    )
    assert list(read_nvidia(tmp_path)) == [
        Gpu(name="NVIDIA A100-SXM4-40GB", driver="570.86.10", capability="")
    ]


def test_processors_on_the_bus_are_named_and_virtual_screens_are_not(tmp_path: Path) -> None:
    for name, vendor, kind in (("0", "0x1002", "0x030200"), ("1", "0x1234", "0x030000"),
                               ("2", "0x8086", "0x020000")):  # fmt: skip
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(f"{vendor}\n")
        (tmp_path / name / "class").write_text(f"{kind}\n")
        (tmp_path / name / "device").write_text("0x740c\n")
    assert list(read_bus(tmp_path)) == [("AMD", Gpu(name="AMD 0x740c", driver="", capability=""))]


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)


def test_a_repository_is_clean_until_a_tracked_file_changes(tmp_path: Path) -> None:
    variables = plain_variables()
    assert read_git(tmp_path, variables) is None
    git(tmp_path, "init", "-q")
    assert read_git(tmp_path, variables) is None
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    (tmp_path / "samebits.lock").write_text("written by us")
    clean = read_git(tmp_path, variables)
    assert clean is not None and not clean.is_dirty
    (tmp_path / "file").write_text("b")
    dirty = read_git(tmp_path, variables)
    assert dirty is not None and dirty.is_dirty and dirty.commit == clean.commit


def test_reading_a_repository_runs_nothing_that_it_asks_for(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "file").write_text("a")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "first")
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git(tmp_path, "config", "core.fsmonitor", str(hook))
    assert read_git(tmp_path, plain_variables()) is not None
    assert not (tmp_path / "ran").exists()


def test_without_git_nothing_is_known(tmp_path: Path) -> None:
    assert read_git(tmp_path, {"PATH": str(tmp_path)}) is None
