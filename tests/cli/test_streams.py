"""Streams that are closed or full, and ends that no verb foresees."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from samebits.engine import Engine
from tests.cli.command import (
    CODE,
    ROOT,
    Ended,
    assert_refused,
    call,
    generate_arguments,
    make_environment,
    start,
)

STDIN, STDOUT, STDERR = 0, 1, 2
INTERRUPT_IMPORT = """
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
"""


@pytest.fixture(scope="module")
def receipt(raw_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("receipt") / "r.json"
    assert start(*generate_arguments(raw_model, "--receipt", str(file))).code == 0
    return file


def start_prepared(prepare: Callable[[], None], *arguments: str, code: str = CODE) -> Ended:
    """Run in a process of its own that changes its streams first."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd=ROOT,
        env=make_environment({}),
        preexec_fn=prepare,
        timeout=120,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def close(descriptor: int) -> Callable[[], None]:
    return lambda: os.close(descriptor)


def fill(descriptor: int, file: Path) -> Callable[[], None]:
    """Let the stream end in a file that may not grow, as on a full disk."""

    def prepare() -> None:
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), descriptor)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    return prepare


def verify_arguments(receipt: Path, model: Path) -> tuple[str, ...]:
    return ("verify", str(receipt), "--model", str(model))


def all_commands(receipt: Path, model: Path) -> Iterator[tuple[str, ...]]:
    yield ("--help",)
    yield ("--version",)
    yield tuple(generate_arguments(model))
    yield verify_arguments(receipt, model)


def test_a_full_output_is_no_bug_of_ours(receipt: Path, raw_model: Path, tmp_path: Path) -> None:
    for arguments in all_commands(receipt, raw_model):
        ended = start_prepared(fill(STDOUT, tmp_path / "out"), *arguments)
        assert_refused(ended, "cannot write the output: File too large")
        assert "bug" not in ended.err
        assert "ignored" not in ended.err


def test_a_closed_output_is_refused(receipt: Path, raw_model: Path) -> None:
    for arguments in all_commands(receipt, raw_model):
        ended = start_prepared(close(STDOUT), *arguments)
        assert_refused(ended, "standard output is closed")


def test_a_closed_input_holds_no_prompt(raw_model: Path) -> None:
    ended = start_prepared(close(STDIN), "generate", "-", "--model", str(raw_model))
    assert_refused(ended, "standard input", "closed")


@pytest.mark.parametrize("state", ["closed", "full"])
def test_a_verdict_does_not_depend_on_notes_that_nobody_can_read(
    state: str, receipt: Path, raw_model: Path, chat_model: Path, tmp_path: Path
) -> None:
    prepare = close(STDERR) if state == "closed" else fill(STDERR, tmp_path / "err")
    same = start_prepared(prepare, *verify_arguments(receipt, raw_model))
    assert (same.code, same.out[:10]) == (0, "same bits:")
    other = start_prepared(prepare, *verify_arguments(receipt, chat_model))
    assert (other.code, other.out[:10]) == (1, "other bits")
    assert start_prepared(prepare, "verify", "no-such").code == 2
    assert start_prepared(prepare, "generat").code == 2


def test_a_panic_that_is_no_exception_is_short_unless_debugged(
    raw_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        pass

    def fail(*args: object, **options: object) -> None:
        raise Panic("index out of range")

    monkeypatch.setattr(Engine, "stream", fail)
    short = call(capsys, *generate_arguments(raw_model))
    assert short.code == 70
    assert "Panic: index out of range" in short.err
    assert "Traceback" not in short.err
    assert "Traceback" in call(capsys, "--debug", *generate_arguments(raw_model)).err


@pytest.mark.parametrize(
    "name", ["samebits.cli.streams", "typer", "samebits.cli.verify", "samebits.engine", "numpy"]
)
def test_an_interrupt_while_modules_are_imported_ends_without_a_trace(
    name: str, raw_model: Path
) -> None:
    code = INTERRUPT_IMPORT.format(name=name) + CODE
    ended = start_prepared(lambda: None, *generate_arguments(raw_model), code=code)
    assert (ended.code, ended.out) == (130, "")
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("option", ["--stop", "--system"])
def test_bytes_of_no_text_are_refused_before_the_model_is_sought(option: str) -> None:
    ended = start("generate", "a", "--model", "no-such", option, b"caf\xe9")
    assert_refused(ended, f"valid Unicode in {option}", "U+DCE9 at character 3")


def test_an_error_spells_out_what_would_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "report", str(tmp_path / "\x1b]0;title\x07\u202ename"))
    assert_refused(ended, "[U+001B]]0;title[U+0007][U+202E]name")
    assert ended.err.count("\n") == 1 and ended.err[:-1].isprintable()
