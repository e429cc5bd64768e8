"""Lines of progress, where no person watches."""

import pytest

from samebits.cli.progress import make_lines, show_progress


def test_a_line_is_written_for_a_new_stage_and_every_ten_seconds(
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [100.0]
    tell = make_lines(lambda label: label.partition(":")[0], lambda: now[0])
    told = [(0, "a: 1"), (9, "a: 2"), (10, "a: 3"), (12, "b: 1"), (21, "b: 2"), (142, "b: 3")]
    for second, label in told:
        now[0] = 100.0 + second
        tell(second / 142, label)
    assert capsys.readouterr().err.splitlines() == [
        "0:00   0% a: 1",
        "0:10   7% a: 3",
        "0:12   8% b: 1",
        "2:22 100% b: 3",
    ]


def test_nothing_is_written_unless_lines_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with show_progress("x") as tell:
        tell(0.5, "half")
    assert capsys.readouterr().err == ""
