"""Numbers and texts of a Hugging Face folder that make no sense: refused by name, never a crash."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samebits.errors import ConfigError, ModelFileError, SamebitsError, UnsupportedInput
from samebits.model.files import open_model
from tests.model.folder_files import CONFIG, TOKENIZER, VOCABULARY, write_folder, write_json


def refusal(path: Path) -> SamebitsError:
    with pytest.raises((ModelFileError, ConfigError)) as caught:
        open_model(path)
    assert caught.value.expected and caught.value.found
    return caught.value


DIGITS_400 = "1" + "0" * 400
NUMBER_RULES: dict[str, tuple[str, str]] = {
    "eps above 1": ('"rms_norm_eps": 1.5', "norm_eps"),
    "eps below binary32": ('"rms_norm_eps": 1e-60', "norm_eps"),
    "eps of 400 digits": (f'"rms_norm_eps": {DIGITS_400}', "rms_norm_eps"),
    "eps infinite": ('"rms_norm_eps": 1e999', "rms_norm_eps"),
    "theta above binary32": ('"rope_theta": 1e300', "rope theta"),
    "theta of 1": ('"rope_theta": 1', "rope theta"),
    "theta of 400 digits": (f'"rope_theta": {DIGITS_400}', "rope_theta"),
    "surrogate": ('"model_type": "\\ud800"', "surrogates not allowed"),
    "factor": ('"rope_scaling": {"type": "linear", "factor": 1e300}', "rope factor"),
    "context": ('"max_position_embeddings": 1048577', "context length.*lower"),
    "layer types of lists": ('"model_type": "qwen3", "layer_types": [[], {}]', "layer_types"),
}


@pytest.mark.parametrize("rule", NUMBER_RULES)
def test_a_number_that_makes_no_sense_is_refused_by_name(rule: str, tmp_path: Path) -> None:
    changed, named = NUMBER_RULES[rule]
    path = write_folder(tmp_path / "m")
    changes = json.loads("{" + changed + "}")
    write_json(path / "config.json", {**CONFIG, **changes})
    error = refusal(path)
    assert re.search(named, str(error)), error


def test_the_longest_context_opens(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "config.json", {**CONFIG, "max_position_embeddings": 2**20})
    assert open_model(path).config.context_len == 2**20


@pytest.mark.parametrize("key", ["dropout", "alpha", "nbest_size"])
def test_a_tokenizer_that_draws_lots_is_refused(key: str, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "tokenizer.json", {**TOKENIZER, "model": {**TOKENIZER["model"], key: 0.5}})
    assert f"{key} 0.5" in str(refusal(path))


@pytest.mark.parametrize("dropout", [None, 0.0])
def test_no_dropout_opens(dropout: float | None, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    model = {**TOKENIZER["model"], "dropout": dropout}
    write_json(path / "tokenizer.json", {**TOKENIZER, "model": model})
    assert open_model(path).tokenizer.encode("he") == [VOCABULARY.index("he")]


TEXT_FILES = [
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "chat_template.jinja",
]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("name", TEXT_FILES)
def test_a_pipe_or_a_folder_in_place_of_a_text_is_refused(
    name: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    path = write_folder(tmp_path / "m")
    (path / name).unlink(missing_ok=True)
    make(path / name)
    assert f"regular file at {path / name}" in str(refusal(path))


TOKENIZER_CONFIGS = {
    "surrogate": {"bos_token": "\ud800"},
    "surrogate inside": {"eos_token": {"content": "\ud800"}},
    "name of a list": {"chat_template": [{"name": [], "template": "x"}]},
    "no default": {"chat_template": [{"name": "tools", "template": "x"}, 3]},
    "number": {"chat_template": 5},
    "default number": {"chat_template": [{"name": "default", "template": 5}]},
}


@pytest.mark.parametrize("rule", TOKENIZER_CONFIGS)
def test_a_wrong_tokenizer_config_is_refused(rule: str, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "tokenizer_config.json", TOKENIZER_CONFIGS[rule])
    assert "tokenizer_config.json" in str(refusal(path))


@pytest.mark.parametrize("loops", [21, 60])
def test_a_template_of_too_many_loops_is_refused(loops: int, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    source = "{% for a in [1] %}" * loops + "{% endfor %}" * loops
    (path / "chat_template.jinja").write_text(source)
    assert "SyntaxError" in str(refusal(path))


BROKEN_TABLES: dict[str, dict[str, Any]] = {
    "charsmap": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "charsmap inside": {
        "normalizer": {
            "type": "Sequence",
            "normalizers": [{"type": "Precompiled", "precompiled_charsmap": "////fwAA"}],
        }
    },
    "regex": {"normalizer": {"type": "Replace", "pattern": {"Regex": "("}, "content": "x"}},
    "charsmap of 2 GB": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "////fwAA"}},
    "merge": {"model": {**TOKENIZER["model"], "merges": ["q q"]}},
    "prefix": {
        "model": {
            "type": "BPE",
            "vocab": {"a": 0, "b": 1, "ab": 2},
            "merges": [["a", "b"]],
            "continuing_subword_prefix": "aaaa",
        }
    },
}


@pytest.mark.parametrize("rule", BROKEN_TABLES)
def test_what_the_library_fails_or_panics_on_is_refused(rule: str, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "tokenizer.json", {**TOKENIZER, **BROKEN_TABLES[rule]})
    assert "tokenizer.json" in str(refusal(path))


def test_text_that_the_tokenizer_fails_on_is_refused(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    model = {"type": "WordLevel", "vocab": {"he": 0}, "unk_token": "gone"}
    write_json(path / "tokenizer.json", {**TOKENIZER, "added_tokens": [], "model": model})
    tokenizer = open_model(path).tokenizer
    assert tokenizer.encode("he") == [0]
    with pytest.raises(UnsupportedInput, match="tokenizer can encode"):
        tokenizer.encode("she")
