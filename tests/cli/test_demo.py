"""The demo as a user runs it, on a model small enough for a test."""

import json
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.demo_record import DemoRecord
from samebits.record.canonical import canonical_bytes
from tests.cli.command import assert_refused, call
from tests.report.demo_records import make_record


@pytest.fixture
def quick_demo(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Stand a record written by hand where the experiment would run; note what was asked."""
    asked: list[Any] = []

    def run(plan: Any, tell: Any) -> DemoRecord:
        tell(1.0, "")
        asked.append(plan)
        return make_record()

    monkeypatch.setattr("samebits.audit.demo.run_demo", run)
    return asked


def test_the_table_goes_to_standard_output_without_colour(
    quick_demo: list[Any], raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "demo", "--model", str(raw_model), "--threads", "1")
    assert ended.code == 0
    assert "differ 5/16 @3" in ended.out
    assert "\x1b" not in ended.out
    assert max(map(len, ended.out.splitlines())) <= 80
    assert (quick_demo[0].threads, quick_demo[0].path) == (1, raw_model)


def test_quick_asks_for_fewer_tokens(
    quick_demo: list[Any], raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call(capsys, "demo", "--model", str(raw_model))
    call(capsys, "demo", "--model", str(raw_model), "--quick")
    assert quick_demo[1].max_tokens < quick_demo[0].max_tokens


def test_json_and_file_hold_the_same_canonical_record(
    quick_demo: list[Any], raw_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "record.json"
    ended = call(capsys, "demo", "--model", str(raw_model), "--json", "--out", str(file))
    assert ended.out == file.read_text()
    assert canonical_bytes(json.loads(ended.out)).decode() + "\n" == ended.out


def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    quick_demo: list[Any], raw_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "demo", "--model", str(raw_model), "--out", str(tmp_path))
    assert_refused(ended, "--out")
    assert quick_demo == []


def test_an_interrupt_ends_with_130_and_says_so(
    raw_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("samebits.audit.demo.run_demo", interrupt)
    ended = call(capsys, "demo", "--model", str(raw_model))
    assert (ended.code, ended.out) == (130, "")
    assert "interrupted" in ended.err
