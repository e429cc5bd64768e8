"""samebits advise, as a user calls it, on a tiny model of transformers and on a server."""

import json
from pathlib import Path

import pytest

from samebits.advise.ladder import RUNGS
from samebits.advise.record import read_advice
from samebits.cli.advise import STRATEGIES
from tests.audit.endpoints import Endpoint, run_endpoint
from tests.audit.tiny_hf import write_folder
from tests.cli.command import Ended, assert_refused, call

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


@pytest.mark.parametrize(
    ("arguments", "needles"),
    [
        (("hf:/no/such/folder",), ("config.json",)),
        (("engine:smollm2",), ("hf:FOLDER", "audit")),
        (("hf:FOLDER", "--batches", "1"), ("--batches",)),
        (("hf:FOLDER", "--batches", "two"), ("--batches",)),
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
