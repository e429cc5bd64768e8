"""Run the command line as a user does: in a process of its own, or here where that will do."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from samebits.cli import run_line

ROOT = Path(__file__).parents[2]
CODE = "from samebits.cli import main; main()"


class Ended(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


def start(
    *arguments: str | bytes,
    stdin: bytes = b"",
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run in a process of its own; everything a user can see, as text."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=make_environment(environment or {}),
        timeout=120,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def make_environment(extra: Mapping[str, str]) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SAMEBITS_")}
    return {**inherited, "PYTHONUTF8": "1", **extra}


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ended:
    """Run in this process: quicker."""
    code = run_line(arguments)
    seen = capsys.readouterr()
    return Ended(code, seen.out, seen.err)


def assert_refused(ended: Ended, *needles: str) -> None:
    """Exit code 2, nothing on standard output, one message that names what is wrong, no trace."""
    assert ended.code == 2, ended
    assert ended.out == ""
    assert "Traceback" not in ended.err
    for needle in needles:
        assert needle in ended.err


def generate_arguments(model: Path, *more: str) -> Sequence[str]:
    return ("generate", "Why is", "--model", str(model), "--max-tokens", "6", *more)
