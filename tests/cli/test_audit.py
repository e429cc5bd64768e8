"""samebits audit, report and compare, as a user calls them."""

import json
import signal
import subprocess
import sys
import time
from inspect import signature
from itertools import chain
from pathlib import Path

import pytest

from samebits.audit.axes import AXES
from samebits.audit.record_reader import read_record
from samebits.cli.audit import AXES_HELP
from samebits.cli.audit import audit as audit_verb
from samebits.cli.audit_target import BESIDES, OPTIONS
from tests.cli.command import CODE, Ended, assert_refused, call, make_environment

UNSTABLE, QUIET = "stub:seed=3,batch:0.5", "stub:seed=3"
QUICK = ("--axes", "repeat,batch,stream", "--max-tokens", "4")


def audit(capsys: pytest.CaptureFixture[str], target: str, out: Path, *more: str) -> Ended:
    return call(capsys, "audit", target, "--out", str(out), *QUICK, *more)


def test_the_exit_code_is_the_verdict(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    few = tmp_path / "few.txt"
    few.write_text("one\ntwo\n")
    assert audit(capsys, QUIET, tmp_path / "0").code == 0
    unstable = audit(capsys, UNSTABLE, tmp_path / "1")
    assert unstable.code == 1
    assert "Not stable. What changes tokens: batch size." in unstable.out
    unsure = audit(capsys, QUIET, tmp_path / "3", "--prompts", str(few))
    assert unsure.code == 3
    assert "Cannot tell" in unsure.out


def test_what_is_needed_is_bits_unless_tokens_are_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    faint, out = "stub:seed=3,batch:1e-9", tmp_path / "a"
    assert audit(capsys, faint, out).code == 1
    assert call(capsys, "report", str(out), "--need", "tokens").code == 0
    assert call(capsys, "report", str(out)).code == 1


def test_the_report_of_a_record_is_the_one_the_audit_printed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out, page = tmp_path / "a.jsonl", tmp_path / "a.html"
    done = audit(capsys, UNSTABLE, out, "--html", str(page))
    again = call(capsys, "report", str(out))
    assert (again.code, again.out) == (done.code, done.out)
    for name in ("b.html", "b.md", "b.json", "b.txt"):
        call(capsys, "report", str(out), "--out", str(tmp_path / name))
    assert (tmp_path / "b.html").read_bytes() == page.read_bytes()
    assert (tmp_path / "b.txt").read_text() == done.out
    assert (tmp_path / "b.md").read_text().startswith("# ")
    assert json.loads((tmp_path / "b.json").read_text())["exit_code"] == 1
    chinese = call(capsys, "report", str(out), "--language", "zh")
    assert "改变词元" in chinese.out


def test_json_is_one_object_on_standard_output(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = audit(capsys, UNSTABLE, tmp_path / "a", "--json")
    assert json.loads(done.out)["verdict"] == "changes tokens"
    assert "record:" in done.err


def test_records_get_a_free_name_if_none_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        call(capsys, "audit", QUIET, *QUICK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit-1.jsonl", "audit-2.jsonl"]


def test_a_record_is_never_overwritten(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "a"
    out.write_text("mine")
    assert_refused(audit(capsys, QUIET, out), "exists", "--resume")
    assert out.read_text() == "mine"


def test_an_audit_goes_on_where_its_budget_ended(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "a"
    audit(capsys, UNSTABLE, out, "--budget", "60 calls")
    before = len(read_record(out).observations)
    resumed = audit(capsys, UNSTABLE, out, "--resume")
    record = read_record(out)
    assert 0 < before < len(record.observations)
    assert resumed.code == 1
    places = [
        (seen.condition, seen.prompt, seen.round, seen.repeat) for seen in record.observations
    ]
    assert len(places) == len(set(places))


def test_a_record_goes_on_only_as_it_was_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "a"
    audit(capsys, UNSTABLE, out, "--budget", "60 calls")
    other = call(capsys, "audit", UNSTABLE, "--out", str(out), "--resume", "--max-tokens", "5")
    assert_refused(other, "as in", "--axes")
    assert_refused(audit(capsys, QUIET, out, "--resume"), "--target")
    assert_refused(call(capsys, "audit", QUIET, "--resume"), "--out")


def test_a_dry_run_asks_nothing_and_writes_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done = audit(capsys, UNSTABLE, tmp_path / "a", "--dry-run", "--price", "3")
    assert done.code == 0
    assert "3 axes, 20 prompts" in done.err
    assert "At 3 a million tokens: at most" in done.err
    assert list(tmp_path.iterdir()) == []


def test_only_the_base_is_recorded_on_request_and_records_compare(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    a, b, c = (str(tmp_path / name) for name in "abc")
    for target, out in ((QUIET, a), (QUIET, b), ("stub:seed=4", c)):
        call(capsys, "audit", target, "--record", "--out", out, "--max-tokens", "4")
    assert {seen.condition for seen in read_record(Path(a)).observations} == {"{}"}
    same = call(capsys, "compare", a, b)
    assert same.code == 0, same.out
    other = call(capsys, "compare", a, c, "--format", "json")
    assert other.code == 1
    assert json.loads(other.out)["verdict"] == "changes tokens"
    page = tmp_path / "page.html"
    assert call(capsys, "compare", a, c, "--out", str(page)).code == 1
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("target", "more", "needle"),
    [
        ("smollm2", (), "hf:FOLDER or engine:MODEL"),
        ("hf:", (), "hf:FOLDER"),
        ("ftp://host", (), "hf:FOLDER"),
        (".", (), "hf:."),
        (QUIET, ("--arithmetic", "plain-f32"), "--arithmetic"),
        ("hf:/nowhere", ("--model", "x"), "--model"),
        ("hf:/nowhere", ("--rate-limit", "3"), "--rate-limit"),
        ("engine:smollm2", ("--most-at-once", "3"), "--most-at-once"),
        (QUIET, ("--axes", "batch,moon"), "moon"),
        (QUIET, ("--budget", "much"), "200 calls"),
        (QUIET, ("--max-tokens", "0"), "at least one token"),
        (QUIET, ("--detect", "1.5"), "between 0 and 1"),
        (QUIET, ("--price", "nan"), "--price"),
        (QUIET, ("--price", "-1"), "--price"),
        (QUIET, ("--answer-pattern", "("), "regular expression"),
        (QUIET, ("--prompts", "/nowhere.jsonl"), "No such file"),
        (QUIET, ("--html", "/nowhere/a.html"), "no folder"),
        ("stub:moon:1", (), "moon"),
        ("engine:/nowhere.gguf", (), "/nowhere.gguf"),
        ("hf:/nowhere", (), "/nowhere"),
        ("http://127.0.0.1:9/v1", (), "127.0.0.1:9"),
    ],
)
def test_what_cannot_be_audited_is_refused_and_leaves_no_record(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    target: str,
    more: tuple[str, ...],
    needle: str,
) -> None:
    refused = call(capsys, "audit", target, "--out", str(tmp_path / "a"), *more)
    assert_refused(refused, needle)
    assert not (tmp_path / "a").exists()


def test_a_damaged_record_is_refused_by_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "a"
    audit(capsys, QUIET, out)
    out.write_text(out.read_text().replace('"round":0', '"round":1', 1))
    for command in (("report", str(out)), ("compare", str(out), str(out))):
        assert_refused(call(capsys, *command), "line")
    assert_refused(call(capsys, "report", str(tmp_path / "none")), "none")


def test_an_interrupted_audit_keeps_what_it_saw(tmp_path: Path) -> None:
    out = tmp_path / "a"
    slow = "stub:seed=3,latency_s=0.05"
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "audit", slow, "--out", str(out), *QUICK],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=make_environment({}),
        cwd=Path(__file__).parents[2],
    )
    while not out.exists() or out.read_bytes().count(b"\n") < 10:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert b"--resume" in err
    record = read_record(out)
    assert record.ends[-1].why == "interrupted"
    assert len(record.observations) > 0


def test_help_names_every_axis() -> None:
    assert AXES_HELP.split(",") == [axis.key for axis in AXES]


def test_few_prompts_are_warned_of_and_suffice_for_a_record(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    few = tmp_path / "few.txt"
    few.write_text("one\ntwo\n")
    warned = audit(capsys, QUIET, tmp_path / "a", "--prompts", str(few), "--dry-run")
    assert "fewer than 11 prompts cannot rule out an effect on 25% of them" in warned.err
    assert "target: stub" in warned.err
    record = ("audit", QUIET, "--record", "--prompts", str(few), "--out", str(tmp_path / "b"))
    assert call(capsys, *record).code == 0


def test_a_file_whose_ending_says_no_format_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    audit(capsys, QUIET, tmp_path / "a")
    page = tmp_path / "page.pdf"
    refused = call(capsys, "report", str(tmp_path / "a"), "--out", str(page))
    assert_refused(refused, ".html", "page.pdf", "--format")
    assert not page.exists()


def test_help_and_reports_load_no_torch_and_no_engine() -> None:
    code = "import samebits.cli.auditing, samebits.cli.report, samebits.cli.compare, sys; "
    code += "import samebits.audit.analyse, samebits.report.in_html; "
    code += "import samebits.audit.targets.http; "
    code += "sys.exit(bool({'torch', 'transformers', 'samebits.engine'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_option_is_part_of_the_question_or_known_not_to_be(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    audit(capsys, QUIET, tmp_path / "a", "--budget", "1 calls")
    asked = {*read_record(tmp_path / "a").header.asked, *chain(*OPTIONS.values())}
    options = {name.removeprefix("with_") for name in signature(audit_verb).parameters}
    besides = {"out", "resume", "html", "language", "as_json", "price", "dry_run"}
    assert options == asked | besides | set(BESIDES["http"])
