"""The demo's report says what the record says, in every form."""

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from samebits.audit.demo_record import Change
from samebits.record.canonical import canonical_bytes
from samebits.report.demo import demo_json, demo_text, draw_demo
from tests.report.demo_records import (
    CHANGES,
    DIGEST,
    make_cell,
    make_record,
    make_subject,
    make_untested,
)


def row_of(text: str, label: str) -> str:
    return next(line for line in map(str.strip, text.splitlines()) if line.startswith(label))


@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, demo_text(make_record(), width).splitlines())) <= width


@pytest.mark.parametrize("width", [80, 120])
def test_rows_of_the_table_are_not_broken(width: int) -> None:
    text = demo_text(make_record(), width)
    first = " ".join(row_of(text, "batch 8").split())
    second = " ".join(row_of(text, "ISA avx2").split())
    assert first == "batch 8 alone differ 5/16 @3 differ 0/16 same"
    assert second == "ISA avx2 batch 8 not tested not tested same"


def test_the_widest_table_fits_80_columns() -> None:
    changes = tuple(
        Change(key=label, label=label, base="batch 8") for label in ("ISA avx512vnni", "neighbours")
    )
    cells = [make_cell(change.key, 16, 16, 15) for change in changes]
    subjects = [make_subject(name, *cells) for name in ("plain-bf16", "plain-f32", "sb1")]
    text = demo_text(replace(make_record(), changes=changes, subjects=tuple(subjects)), 80)
    row = " ".join(row_of(text, "ISA avx512vnni").split())
    assert row == "ISA avx512vnni batch 8" + 3 * " differ 16/16 @16"


def test_what_was_not_tested_is_named_with_its_reason_and_never_called_same() -> None:
    text = " ".join(demo_text(make_record()).split())
    reason = "not tested: NumPy's BLAS picks its own level (plain-bf16, plain-f32: ISA avx2)"
    assert reason in text


def test_an_untested_change_does_not_count_as_tested() -> None:
    record = make_record()
    subject = record.subjects[2]
    cells = (subject.cells[0], make_untested(CHANGES[1].key, "no C kernels here"))
    changed = replace(
        record,
        subjects=(*record.subjects[:2], replace(subject, cells=cells)),
    )
    assert "sb1: same bits under 1 of 1 changes" in demo_text(changed)
    assert "sb1: same bits under 2 of 2 changes" in demo_text(record)
    assert "plain-bf16: same bits under 0 of 1 changes; other words under 1" in demo_text(record)


def test_plain_text_and_json_have_no_escape_codes() -> None:
    assert "\x1b" not in demo_text(make_record())
    assert "\x1b" not in demo_json(make_record())


def test_a_terminal_gets_colour_unless_it_asks_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[32m" in draw_on_terminal()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[32m" not in draw_on_terminal()


def draw_on_terminal() -> str:
    sink = io.StringIO()
    Console(file=sink, force_terminal=True, width=80).print(draw_demo(make_record()))
    return sink.getvalue()


def test_digests_stand_whole_in_80_columns() -> None:
    assert demo_text(make_record(), 80).count(DIGEST.removeprefix("sha256:")) == 3


def test_model_text_is_quoted_as_it_is() -> None:
    text = " ".join(demo_text(make_record()).split())
    assert "[bold]not markup[/bold]" in text
    assert '"The sea is"' in text


def test_json_is_canonical_and_holds_the_record() -> None:
    text = demo_json(make_record())
    value = json.loads(text)
    assert canonical_bytes(value).decode() + "\n" == text
    assert value["subjects"][0]["flip"]["token"] == 2
    assert value["subjects"][2]["cells"][1]["not_tested"] is None
    assert value["format"] == "samebits/demo/v1"
