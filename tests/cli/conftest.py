"""A model folder small enough to load in a moment: random weights, one token a byte."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

WIDTH, HEADS, KV_HEADS, HEAD_DIM, FFN, LAYERS = 32, 4, 2, 16, 64, 2
EOS = "<|end|>"
CONTEXT = 96
SEED = 0
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


@pytest.fixture(scope="session")
def raw_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without a chat template."""
    return write_model(tmp_path_factory.mktemp("raw"), {})


@pytest.fixture(scope="session")
def chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model with a chat template."""
    return write_model(tmp_path_factory.mktemp("chat"), {"chat_template": CHAT_TEMPLATE})


def write_model(folder: Path, tokenizer_config: dict[str, Any]) -> Path:
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    vocab_size = tokenizer.get_vocab_size()
    eos = vocab_size - 1  # added last
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": EOS, **tokenizer_config})
    )
    (folder / "config.json").write_text(json.dumps(make_config(vocab_size, eos)))
    save_file(make_weights(vocab_size), str(folder / "model.safetensors"))
    return folder


def make_tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([EOS])
    return tokenizer


def make_config(vocab_size: int, eos: int) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": WIDTH,
        "intermediate_size": FFN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": vocab_size,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "eos_token_id": eos,
        "bos_token_id": None,
    }


def make_weights(vocab_size: int) -> dict[str, Any]:
    rng = np.random.default_rng(SEED)
    shapes = {"model.embed_tokens.weight": (vocab_size, WIDTH), "model.norm.weight": (WIDTH,)}
    for i in range(LAYERS):
        shapes |= {f"model.layers.{i}.{name}.weight": shape for name, shape in LAYER.items()}
    return {
        name: (rng.standard_normal(shape) * 0.5).astype(np.float32)
        for name, shape in shapes.items()
    }


LAYER: dict[str, tuple[int, ...]] = {
    "input_layernorm": (WIDTH,),
    "post_attention_layernorm": (WIDTH,),
    "self_attn.q_proj": (HEADS * HEAD_DIM, WIDTH),
    "self_attn.k_proj": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.v_proj": (KV_HEADS * HEAD_DIM, WIDTH),
    "self_attn.o_proj": (WIDTH, HEADS * HEAD_DIM),
    "mlp.gate_proj": (FFN, WIDTH),
    "mlp.up_proj": (FFN, WIDTH),
    "mlp.down_proj": (WIDTH, FFN),
}
