"""Each rule a Hugging Face folder can break, broken once, and mutated safetensors files."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samebits.errors import ConfigError, ModelFileError, SamebitsError
from samebits.model.files import ModelFiles, open_model
from tests.model.folder_files import (
    CONFIG,
    TOKENIZER,
    Entry,
    lay_out,
    safetensors_bytes,
    tiny_weights,
    write_folder,
    write_json,
)

NORM = "model.norm.weight"
Q = "model.layers.0.self_attn.q_proj.weight"
SHARDS = ["model-1.safetensors", "model-2.safetensors"]


def read_all(model: ModelFiles) -> None:
    for source in model.tensors.values():
        source.read_rows(0, source.shape[0])


def refusal(path: Path) -> SamebitsError:
    with pytest.raises((ModelFileError, ConfigError)) as caught:
        read_all(open_model(path))
    assert caught.value.expected and caught.value.found
    return caught.value


def entry(**changes: Any) -> Callable[[dict[str, Any]], object]:
    return lambda table: table[Q].update(changes)


def reach(table: dict[str, Entry], start: int, stop: int) -> None:
    table[Q]["data_offsets"] = [start, stop]


TABLE_RULES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "dtype": (entry(dtype="F8_E4M3"), "F8_E4M3"),
    "dtype number": (entry(dtype=3), "found 3"),
    "shape negative": (entry(shape=[-16, -16]), "shape"),
    "shape text": (entry(shape="16"), "shape"),
    "shape bool": (entry(shape=[True, 16]), "shape"),
    "shape empty": (entry(shape=[0, 16], data_offsets=[0, 0]), "not empty"),
    "shape of three": (entry(shape=[16, 4, 4]), "vector or a matrix"),
    "shape too large": (entry(shape=[2**40, 2**40]), "bytes apart"),
    "bytes": (entry(shape=[16, 15]), "bytes apart"),
    "offsets turned": (lambda table: reach(table, 1024, 0), "bytes apart"),
    "offsets beyond": (lambda table: reach(table, 2**62, 2**62 + 1024), Q),
    "offsets overlap": (lambda table: reach(table, 0, 1024), "overlap or leave a gap"),
    "offsets of three": (entry(data_offsets=[0, 1, 2]), "data_offsets"),
    "key missing": (lambda table: table[Q].pop("shape"), "dtype, shape and data_offsets"),
    "key surplus": (entry(extra=1), "dtype, shape and data_offsets"),
    "no entry": (lambda table: table.update({Q: None}), "dtype, shape and data_offsets"),
    "missing": (lambda table: table.pop(list(table)[-1]), "more than its tensors"),
    "renamed": (lambda table: table.update({"extra": table.pop(Q)}), Q),
}


@pytest.mark.parametrize("rule", TABLE_RULES)
def test_a_broken_rule_of_the_table_is_refused_by_name(rule: str, tmp_path: Path) -> None:
    change, named = TABLE_RULES[rule]
    path = write_folder(tmp_path / "m")
    table, data = lay_out(tiny_weights())
    change(table)
    (path / "model.safetensors").write_bytes(safetensors_bytes(table, data))
    error = refusal(path)
    assert re.search(named, str(error)), error


def test_the_folders_that_are_spoiled_here_are_right(tmp_path: Path) -> None:
    read_all(open_model(write_folder(tmp_path / "one")))
    read_all(open_model(write_folder(tmp_path / "two", SHARDS)))


HEADERS = {
    "empty file": b"",
    "header too long": (2**63).to_bytes(8, "little") + b"{}",
    "no JSON": (2).to_bytes(8, "little") + b"{]",
    "no object": (2).to_bytes(8, "little") + b"[]",
    "not UTF-8": (3).to_bytes(8, "little") + b'"\xff"',
    "key twice": (20).to_bytes(8, "little") + b'{"a": {}, "a": {}}  ',
    "too deep": (200_000).to_bytes(8, "little") + b"[" * 200_000,
    "data without tensors": (2).to_bytes(8, "little") + b"{}more",
}


@pytest.mark.parametrize("rule", HEADERS)
def test_a_broken_header_is_refused(rule: str, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    (path / "model.safetensors").write_bytes(HEADERS[rule])
    assert "model.safetensors" in str(refusal(path))


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    whole = (path / "model.safetensors").read_bytes()
    for length in [*range(0, 3000, 11), *range(3000, len(whole), 499), len(whole) - 1]:
        (path / "model.safetensors").write_bytes(whole[:length])
        refusal(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_weight_that_is_no_number_is_refused_by_tensor(value: float, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    weights = tiny_weights()
    weights[Q][3, 5] = value
    (path / "model.safetensors").write_bytes(safetensors_bytes(*lay_out(weights)))
    assert Q in str(refusal(path))


def other_shard(index: dict[str, Any], shard: object) -> None:
    index["weight_map"][Q] = shard


INDEX_RULES: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no map": (lambda index: index.pop("weight_map"), "weight_map"),
    "empty map": (lambda index: index.update(weight_map={}), "weight_map"),
    "shard missing": (lambda index: other_shard(index, "gone.safetensors"), "gone.safetensors"),
    "parent": (lambda index: other_shard(index, "../x.safetensors"), r"\.\./x"),
    "absolute": (lambda index: other_shard(index, "/tmp/x.safetensors"), "/tmp/x"),
    "backslash": (lambda index: other_shard(index, "a\\x.safetensors"), "x.safetensors"),
    "nul": (lambda index: other_shard(index, "a\0.safetensors"), "same folder"),
    "pickle": (lambda index: other_shard(index, "model.bin"), "model.bin"),
    "number": (lambda index: other_shard(index, 3), "found 3"),
    "wrong shard": (
        lambda index: other_shard(
            index, next(shard for shard in SHARDS if shard != index["weight_map"][Q])
        ),
        Q,
    ),
    "not listed": (lambda index: index["weight_map"].pop(Q), f"{Q}.*not listed"),
}


@pytest.mark.parametrize("rule", INDEX_RULES)
def test_a_broken_index_is_refused_by_name(rule: str, tmp_path: Path) -> None:
    change, named = INDEX_RULES[rule]
    path = write_folder(tmp_path / "m", SHARDS)
    index = json.loads((path / "model.safetensors.index.json").read_text())
    change(index)
    write_json(path / "model.safetensors.index.json", index)
    error = refusal(path)
    assert re.search(named, str(error)), error


CONFIG_RULES: dict[str, tuple[dict[str, Any], str]] = {
    "model type": ({"model_type": "mamba"}, "mamba"),
    "unknown key": ({"surprise": 1}, "surprise"),
    "experts": ({"num_local_experts": 8}, "num_local_experts"),
    "bias": ({"attention_bias": True}, "attention_bias"),
    "mlp bias": ({"mlp_bias": True}, "mlp_bias"),
    "activation": ({"hidden_act": "relu2"}, "relu2"),
    "parallel": ({"pretraining_tp": 2}, "pretraining_tp"),
    "quantised": ({"quantization_config": {"bits": 4}}, "quantization_config"),
    "softcap": ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
    "rope type": ({"rope_scaling": {"rope_type": "yarn", "factor": 4.0}}, "yarn"),
    "rope key": ({"rope_scaling": {"type": "linear", "factor": 2.0, "beta": 1}}, "beta"),
    "rope factor": ({"rope_scaling": {"type": "linear"}}, "factor"),
    "rope both": (
        {"rope_scaling": {"type": "default"}, "rope_parameters": {"rope_type": "default"}},
        "both",
    ),
    "part of a head": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    "interleaved": ({"rope_interleaved": True}, "rope_interleaved"),
    "window": ({"sliding_window": 16}, "sliding_window"),
    "encoder": ({"is_encoder_decoder": True}, "is_encoder_decoder"),
    "odd head": ({"head_dim": 3}, "even head size"),
    "text for a number": ({"hidden_size": "16"}, "hidden_size"),
    "true for a number": ({"num_hidden_layers": True}, "num_hidden_layers"),
    "layers": ({"num_hidden_layers": 9}, "model.layers.2"),
    "tied number": ({"tie_word_embeddings": 1}, "tie_word_embeddings"),
    "token id": ({"eos_token_id": "two"}, "token ids"),
}


@pytest.mark.parametrize("rule", CONFIG_RULES)
def test_a_config_that_changes_the_mathematics_is_refused_by_key(rule: str, tmp_path: Path) -> None:
    changes, named = CONFIG_RULES[rule]
    path = write_folder(tmp_path / "m")
    write_json(path / "config.json", {**CONFIG, **changes})
    error = refusal(path)
    assert re.search(named, str(error)), error


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    (path / name).unlink()
    assert name in str(refusal(path))


def test_a_pipe_in_place_of_weights_is_refused_and_does_not_wait(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    (path / "model.safetensors").unlink()
    os.mkfifo(path / "model.safetensors")
    assert "regular file" in str(refusal(path))


@pytest.mark.parametrize(
    "table",
    [{}, {**TOKENIZER, "model": {"type": "Magic"}}, {**TOKENIZER, "added_tokens": 3}],
    ids=["empty", "model", "added"],
)
def test_a_broken_tokenizer_is_refused(table: dict[str, Any], tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "tokenizer.json", table)
    assert "tokenizer.json" in str(refusal(path))


WHOLE = safetensors_bytes(*lay_out(tiny_weights()))
HEADER_BYTES = 8 + int.from_bytes(WHOLE[:8], "little")


@settings(
    max_examples=300, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, HEADER_BYTES),
            st.one_of(
                st.binary(min_size=1, max_size=4),
                st.sampled_from([b"0", b"9", b"-", b'"', b"}", b"[", b"null", b"1e9", b"\\u"]),
            ),
        ),
        min_size=1,
        max_size=3,
    )
)
def test_a_mutated_file_opens_or_is_refused(edits: list[tuple[int, bytes]], tmp_path: Path) -> None:
    path = tmp_path / "m"
    if not path.exists():
        write_folder(path)
    data = bytearray(WHOLE)
    for at, new in edits:
        data[at : at + len(new)] = new
    (path / "model.safetensors").write_bytes(data)
    try:
        read_all(open_model(path))
    except (ModelFileError, ConfigError) as error:
        assert error.expected and error.found
