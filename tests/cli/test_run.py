"""samebits run becomes the command: its arguments, exit code and signals are the command's own."""

import json
import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.cli.command import CODE, ROOT, assert_refused, call, make_environment, start

STEERING = ("OMP_", "MKL_", "OPENBLAS_", "PYTHONHASHSEED", "TORCHINDUCTOR_", "XLA_", "VLLM_")
SHOW = (
    "import json, os, sys\n"
    "print(json.dumps([sys.argv[1:], os.environ['OMP_NUM_THREADS'], os.environ['HOME']]))\n"
    "sys.exit(7)"
)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without any package: it is verified in a moment."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return str(folder / "bin" / "python")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of the machine that runs the tests steers numbers."""
    for name in list(os.environ):
        if name.startswith(STEERING):
            monkeypatch.delenv(name)


def test_arguments_environment_and_exit_code_are_the_commands(python: str) -> None:
    ended = start(
        *("run", "--threads", "1", "--", python, "-c", SHOW, "a b", "--threads", "9", "--", "-x"),
        environment={"HOME": "/home/nobody"},
    )
    assert ended.code == 7, ended
    assert json.loads(ended.out) == [
        ["a b", "--threads", "9", "--", "-x"],
        "1",
        "/home/nobody",
    ]
    assert "set      OMP_NUM_THREADS=1" in ended.err
    assert "not verified" in ended.err


def test_a_signal_reaches_the_command_itself(python: str) -> None:
    wait = "import time; print('ready', flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", CODE, "run", "--", python, "-c", wait],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=make_environment({}),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == -signal.SIGTERM


def test_an_empty_variable_reaches_the_command(python: str) -> None:
    code = "import os; print(repr(os.environ.get('CUDA_VISIBLE_DEVICES')))"
    ended = start("run", "--", python, "-c", code, environment={"CUDA_VISIBLE_DEVICES": ""})
    assert ended.out == "''\n"


def test_a_closed_pipe_ends_the_command_as_it_would_without_us() -> None:
    shown = start("run", "--engine", "pytorch", "--", "grep", "SigIgn", "/proc/self/status")
    assert int(shown.out.split()[1], 16) & (1 << (signal.SIGPIPE - 1)) == 0


def test_flags_of_the_user_that_are_joined_with_ours_are_shown_by_allow_list(python: str) -> None:
    secret = {"XLA_FLAGS": "--xla_dump_to=/home/anna --xla_cpu_max_isa=hunter2"}
    ended = start("run", "--dry-run", "--engine", "jax", "--device", "gpu", "--", python,
                  environment=secret)  # fmt: skip
    assert ended.code == 0
    assert "anna" not in ended.out + ended.err
    assert "hunter2" not in ended.out + ended.err
    assert "--xla_gpu_deterministic_ops=true" in ended.out


def test_numpys_two_contrary_variables_are_refused_by_name() -> None:
    both = {"NPY_DISABLE_CPU_FEATURES": "AVX2", "NPY_ENABLE_CPU_FEATURES": "AVX2"}
    assert_refused(start("verify", "receipt.json", environment=both), *both, "Unset one")
    run = start("run", "--engine", "pytorch", "--", sys.executable, environment=both)
    assert run.code == 2
    assert "numpy cannot be imported" in run.err


def test_a_dry_run_prints_all_and_runs_nothing(python: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    ended = start("run", "--dry-run", "--", python, "-c", f"open({str(made)!r}, 'w')")
    assert ended.code == 0, ended
    assert "numeric probe: asked equal over two starts" in ended.out
    assert not made.exists()


def test_a_setting_that_does_not_survive_the_start_stops_the_run(python: str) -> None:
    (site,) = Path(python).parents[1].glob("lib/python*/site-packages")
    path = site / "sitecustomize.py"
    path.write_text("import os; os.environ['OMP_NUM_THREADS'] = '2'\n")
    ended = start("run", "--threads", "1", "--", python, "-c", "print('ran')")
    path.unlink()
    assert_refused(ended, "OMP_NUM_THREADS: asked 1, effective 2")


def test_a_missing_command_and_one_that_is_not_there_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert call(capsys, "run").code == 2
    assert call(capsys, "run", "--").code == 2
    assert_refused(call(capsys, "run", "--", "no-such-program"), "no-such-program")


def test_a_command_of_no_known_engine_asks_for_its_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert_refused(call(capsys, "run", "--", "ls"), "--engine", "llama.cpp")


def test_leaks_and_contradictions_are_refused_before_anything_starts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    leaking = ("--set", "OMP_DYNAMIC=TRUE", "--", sys.executable)
    assert_refused(call(capsys, "run", *leaking), "threads-change-by-themselves", "https://")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    refused = call(capsys, "run", "--threads", "1", "--", sys.executable)
    assert_refused(refused, "OMP_NUM_THREADS=3 in your environment", "--threads N")


@pytest.mark.parametrize("text", ["OMP_NUM_THREADS", "=1", "NO_SUCH=1"])
def test_a_setting_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert_refused(call(capsys, "run", "--set", text, "--", sys.executable), "--set")


def test_flags_are_printed_for_people_and_for_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = call(capsys, "flags", "vllm")
    assert told.code == 0
    assert "VLLM_BATCH_INVARIANT=1" in told.out
    value = json.loads(call(capsys, "flags", "vllm", "--format", "json").out)
    assert value["engine"] == "vllm"
    assert_refused(call(capsys, "flags", "tgi"), "'tgi'", "sglang")
