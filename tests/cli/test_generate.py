"""What generate prints, streams and writes."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from samebits.engine import Engine, FinishedEvent, TokenEvent
from samebits.record.canonical import canonical_bytes
from samebits.record.receipt import Receipt
from tests.cli.command import CODE, ROOT, call, generate_arguments, make_environment, start
from tests.cli.conftest import EOS


def test_standard_output_holds_the_text_alone(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *generate_arguments(raw_model))
    value = json.loads(call(capsys, *generate_arguments(raw_model, "--json")).out)
    assert ended.code == 0
    assert ended.out == value["outputs"][0]["text"] + "\n"
    assert "tokens" in ended.err


def test_a_terminal_sees_the_same_text_as_a_file(raw_model: Path) -> None:
    arguments = generate_arguments(raw_model, "--temperature", "1", "--seed", "3")
    assert run_on_terminal(*arguments) == start(*arguments).out


def run_on_terminal(*arguments: str) -> str:
    """Run with standard output on a terminal that changes nothing."""
    leader, follower = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-c", CODE, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=follower,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=make_environment({}),
    )
    os.close(follower)
    seen = b"".join(read_all(leader))
    assert done.wait(60) == 0
    return seen.decode().replace("\r\n", "\n")


def read_all(descriptor: int) -> Iterator[bytes]:
    try:
        while data := os.read(descriptor, 4096):
            yield data
    except OSError:
        # Linux reports the other end's closing so.
        return
    finally:
        os.close(descriptor)


def test_text_comes_as_it_is_drawn_on_a_terminal_only(
    raw_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    monkeypatch.setattr("samebits.cli.generation.show_piece", flushed.append)
    call(capsys, *generate_arguments(raw_model))
    assert flushed == []
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    call(capsys, *generate_arguments(raw_model))
    assert len(flushed) == 6


def test_json_is_one_canonical_object_and_says_where_each_parameter_is_from(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *generate_arguments(raw_model, "--json", "--temperature", "1"))
    value = json.loads(ended.out)
    assert canonical_bytes(value).decode() + "\n" == ended.out
    params = value["request"]["params"]
    assert params["temperature"] == {"value": 1, "origin": "asked"}
    assert params["top_k"] == {"value": 0, "origin": "default"}
    assert params["seed"]["origin"] == "drawn"
    assert len(value["outputs"][0]["token_ids"]) == 6
    assert value["outputs"][0]["finish_reason"] == "length"


def test_json_differs_between_runs_in_timings_alone(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (
        json.loads(call(capsys, *generate_arguments(raw_model, "--json", "--threads", threads)).out)
        for threads in ("1", "2")
    )
    for value in (one, two):
        del value["timings"], value["observed"]
    assert one == two


def test_logprobs_come_with_json(raw_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, *generate_arguments(raw_model, "--json", "--logprobs", "3"))
    entries = json.loads(ended.out)["outputs"][0]["logprobs"]
    assert len(entries) == 6
    assert all(len(entry["top"]) == 3 for entry in entries)
    assert all(entry["logprob"] == entry["top"][0][1] for entry in entries)


def test_standard_input_gives_the_same_as_the_argument(raw_model: Path) -> None:
    options = ("--model", str(raw_model), "--max-tokens", "6")
    from_stdin = start("generate", "-", *options, stdin="Grüß dich\n".encode())
    assert from_stdin.out == start("generate", "Grüß dich", *options).out


def test_a_model_with_a_template_chats_unless_told_otherwise(
    chat_model: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, chat, raw = (
        call(capsys, *generate_arguments(chat_model, "--json", *mode))
        for mode in ((), ("--chat",), ("--raw",))
    )
    without = call(capsys, *generate_arguments(raw_model, "--json"))
    assert prompt_of(plain) == prompt_of(chat) != prompt_of(raw)
    assert prompt_of(raw) == prompt_of(without)
    assert "chat template" in plain.err
    assert "raw" in without.err


def test_a_system_message_reaches_the_prompt(
    chat_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = prompt_of(call(capsys, *generate_arguments(chat_model, "--json")))
    long = prompt_of(call(capsys, *generate_arguments(chat_model, "--json", "--system", "Hm.")))
    assert len(long) == len(short) + len("system: Hm.\n")


def prompt_of(ended: Any) -> list[int]:
    ids: list[int] = json.loads(ended.out)["request"]["prompt_ids"]
    return ids


def test_several_samples_are_told_apart_and_each_is_the_one_of_its_index(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = ("--temperature", "1", "--seed", "18446744073709551615", "--json")
    two = json.loads(call(capsys, *generate_arguments(raw_model, *drawn, "--n", "2")).out)
    one = json.loads(call(capsys, *generate_arguments(raw_model, *drawn)).out)
    assert [output["index"] for output in two["outputs"]] == [0, 1]
    assert two["outputs"][0] == one["outputs"][0]
    assert two["outputs"][0]["token_ids"] != two["outputs"][1]["token_ids"]
    assert two["request"]["params"]["seed"]["value"] == "18446744073709551615"
    printed = call(capsys, *generate_arguments(raw_model, *drawn[:-1], "--n", "2")).out
    assert printed.startswith("[0]\n")
    assert "\n[1]\n" in printed


def test_a_stop_text_ends_the_output_before_it(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(call(capsys, *generate_arguments(raw_model, "--json")).out)["outputs"][0]
    stop = next(letter for letter in whole["text"][2:] if letter.isascii())
    options = ("--json", "--stop", EOS, "--stop", stop)
    cut = json.loads(call(capsys, *generate_arguments(raw_model, *options)).out)["outputs"][0]
    assert cut["text"] == whole["text"].partition(stop)[0]
    assert cut["finish_reason"] == "stop"


def test_a_receipt_is_written_whole_over_an_old_one(
    raw_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.json"
    file.write_text("an old one")
    ended = call(capsys, *generate_arguments(raw_model, "--receipt", str(file)))
    assert Receipt.from_json(file.read_bytes()).digest in ended.err
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


def interrupt_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Ctrl-C come after this many events."""
    stream = Engine.stream

    def cut(*args: Any, **options: Any) -> Iterator[TokenEvent | FinishedEvent]:
        for place, event in enumerate(stream(*args, **options)):
            if place == count:
                raise KeyboardInterrupt
            yield event

    monkeypatch.setattr(Engine, "stream", cut)


def test_an_interrupt_keeps_what_was_done_and_writes_no_receipt(
    raw_model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = json.loads(call(capsys, *generate_arguments(raw_model, "--json")).out)["outputs"][0]
    interrupt_after(3, monkeypatch)
    receipt = tmp_path / "r.json"
    ended = call(capsys, *generate_arguments(raw_model, "--receipt", str(receipt)))
    assert ended.code == 130
    assert whole["text"].startswith(ended.out.rstrip("\n"))
    assert "interrupted after 3 tokens" in ended.err
    assert not receipt.exists()
    value = json.loads(call(capsys, *generate_arguments(raw_model, "--json")).out)
    assert value["is_complete"] is False
    assert value["outputs"][0]["token_ids"] == whole["token_ids"][:3]
    assert value["outputs"][0]["finish_reason"] == "interrupted"


def test_an_unexpected_error_is_short_unless_debugged(
    raw_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object, **options: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(Engine, "stream", fail)
    short = call(capsys, *generate_arguments(raw_model))
    assert short.code == 70
    assert "ZeroDivisionError: by zero" in short.err
    assert "Traceback" not in short.err
    long = call(capsys, "--debug", *generate_arguments(raw_model))
    assert long.code == 70
    assert "Traceback" in long.err


def test_a_reader_that_goes_away_is_no_error_to_report(raw_model: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *generate_arguments(raw_model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env=make_environment({}),
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    complaint = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait(60) == 141
    assert "Broken" not in complaint
    assert "Traceback" not in complaint


def test_a_drawn_seed_is_told_and_gives_the_same_text_again(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = call(capsys, *generate_arguments(raw_model, "--temperature", "1"))
    [line] = [line for line in drawn.err.splitlines() if line.startswith("seed: ")]
    seed = line.removeprefix("seed: ").removesuffix(", drawn")
    given = call(capsys, *generate_arguments(raw_model, "--temperature", "1", "--seed", seed))
    assert given.out == drawn.out
    assert "seed: " not in given.err
