"""Each weight byte and the template of a model show in its digests; names of files do not."""

import hashlib
import os
from pathlib import Path

import pytest

from samebits.errors import ModelFileError
from samebits.model.digests import digest_model

FILES = {
    "config.json": "{}",
    "model-00001-of-00002.safetensors": "weights",
    "tokenizer.json": "{}",
    "tokenizer_config.json": '{"chat_template": "{{ messages }}"}',
    "my-secret.json": "{}",
    "README.md": "not read",
}


def write_model(folder: Path, **changes: str) -> Path:
    folder.mkdir()
    for name, text in (FILES | changes).items():
        (folder / name).write_text(text)
    return folder


def test_the_files_of_a_folder_are_digested_as_other_tools_do(tmp_path: Path) -> None:
    found = digest_model(write_model(tmp_path / "m"))
    digest = hashlib.sha256(b"weights").hexdigest()
    assert found.files["model-00001-of-00002.safetensors"] == f"sha256:{digest}"
    assert found.template == f"sha256:{hashlib.sha256(b'{{ messages }}').hexdigest()}"
    assert "secret" not in str(found)
    assert len(found.files) == 5


@pytest.mark.parametrize(
    ("name", "text", "moved"),
    [
        ("model-00001-of-00002.safetensors", "weightz", "weights"),
        ("tokenizer.json", "{ }", "tokenizer"),
        ("chat_template.jinja", "{{ today }}", "template"),
        ("tokenizer_config.json", '{"chat_template": "x"}', "template"),
    ],
)
def test_one_byte_is_named_by_the_part_that_it_belongs_to(
    tmp_path: Path, name: str, text: str, moved: str
) -> None:
    a = digest_model(write_model(tmp_path / "a"))
    b = digest_model(write_model(tmp_path / "b", **{name: text}))
    changed = {part for part in ("tokenizer", "template") if getattr(a, part) != getattr(b, part)}
    assert changed == ({moved} - {"weights"})
    assert a.files.get(name) != b.files[name]


def test_a_file_of_an_unknown_kind_has_its_digest_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"no GGUF")
    found = digest_model(tmp_path / "x.gguf")
    assert found.files == {"weights": f"sha256:{hashlib.sha256(b'no GGUF').hexdigest()}"}
    assert (found.tokenizer, found.template) == (None, None)


def test_progress_ends_at_all_of_it(tmp_path: Path) -> None:
    told: list[float] = []
    digest_model(write_model(tmp_path / "m"), lambda share, _doing: told.append(share))
    assert told == sorted(told) and told[-1] == 1.0


@pytest.mark.parametrize("kind", ["none", "empty", "pipe"])
def test_what_is_no_model_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "empty":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(ModelFileError):
        digest_model(path)
