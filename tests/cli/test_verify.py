"""A receipt verifies; one that was changed is refused by the field; other bits are named."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from samebits.record.canonical import canonical_bytes
from samebits.record.receipt import LogitChain, Receipt
from tests.cli.command import assert_refused, call, generate_arguments
from tests.cli.conftest import write_model


@pytest.fixture
def receipt(raw_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    file = tmp_path / "receipt.json"
    options = ("--temperature", "0.7", "--n", "2", "--receipt", str(file))
    assert call(capsys, *generate_arguments(raw_model, *options)).code == 0
    return file


def change(file: Path, path: tuple[Any, ...], value: object) -> None:
    whole = json.loads(file.read_text())
    at = whole
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    file.write_bytes(canonical_bytes(whole))


@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_receipt_verifies(
    threads: str, receipt: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "verify", str(receipt), "--model", str(raw_model), "--threads", threads)
    assert ended.code == 0
    assert ended.out.startswith("same bits: 12 steps\n")
    assert Receipt.from_json(receipt.read_bytes()).digest in ended.out


CHANGES: dict[str, tuple[tuple[Any, ...], object]] = {
    "body.samples[0].token_ids[0]": (("body", "samples", 0, "token_ids", 0), "x"),
    "digest": (("body", "samples", 0, "finish_reason"), "stop"),
    "body.samples[1].chain": (("body", "samples", 1, "steps", 2), "sha256:" + "0" * 64),
    "body.header.contract": (("body", "header", "contract"), "sb2"),
    "body.header.prompt_ids[0]": (("body", "header", "prompt_ids", 0), "1"),
    "body.format": (("body", "format"), "samebits/receipt/v9"),
}


@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_receipt_is_refused_by_the_field(
    field: str, receipt: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(receipt, *CHANGES[field])
    assert_refused(call(capsys, "verify", str(receipt), "--model", str(raw_model)), field)


def test_a_changed_token_is_refused(
    receipt: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = json.loads(receipt.read_text())["body"]["samples"][0]["token_ids"][0]
    change(receipt, ("body", "samples", 0, "token_ids", 0), (kept + 1) % 256)
    assert_refused(call(capsys, "verify", str(receipt), "--model", str(raw_model)), "digest")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1", b"\xff\xfe", b"null"])
def test_what_is_no_receipt_is_refused(
    content: bytes, tmp_path: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "r.json"
    file.write_bytes(content)
    assert_refused(call(capsys, "verify", str(file), "--model", str(raw_model)), "expected")


def test_a_missing_receipt_and_a_folder_are_refused(
    tmp_path: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        ended = call(capsys, "verify", str(path), "--model", str(raw_model))
        assert_refused(ended, str(path))


def test_another_model_is_named_with_exit_code_1(
    receipt: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.cli.conftest.SEED", 1)
    folder = tmp_path / "other"
    folder.mkdir()
    other = write_model(folder, {})
    ended = call(capsys, "verify", str(receipt), "--model", str(other))
    assert ended.code == 1
    assert "model.weights" in ended.out
    assert "same bits" not in ended.out


def test_forged_logits_are_named_with_the_first_step(
    receipt: Path, raw_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forge_step(receipt, sample=1, step=2)
    ended = call(capsys, "verify", str(receipt), "--model", str(raw_model))
    assert ended.code == 1
    assert "samples[1].steps[2]" in ended.out
    assert "samples[0]" not in ended.out


def forge_step(file: Path, *, sample: int, step: int) -> None:
    """Change a step and make chain and digest fit, as only a forger would."""
    honest = Receipt.from_json(file.read_bytes())
    kept = honest.samples[sample]
    steps = (*kept.steps[:step], "sha256:" + "0" * 64, *kept.steps[step + 1 :])
    chain = LogitChain(honest.header, kept.index)
    for digest in steps:
        chain.push_digest(digest)
    samples = list(honest.samples)
    samples[sample] = replace(kept, steps=steps, chain=chain.link)
    file.write_text(replace(honest, samples=tuple(samples)).to_json())
