"""Writes Hugging Face folders for tests: tiny Llamas, right ones and, told so, wrong ones."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

WIDTH, HEADS, KV_HEADS, FFN, LAYERS = 16, 4, 2, 24, 2
VOCABULARY = ["<|endoftext|>", *(chr(code) for code in range(0x21, 0x7F)), "Ġ", "he"]

CONFIG: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": FFN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "vocab_size": len(VOCABULARY),
    "bos_token_id": 0,
    "eos_token_id": 0,
    "torch_dtype": "float32",
}

BYTE_LEVEL = {
    "type": "ByteLevel",
    "add_prefix_space": False,
    "trim_offsets": True,
    "use_regex": True,
}
TOKENIZER: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [
        {
            "id": 0,
            "content": VOCABULARY[0],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
    ],
    "pre_tokenizer": BYTE_LEVEL,
    "decoder": BYTE_LEVEL,
    "model": {
        "type": "BPE",
        "vocab": {token: place for place, token in enumerate(VOCABULARY)},
        "merges": ["h e"],
    },
}

Entry = dict[str, Any]


def tiny_weights(seed: int = 0) -> dict[str, NDArray[np.float32]]:
    """Draw the weights of the model CONFIG describes, by their names in a folder."""
    draw = np.random.default_rng(seed)
    kv_rows = WIDTH // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (len(VOCABULARY), WIDTH),
        "model.norm.weight": (WIDTH,),
        "lm_head.weight": (len(VOCABULARY), WIDTH),
    }
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        shapes |= {
            prefix + "input_layernorm.weight": (WIDTH,),
            prefix + "self_attn.q_proj.weight": (WIDTH, WIDTH),
            prefix + "self_attn.k_proj.weight": (kv_rows, WIDTH),
            prefix + "self_attn.v_proj.weight": (kv_rows, WIDTH),
            prefix + "self_attn.o_proj.weight": (WIDTH, WIDTH),
            prefix + "post_attention_layernorm.weight": (WIDTH,),
            prefix + "mlp.gate_proj.weight": (FFN, WIDTH),
            prefix + "mlp.up_proj.weight": (FFN, WIDTH),
            prefix + "mlp.down_proj.weight": (WIDTH, FFN),
        }
    return {name: draw.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def lay_out(weights: Mapping[str, NDArray[np.float32]]) -> tuple[dict[str, Entry], bytes]:
    """Make the table and the data of a safetensors file, all in F32."""
    table: dict[str, Entry] = {}
    data = b""
    for name, values in weights.items():
        start = len(data)
        data += values.tobytes()
        offsets = [start, len(data)]
        table[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": offsets}
    return table, data


def safetensors_bytes(table: object, data: bytes) -> bytes:
    """Put a table and its data together."""
    header = json.dumps(table).encode()
    return len(header).to_bytes(8, "little") + header + data


def write_json(path: Path, value: object) -> None:
    """Write one JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")


def write_folder(path: Path, shards: Sequence[str] = ()) -> Path:
    """Write a whole tiny model; with shards, its tensors go round them."""
    path.mkdir(exist_ok=True)
    write_json(path / "config.json", CONFIG)
    write_json(path / "tokenizer.json", TOKENIZER)
    weights = tiny_weights()
    if not shards:
        (path / "model.safetensors").write_bytes(safetensors_bytes(*lay_out(weights)))
        return path
    weight_map = {name: shards[place % len(shards)] for place, name in enumerate(weights)}
    for shard in shards:
        part = {name: weights[name] for name, file in weight_map.items() if file == shard}
        (path / shard).write_bytes(safetensors_bytes(*lay_out(part)))
    write_json(path / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    return path
