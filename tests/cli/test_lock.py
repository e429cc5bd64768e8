"""samebits lock in its verbs: what is written, what is printed, and the exit codes."""

import json
from pathlib import Path

import pytest

from samebits.cli import run_line
from samebits.lock.lock_file import read_lock, write_lock
from tests.lock.places import UNSET, bare_python, write_package


@pytest.fixture
def python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A quick interpreter, and an environment that steers nothing."""
    for name in UNSET:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)
    return bare_python(tmp_path)


def write_model(folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    return folder


def test_a_lock_verifies_where_it_was_made_and_prints_fit_eighty_columns(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a.lock"
    options = ["--python", python]
    assert run_line(["lock", "--out", str(file), *options]) == 0
    first = file.read_bytes()
    assert run_line(["lock", "--out", str(file), *options]) == 0
    assert file.read_bytes() == first
    assert run_line(["lock", "verify", str(file), *options]) == 0
    out = capsys.readouterr().out
    assert "Same: nothing differs from the lock." in out
    assert max(map(len, out.splitlines())) <= 80
    assert run_line(["lock", "--json", *options]) == 0
    assert capsys.readouterr().out.encode() == first


def test_one_weight_byte_and_the_template_are_named(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = write_model(tmp_path / "model"), str(tmp_path / "a.lock")
    options = ["--python", python, "--model", str(model)]
    assert run_line(["lock", "--out", file, *options]) == 0
    (model / "model.safetensors").write_bytes(b"weightz")
    capsys.readouterr()
    assert run_line(["lock", "verify", file, *options, "--json"]) == 1
    [found] = json.loads(capsys.readouterr().out)["differences"]
    assert found["field"] == "model.files.model.safetensors"
    assert found["effect"] == "another model"
    (model / "model.safetensors").write_bytes(b"weights")
    (model / "chat_template.jinja").write_text("{{ today }}")
    assert run_line(["lock", "verify", file, *options]) == 1
    out = capsys.readouterr().out
    assert "model.template" in out
    assert "prompts may become other tokens" in out


def test_parts_that_the_lock_covers_must_be_given(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, file = str(write_model(tmp_path / "model")), str(tmp_path / "a.lock")
    more = ["--model", model, "--engine-flags", "dtype=bfloat16"]
    assert run_line(["lock", "--out", file, "--python", python, *more]) == 0
    assert run_line(["lock", "verify", file, "--python", python, *more[:2]]) == 2
    assert "--engine-flags" in capsys.readouterr().err
    assert run_line(["lock", "verify", file, "--python", python, *more[2:]]) == 2
    assert "--model" in capsys.readouterr().err
    changed = ["--model", model, "--engine-flags", "dtype=float32"]
    assert run_line(["lock", "verify", file, "--python", python, *changed]) == 1
    assert "flags.dtype" in capsys.readouterr().out


def test_a_difference_is_named_with_both_values_severity_and_effect_in_both_languages(
    python: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = str(tmp_path / "a.lock")
    assert run_line(["lock", "--out", file, "--python", python]) == 0
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    capsys.readouterr()
    assert run_line(["lock", "verify", file, "--python", python]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "variables.MKL_CBWR Lock: absent · Here: AVX2 · Severity: can move bits" in out
    assert "other kernels are chosen" in out
    assert run_line(["lock", "verify", file, "--python", python, "--language", "zh"]) == 1
    out = capsys.readouterr().out
    assert "会改变比特" in out and "会选用其他内核" in out
    excepted = ["--except", "variables", "--except", "git"]
    assert run_line(["lock", "verify", file, "--python", python, *excepted]) == 0
    assert "left out on request: variables.MKL_CBWR" in capsys.readouterr().out
    assert run_line(["lock", "verify", file, "--python", python, "--except", "var"]) == 1


def test_a_setting_that_is_not_in_force_is_named_at_capture_and_at_verify(
    python: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "a.lock"
    (tmp_path / "torch.py").write_text(
        "from types import SimpleNamespace as N\n"
        "__version__ = '2.0'\n"
        "cuda = N(is_available=lambda: False)\nversion = N(cuda=None)\n"
        "backends = N(cpu=N(get_cpu_capability=lambda: 'AVX2'))\n"
        "__config__ = N(show=lambda: '', parallel_info=lambda: 'mkl_get_max_threads() : 4')\n"
        "get_num_threads = get_num_interop_threads = lambda: 4\n"
        "are_deterministic_algorithms_enabled = lambda: False\n"
        "get_float32_matmul_precision = lambda: 'highest'\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert run_line(["lock", "--out", str(file), "--python", python]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "asked.OMP_NUM_THREADS.torch Asked: 1 · In force: 4 · Severity: can move bits" in out
    assert "asked.OMP_NUM_THREADS.mkl of torch" in out
    assert read_lock(file).torch is not None
    assert run_line(["lock", "verify", str(file), "--python", python, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["differences"] == [] and len(found["ignored"]) == 2


def test_two_lock_files_are_compared(
    python: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    a, b = str(tmp_path / "a.lock"), str(tmp_path / "b.lock")
    site = tmp_path / "site"
    monkeypatch.setenv("PYTHONPATH", str(site))
    write_package(site, "numpy", "2.0+cpu", None)
    assert run_line(["lock", "--out", a, "--python", python]) == 0
    write_package(site, "numpy", "2.0+cu128", None)
    assert run_line(["lock", "--out", b, "--python", python]) == 0
    assert run_line(["lock", "diff", a, a]) == 0
    assert "Same: nothing differs." in capsys.readouterr().out
    assert run_line(["lock", "diff", a, b]) == 1
    assert "A: 2.0+cpu · B: 2.0+cu128" in capsys.readouterr().out


def test_a_lock_of_another_machine_is_a_report_of_mismatches(
    python: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    file = tmp_path / "a.lock"
    assert run_line(["lock", "--out", str(file), "--python", python]) == 0
    lock = read_lock(file)
    other = replace(lock, machine=replace(lock.machine, processor="A800", isa=("sve",)))
    file.write_text(write_lock(other))
    capsys.readouterr()
    assert run_line(["lock", "verify", str(file), "--python", python]) == 1
    assert "processor" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--threads", "2", "diff", "a", "b"], "after the word diff; found --threads"),
        (["--python", "/nowhere/python"], "that starts"),
        (["--engine-flags", "nothing"], "KEY=VALUE"),
        (["--model", "/nowhere"], "GGUF file or a folder"),
        (["--out", "/nowhere/a.lock"], "no folder"),
        (["--out", "/"], "--out"),
    ],
)
def test_what_cannot_be_done_is_refused_with_exit_code_2(
    python: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [] if {"--python", "diff"} & set(words) else ["--python", python]
    assert run_line(["lock", *words, *more]) == 2
    assert said in capsys.readouterr().err
