"""samebits advise, as a user calls it, on a tiny model of transformers and on a server."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from samebits.advise.ladder import RUNGS
from samebits.advise.record import AdviceRecord, read_advice
from samebits.cli.advice_file import AdviceFile
from samebits.cli.advise import STRATEGIES
from samebits.errors import ConfigError
from tests.audit.endpoints import Endpoint, run_endpoint
from tests.audit.tiny_hf import write_folder
from tests.cli.command import CODE, ROOT, Ended, assert_refused, call, make_environment, start

QUICK = ("--batches", "2,3", "--max-tokens", "3", "--strategies")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("tiny"), "bfloat16")


@pytest.fixture
def prompts(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.txt"
    path.write_text("The sea\nOne and one make\nA much longer line than the others are\n")
    return path


def test_the_help_names_every_strategy() -> None:
    assert STRATEGIES.split(",") == [rung.key for rung in RUNGS]


def test_a_model_is_tried_recorded_and_drawn_again(
    capsys: pytest.CaptureFixture[str], folder: Path, prompts: Path, tmp_path: Path
) -> None:
    out, target = tmp_path / "a.json", f"hf:{folder}"
    more = ("--prompts", str(prompts), "--out", str(out), "--rate", "0.7")
    done = call(capsys, "advise", target, *QUICK, "isolation", *more)
    assert done.code == 0, done
    record = read_advice(out.read_bytes(), "a")
    assert [trial.rung for trial in record.trials] == ["nothing", "isolation"]
    assert all(seen.answer.error is None for trial in record.trials for seen in trial.sightings)
    moved = json.loads(call(capsys, "report", str(out), "--format", "json").out)["rows"]
    assert moved[1]["company"]["bits"]["num"] == 0
    assert call(capsys, "report", str(out)).out == done.out


@pytest.mark.parametrize(
    ("target", "more", "named"),
    [("http://127.0.0.1:9/v1", (), "127.0.0.1:9"), ("folder", ("--dtype", "float99"), "float99")],
)
def test_a_target_that_cannot_be_asked_at_all_gives_no_advice(
    folder: Path, tmp_path: Path, target: str, more: tuple[str, ...], named: str
) -> None:
    out = tmp_path / "a.json"
    asked = f"hf:{folder}" if target == "folder" else target
    ended = start("advise", asked, *QUICK, "isolation", *more, "--out", str(out))
    assert_refused(ended, named)
    assert not out.exists()


def test_a_failure_later_on_keeps_what_was_tried(
    capsys: pytest.CaptureFixture[str],
    prompts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write, calls = AdviceFile.write, []

    def fail_third(file: AdviceFile, record: AdviceRecord) -> None:
        calls.append(record)
        if len(calls) == 3:
            raise ConfigError(expected="room on the disk", found="none")
        write(file, record)

    monkeypatch.setattr(AdviceFile, "write", fail_third)
    out = tmp_path / "a.json"
    with run_endpoint(Endpoint()) as endpoint:
        more = (endpoint.url, *QUICK, "isolation", "--prompts", str(prompts), "--out", str(out))
        assert call(capsys, "advise", *more).code == 2
    assert [trial.rung for trial in read_advice(out.read_bytes(), "a").trials] == ["nothing"]


def test_record_and_report_are_two_files(folder: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "a.json")
    ended = start("advise", f"hf:{folder}", *QUICK, "isolation", "--out", out, "--html", out)
    assert_refused(ended, "two files")


def test_an_interrupted_run_goes_on_with_what_is_left(
    capsys: pytest.CaptureFixture[str], folder: Path, prompts: Path, tmp_path: Path
) -> None:
    out, target = tmp_path / "a.json", f"hf:{folder}"
    more = ("--prompts", str(prompts), "--out", str(out))
    call(capsys, "advise", target, *QUICK, "nothing", *more)
    before = read_advice(out.read_bytes(), "a").trials
    call(capsys, "advise", target, *QUICK, "sb1", *more, "--resume")
    after = read_advice(out.read_bytes(), "a").trials
    assert after[:1] == before
    assert [trial.rung for trial in after] == ["nothing", "sb1"]
    other = call(capsys, "advise", target, "--max-tokens", "4", *more, "--resume")
    assert_refused(other, "batches", "as in")
    prompts.write_text("Another\n")
    assert_refused(
        call(capsys, "advise", target, *QUICK, "sb1", *more, "--resume"), "the 3 prompts"
    )


def test_a_server_is_tried_with_what_a_client_can_do(
    capsys: pytest.CaptureFixture[str], prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.json"
    with run_endpoint(Endpoint()) as endpoint:
        more = ("--prompts", str(prompts), "--out", str(out))
        done = call(capsys, "advise", endpoint.url, *QUICK, "isolation,fixed-shape", *more)
    assert done.code in (0, 3), done.out
    trials = {trial.rung: trial for trial in read_advice(out.read_bytes(), "a").trials}
    assert "server's own start" in trials["fixed-shape"].not_tried
    assert trials["isolation"].sightings


def launch(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", CODE, "advise", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=make_environment({}),
    )


def wait_for(is_there: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not is_there():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def count_trials(path: Path) -> int:
    # Made and held before it is written for the first time.
    data = path.read_bytes() if path.exists() else b""
    return len(read_advice(data, "a").trials) if data else -1


def test_two_runs_cannot_write_one_record_and_a_killed_one_holds_nothing(
    prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.json"
    with run_endpoint(Endpoint(delay_s=0.4)) as endpoint:
        more = (endpoint.url, *QUICK, "seeds,isolation", "--prompts", str(prompts))
        again = ("advise", *more, "--out", str(out), "--resume")
        # In processes of their own: what others loaded here would make it another machine.
        with launch(*more, "--out", str(out)) as first:
            # At the start the file is the one it was made as; later it was replaced.
            for num in (0, 1):
                wait_for(lambda num=num: count_trials(out) >= num)  # type: ignore[misc]
                assert_refused(start(*again), str(out), "another process", "Wait for it")
            assert first.poll() is None
            first.kill()
        kept = count_trials(out)
        assert 1 <= kept < 3
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "prompts.txt"]
        endpoint.delay_s = 0.0
        assert start(*again).code in (0, 3)
    assert count_trials(out) == 3


def test_a_run_that_is_refused_leaves_no_record(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(capsys, "advise", "hf:/no", "--out", str(tmp_path / "a.json")).code == 2
    assert list(tmp_path.iterdir()) == []


def test_lines_tell_of_each_remedy_where_nobody_watches_unless_json_is_asked_for(
    capsys: pytest.CaptureFixture[str], prompts: Path, tmp_path: Path
) -> None:
    with run_endpoint(Endpoint()) as endpoint:
        more = (endpoint.url, *QUICK, "seeds", "--prompts", str(prompts))
        done = call(capsys, "advise", *more, "--out", str(tmp_path / "a.json"))
        quiet = call(capsys, "advise", *more, "--json", "--out", str(tmp_path / "b.json"))
    lines = [line for line in done.err.splitlines() if re.match(r"\d+:\d\d +\d+% ", line)]
    assert [line.partition("% ")[2] for line in lines] == ["nothing: starting", "seeds: starting"]
    assert quiet.err == f"record: {tmp_path / 'b.json'}\n"


def find_worker(parent: int) -> int | None:
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    for child in map(int, children):
        if b"worker_main" in Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    return None


def test_a_remedy_whose_process_is_ended_by_hand_is_tried_when_the_run_is_resumed(
    folder: Path, prompts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a.json"
    more = (f"hf:{folder}", *QUICK, "nothing", "--prompts", str(prompts), "--out", str(out))
    with launch(*more) as first:
        wait_for(lambda: find_worker(first.pid) is not None)
        worker = find_worker(first.pid)
        assert worker is not None
        os.kill(worker, signal.SIGTERM)
        said = first.communicate()[1]
    assert "stopped by a signal: nothing" in said and f"--resume --out {out} goes on" in said
    assert count_trials(out) == 0
    # In a process like the first: libraries that tests have loaded are part of the machine.
    with launch(*more, "--resume") as second:
        said = second.communicate()[1]
    assert second.returncode in (0, 1, 3), said
    [trial] = read_advice(out.read_bytes(), "a").trials
    assert trial.not_tried == "" and trial.sightings


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (("hf:/no/such/folder",), ("config.json",)),
        (("engine:smollm2",), ("hf:FOLDER", "audit")),
        (("hf:FOLDER", "--batches", "1"), ("--batches",)),
        (("hf:FOLDER", "--batches", "two"), ("--batches",)),
        (("hf:FOLDER", "--batches", "9" * 5000), ("--batches",)),
        (("hf:FOLDER", "--strategies", "prayer"), ("prayer",)),
        (("hf:FOLDER", "--rate", "0"), ("rate",)),
        (("hf:FOLDER", "--resume"), ("--resume",)),
    ],
)
def test_bad_input_is_refused_by_name(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    arguments: tuple[str, ...],
    needles: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done: Ended = call(
        capsys, "advise", *(part.replace("FOLDER", str(folder)) for part in arguments)
    )
    assert_refused(done, *needles)
