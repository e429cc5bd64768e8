"""Every bad input ends with exit code 2 and a message that names it, never with a trace."""

import shutil
from pathlib import Path

import pytest

from tests.cli.command import assert_refused, call, generate_arguments, start
from tests.cli.conftest import CONTEXT

IMPOSSIBLE = {
    "--temperature": ("nan", "-1", "inf", "warm"),
    "--top-k": ("-1", "1.5"),
    "--top-p": ("0", "1.1", "nan"),
    "--min-p": ("-0.1", "2"),
    "--repetition-penalty": ("0", "-1"),
    "--presence-penalty": ("inf",),
    "--frequency-penalty": ("nan",),
    "--seed": ("-1", str(2**64), "x"),
    "--n": ("0", "1000"),
    "--logprobs": ("-1", "21"),
    "--max-tokens": ("0", "-5", "many"),
    "--weights": ("w4",),
    "--arithmetic": ("f16",),
    "--threads": ("0", "-1", "1000000"),
    "--stop": ("",),
}
PAIRS = [(option, value) for option, values in IMPOSSIBLE.items() for value in values]


@pytest.mark.parametrize(("option", "value"), PAIRS)
def test_an_impossible_value_is_refused_by_name(
    option: str, value: str, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *generate_arguments(raw_model, option, value))
    name = option.removeprefix("--")
    assert_refused(ended)
    assert name in ended.err or name.replace("-", "_") in ended.err


def test_w8_is_refused_under_plain_arithmetic(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--weights", "w8", "--arithmetic", "plain-f32")
    assert_refused(call(capsys, *generate_arguments(raw_model, *options)), "w8")


def test_an_unknown_model_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(call(capsys, "generate", "a", "--model", "no-such"), "no-such", "smollm2")


def test_an_unknown_name_is_not_pulled(capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(call(capsys, "pull", "no-such"), "no-such", "smollm2")


@pytest.mark.parametrize("mode", ["--raw", "--chat"])
def test_an_empty_prompt_is_refused(
    mode: str, chat_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(call(capsys, "generate", "", "--model", str(chat_model), mode), "prompt")


def test_empty_standard_input_is_refused(raw_model: Path) -> None:
    assert_refused(start("generate", "-", "--model", str(raw_model), stdin=b"\n"), "prompt")


def test_a_prompt_longer_than_the_context_is_refused(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "generate", "a" * CONTEXT, "--model", str(raw_model))
    assert_refused(ended, str(CONTEXT - 1), str(CONTEXT))


def test_bad_utf8_on_standard_input_is_refused_with_its_place(raw_model: Path) -> None:
    ended = start("generate", "-", "--model", str(raw_model), stdin=b"caf\xe9!")
    assert_refused(ended, "UTF-8", "0xe9", "offset 3")


def test_bad_utf8_in_the_argument_is_refused(raw_model: Path) -> None:
    assert_refused(start("generate", b"caf\xe9", "--model", str(raw_model)), "valid Unicode")


def test_chat_is_refused_of_a_model_without_a_template(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(call(capsys, *generate_arguments(raw_model, "--chat")), "chat template")


def test_a_system_message_is_refused_without_a_chat(
    chat_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, *generate_arguments(chat_model, "--raw", "--system", "Be brief."))
    assert_refused(ended, "--system")


def test_a_foreign_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign = tmp_path / "model.gguf"
    foreign.write_bytes(b"PK\x03\x04 not a model at all" * 10)
    assert_refused(call(capsys, *generate_arguments(foreign)), "expected", "found")


def test_an_empty_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert_refused(call(capsys, *generate_arguments(tmp_path)), "config.json")


def test_truncated_weights_are_refused(
    tmp_path: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "cut"
    shutil.copytree(raw_model, folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert_refused(call(capsys, *generate_arguments(folder)), "model.safetensors")


def test_a_receipt_that_cannot_be_written_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = str(tmp_path / "no" / "r.json")
    ended = call(capsys, "generate", "a", "--model", "no-such", "--receipt", nowhere)
    assert_refused(ended, "--receipt", str(tmp_path / "no"))


def test_an_unknown_option_and_an_unknown_verb_are_refused() -> None:
    assert_refused(start("generate", "a", "--temprature", "1"), "--temprature")
    assert_refused(start("generat"), "generat")
    assert_refused(start("generate"), "prompt")


def test_a_misspelt_variable_is_refused_by_name() -> None:
    ended = start("pull", "no-such", environment={"SAMEBITS_MAXISA": "avx2"})
    assert_refused(ended, "SAMEBITS_MAXISA", "SAMEBITS_MAX_ISA")


def test_an_unknown_level_is_refused() -> None:
    ended = start("pull", "no-such", environment={"SAMEBITS_MAX_ISA": "avx9"})
    assert_refused(ended, "SAMEBITS_MAX_ISA", "avx9", "avx2")


def test_logprobs_that_would_be_shown_nowhere_are_refused(
    raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert_refused(call(capsys, *generate_arguments(raw_model, "--logprobs", "3")), "--json")
