"""A Hugging Face folder from a GGUF file of a Llama model, for engines that do not read GGUF.

    python -m bench.hf_folder MODEL.gguf FOLDER [--dtype float32|bfloat16]

Weights are decoded to float32 as our own loader does, then rounded once for bfloat16. Transformers,
vLLM and samebits read the folder. Writes the same bytes each time.
"""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.model.config import ModelConfig
from samebits.model.families.family import FOLDER_LAYER, FOLDER_TOP, NORM_NAMES
from samebits.model.files import ModelFiles, open_model
from samebits.model.tokenizer import Spelling, Tokenizer

DTYPES = {"float32": ("F32", 4), "bfloat16": ("BF16", 2)}
"""Name in config.json to the name in safetensors and the bytes of a value."""
ALIGNMENT_BYTES = 8


def write_folder(model: Path, folder: Path, dtype: str) -> None:
    """Write config, weights, tokenizer and chat template; an existing folder is written over."""
    files = open_model(model)
    if files.config.family != "llama" or files.config.rope.scaling != "none":
        raise SystemExit(f"expected a Llama model without RoPE scaling; found {model}")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", make_config(files, dtype))
    write_json(folder / "generation_config.json", make_ends(files.tokenizer))
    write_json(folder / "tokenizer.json", make_tokenizer_table(files.tokenizer))
    write_json(folder / "tokenizer_config.json", make_tokenizer_config(files))
    if files.template is not None:
        text = files.template.source
        (folder / "chat_template.jinja").write_text(text, encoding="utf-8", newline="")
    write_weights(folder / "model.safetensors", files, dtype)


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON for people."""
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def make_config(files: ModelFiles, dtype: str) -> dict[str, Any]:
    """Spell the config as transformers does."""
    config = files.config
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.width,
        "num_attention_heads": config.num_heads,
        "num_key_value_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "intermediate_size": config.ffn_width,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_len,
        "rms_norm_eps": config.norm_eps,
        "rope_theta": config.rope.theta,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": config.tied_head,
        "bos_token_id": files.tokenizer.bos_id,
        "eos_token_id": files.tokenizer.eos_id,
        "torch_dtype": dtype,
    }


def make_ends(tokenizer: Tokenizer) -> dict[str, Any]:
    """Name the tokens that end a text; greedy, so that no server samples unasked."""
    ids = sorted(tokenizer.eos_ids)
    return {"bos_token_id": tokenizer.bos_id, "eos_token_id": ids, "do_sample": False}


def make_tokenizer_table(tokenizer: Tokenizer) -> dict[str, Any]:
    """Give tokenizer.json; the decoder is added, which our own tokenizer does without."""
    if tokenizer.spelling is not Spelling.BYTE_LEVEL:
        raise SystemExit("expected a byte-level tokenizer; found SentencePiece")
    table: dict[str, Any] = json.loads(tokenizer.to_json())
    table["decoder"] = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    return table


def make_tokenizer_config(files: ModelFiles) -> dict[str, Any]:
    """Name the special tokens."""
    tokenizer = files.tokenizer
    named = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id}
    texts = {
        name: tokenizer.token_text(place) for name, place in named.items() if place is not None
    }
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **texts,
        "pad_token": texts.get("eos_token"),
        "model_max_length": files.config.context_len,
        "clean_up_tokenization_spaces": False,
    }


def name_tensors(config: ModelConfig) -> Iterator[tuple[str, str]]:
    """Pair canonical names with those of the folder, in order of layers."""
    yield "embed", FOLDER_TOP["embed"]
    names = [name for name in FOLDER_LAYER if not name.endswith(("bias", "q_norm", "k_norm"))]
    for layer in range(config.num_layers):
        for name in names:
            yield f"layers.{layer}.{name}", f"model.layers.{layer}.{FOLDER_LAYER[name]}"
    yield "norm", FOLDER_TOP["norm"]
    if not config.tied_head:
        yield "head", FOLDER_TOP["head"]


def write_weights(path: Path, files: ModelFiles, dtype: str) -> None:
    """Write one safetensors file: the length of the header, the header, the values."""
    code, value_bytes = DTYPES[dtype]
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    pairs = list(name_tensors(files.config))
    end = 0
    for name, folder_name in pairs:
        rows, columns = files.tensors[name].shape
        start, end = end, end + rows * columns * value_bytes
        is_vector = name.rpartition(".")[2] in NORM_NAMES
        shape = [columns] if is_vector else [rows, columns]
        header[folder_name] = {"dtype": code, "shape": shape, "data_offsets": [start, end]}
    raw = json.dumps(header, separators=(",", ":")).encode()
    raw += b" " * (-len(raw) % ALIGNMENT_BYTES)
    with path.open("wb") as out:
        out.write(len(raw).to_bytes(8, "little") + raw)
        for name, _ in pairs:
            source = files.tensors[name]
            out.write(encode_values(source.read_rows(0, source.shape[0]), dtype))


def encode_values(values: NDArray[np.float32], dtype: str) -> bytes:
    """Spell values little-endian; to bfloat16 by rounding to nearest, ties to even."""
    if dtype == "float32":
        return values.astype("<f4").tobytes()
    bits = values.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return rounded.astype("<u2").tobytes()


def main() -> None:
    """Write one folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="float32")
    args = parser.parse_args()
    write_folder(args.model, args.folder, args.dtype)


if __name__ == "__main__":
    main()
