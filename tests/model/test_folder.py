"""Hugging Face folders: the weights are those that were saved, whatever the files' form."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from samebits.errors import ModelFileError
from samebits.model.files import open_model
from samebits.model.safetensors import open_safetensors
from tests.model.folder_files import (
    CONFIG,
    TOKENIZER,
    lay_out,
    safetensors_bytes,
    tiny_weights,
    write_folder,
    write_json,
)

SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]


def test_weights_have_the_bits_that_were_saved(tmp_path: Path) -> None:
    model = open_model(write_folder(tmp_path / "m"))
    saved = tiny_weights()
    assert len(model.tensors) == len(saved)
    pairs = {
        "embed": "model.embed_tokens.weight",
        "head": "lm_head.weight",
        "layers.1.k": "model.layers.1.self_attn.k_proj.weight",
        "layers.0.ffn_norm": "model.layers.0.post_attention_layernorm.weight",
        "layers.1.down": "model.layers.1.mlp.down_proj.weight",
    }
    for name, file_name in pairs.items():
        source = model.tensors[name]
        expected = saved[file_name].reshape(source.shape)
        assert np.array_equal(source.read_rows(0, source.shape[0]), expected)


def test_shards_hold_the_same_weights_as_one_file(tmp_path: Path) -> None:
    one, many = (
        open_model(write_folder(tmp_path / "1")),
        open_model(write_folder(tmp_path / "2", SHARDS)),
    )
    assert one.tensors.keys() == many.tensors.keys()
    for name, source in one.tensors.items():
        rows = source.shape[0]
        assert np.array_equal(source.read_rows(0, rows), many.tensors[name].read_rows(0, rows))
    assert one.file_digest != many.file_digest
    assert many.file_digest == open_model(tmp_path / "2").file_digest


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_every_dtype_decodes_as_torch_decodes_it(tmp_path: Path, dtype: torch.dtype) -> None:
    values = torch.randn(7, 5, generator=torch.Generator().manual_seed(1)).to(dtype)
    save_file({"w": values, "v": values[0].clone()}, tmp_path / "w.safetensors")
    _, tensors = open_safetensors(tmp_path / "w.safetensors")
    assert np.array_equal(tensors["w"].read_rows(2, 7), values[2:].float().numpy())
    assert tensors["v"].shape == (1, 5)


def test_a_head_that_repeats_the_embedding_may_be_in_a_tied_model(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "config.json", {**CONFIG, "tie_word_embeddings": True})
    with pytest.raises(ModelFileError, match="equal to the embedding"):
        open_model(path)
    weights = tiny_weights()
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    (path / "model.safetensors").write_bytes(safetensors_bytes(*lay_out(weights)))
    assert "head" not in open_model(path).tensors


def test_all_ends_named_in_the_folder_end_a_text(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "generation_config.json", {"eos_token_id": [3, 5]})
    write_json(path / "tokenizer_config.json", {"eos_token": {"content": "<|endoftext|>"}})
    tokenizer = open_model(path).tokenizer
    assert tokenizer.eos_ids == {0, 3, 5}
    assert tokenizer.eos_id == tokenizer.bos_id == 0


@pytest.mark.parametrize("place", ["jinja", "text", "list"])
def test_the_chat_template_is_found_in_all_its_places(tmp_path: Path, place: str) -> None:
    path = write_folder(tmp_path / "m")
    assert open_model(path).template is None
    source = "{{ messages[0].content }}"
    if place == "jinja":
        (path / "chat_template.jinja").write_text(source)
    else:
        named = [{"name": "default", "template": source}, {"name": "rag", "template": "no"}]
        value = source if place == "text" else named
        write_json(path / "tokenizer_config.json", {"chat_template": value})
    template = open_model(path).template
    assert template is not None
    assert template.render([{"role": "user", "content": "hi"}]) == "hi"


def test_a_decoder_that_is_not_known_is_named(tmp_path: Path) -> None:
    path = write_folder(tmp_path / "m")
    write_json(path / "tokenizer.json", {**TOKENIZER, "decoder": {"type": "Fuse"}})
    with pytest.raises(ModelFileError, match="found Fuse"):
        open_model(path)
