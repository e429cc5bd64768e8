"""Each family's config means what transformers, or llama.cpp, means by the same settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from numpy.typing import NDArray

from samebits.errors import ConfigError
from samebits.model.config import Activation, ModelConfig, RopeConfig
from samebits.model.families.registry import find_folder_family, find_gguf_family
from samebits.model.families.rope import llama3_factors, rope_from_folder
from samebits.model.folder import load_folder_weights
from samebits.model.settings import Settings

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 7,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def from_folder(**values: Any) -> ModelConfig:
    settings = Settings({**SIZES, **values}, "config.json")
    return find_folder_family(settings).from_folder(settings)


class Stored:
    """A tensor in memory."""

    def __init__(self, values: NDArray[np.float32]) -> None:
        self.values = values

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.values.shape
        return rows, columns

    def read_rows(self, start: int, stop: int) -> NDArray[np.float32]:
        return self.values[start:stop]

    def read_picked(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        return self.values[rows]


GGUF_SIZES: dict[str, Any] = {
    "block_count": 12,
    "context_length": 256,
    "embedding_length": 32,
    "feed_forward_length": 48,
    "attention.head_count": 4,
    "attention.head_count_kv": 2,
    "attention.layer_norm_rms_epsilon": 1e-5,
    "vocab_size": 40,
}


def from_gguf(
    architecture: str, tensors: Mapping[str, Stored] | None = None, **values: Any
) -> ModelConfig:
    named = {key.replace("__", "."): value for key, value in values.items()}
    settings = Settings({**GGUF_SIZES, **named}, "metadata")
    return find_gguf_family(architecture, settings).from_gguf(settings, tensors or {})


def test_llama_has_its_sizes() -> None:
    config = from_folder(model_type="llama", rope_theta=5e5)
    assert (config.width, config.head_dim, config.num_kv_heads) == (32, 8, 2)
    assert config.rope == RopeConfig(theta=5e5)
    assert config.attention_scale == 8**-0.5
    assert config.activation is Activation.SILU
    assert not config.tied_head
    assert from_gguf("llama").tied_head
    assert not from_gguf(
        "llama", {"output.weight": Stored(np.zeros((40, 32), np.float32))}
    ).tied_head


@pytest.mark.parametrize(
    "spelling",
    [
        {"rope_theta": 5e5, "rope_scaling": LLAMA3},
        {"rope_parameters": {**LLAMA3, "rope_theta": 5e5}},
        {"rope_theta": 5e5, "rope_scaling": {**LLAMA3, "type": "llama3"}},
    ],
)
def test_old_and_new_spellings_of_rope_mean_the_same(spelling: dict[str, Any]) -> None:
    assert from_folder(model_type="llama", **spelling).rope == RopeConfig(
        theta=5e5,
        scaling="llama3",
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_context=64,
    )


@pytest.mark.parametrize("theta", [1e4, 5e5])
def test_llama3_factors_are_those_of_transformers(theta: float) -> None:
    values = {**SIZES, "head_dim": 64, "rope_parameters": {**LLAMA3, "rope_theta": theta}}
    rotary = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding(
        transformers.LlamaConfig(**values)
    )
    rope = rope_from_folder(Settings({"rope_parameters": values["rope_parameters"]}, "t"))
    plain = theta ** -(np.arange(0, 64, 2) / 64)
    # transformers computes in float32: 24 bits and a power of some ten operations.
    assert np.allclose(plain / llama3_factors(rope, 64), rotary.inv_freq.numpy(), rtol=1e-5, atol=0)


def test_the_factors_of_a_gguf_file_are_recognised() -> None:
    rope = RopeConfig(theta=5e5, scaling="llama3", factor=32.0, original_context=8192)
    factors = llama3_factors(rope, 64).astype(np.float32)[None]
    values: dict[str, Any] = {"attention__key_length": 64, "rope__freq_base": 5e5}
    found = from_gguf("llama", {"rope_freqs.weight": Stored(factors)}, **values).rope
    assert found == RopeConfig(
        theta=5e5, scaling="llama3", factor=32.0, low_freq_factor=1.0, original_context=8192
    )
    factors[0, 20] *= np.float32(1.01)
    with pytest.raises(ConfigError, match=r"rope_freqs\.weight"):
        from_gguf("llama", {"rope_freqs.weight": Stored(factors)}, **values)


def test_linear_scaling_in_gguf_has_two_names() -> None:
    expected = RopeConfig(theta=1e4, scaling="linear", factor=4.0)
    scaling = {"rope__scaling__type": "linear", "rope__scaling__factor": 4.0}
    assert from_gguf("llama", None, **scaling).rope == expected
    assert from_gguf("llama", rope__scale_linear=4.0).rope == expected


def test_mistral_has_a_window_unless_it_says_null() -> None:
    assert from_folder(model_type="mistral", sliding_window=None).window_tokens == 0
    assert from_folder(model_type="mistral").window_tokens == 4096
    config = from_folder(model_type="mistral", sliding_window=16)
    assert config.window_tokens == 16
    assert config.window_layers == (True,) * 7
    stored = from_gguf("llama", attention__sliding_window=16)
    assert (stored.family, stored.window_tokens, all(stored.window_layers)) == ("mistral", 16, True)


def test_qwen_has_a_window_only_when_it_is_used() -> None:
    off = from_folder(model_type="qwen2", sliding_window=16, max_window_layers=2)
    assert (off.window_tokens, off.window_layers, off.attention_bias) == (0, (), True)
    on = from_folder(
        model_type="qwen2", use_sliding_window=True, sliding_window=16, max_window_layers=5
    )
    assert on.window_tokens == 16
    assert on.window_layers == (False,) * 5 + (True,) * 2
    listed = ["full_attention", "sliding_attention"] * 3 + ["full_attention"]
    by_list = from_folder(
        model_type="qwen3", use_sliding_window=True, sliding_window=8, layer_types=listed
    )
    assert by_list.window_layers == (False, True) * 3 + (False,)
    assert by_list.qk_norm
    assert by_list.head_dim == 128


def test_gemma_has_windows_on_five_layers_of_six() -> None:
    config = from_folder(model_type="gemma3_text", sliding_window=16, torch_dtype="bfloat16")
    assert config.window_layers == (True,) * 5 + (False, True)
    assert config.rope == RopeConfig(theta=1e6)
    assert config.rope_local == RopeConfig(theta=1e4)
    assert (config.qk_norm, config.post_norms, config.tied_head) == (True, True, True)
    assert config.attention_scale == 256**-0.5
    stored = from_gguf("gemma3", attention__sliding_window=16, attention__key_length=256)
    assert stored.window_layers == ((True,) * 5 + (False,)) * 2
    assert stored.rope == RopeConfig(theta=1e6)


@pytest.mark.parametrize(
    "spelling",
    [
        {
            "rope_theta": 1e5,
            "rope_local_base_freq": 2e4,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
        {
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e5},
                "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
            }
        },
    ],
)
def test_gemma_scales_rope_of_global_layers_only(spelling: dict[str, Any]) -> None:
    config = from_folder(model_type="gemma3_text", **spelling)
    assert config.rope == RopeConfig(theta=1e5, scaling="linear", factor=8.0)
    assert config.rope_local == RopeConfig(theta=2e4)


@pytest.mark.parametrize("width", [640, 1152, 2560, 3840, 5376])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_gemma_scales_embeddings_in_the_precision_it_was_trained_in(width: int, dtype: str) -> None:
    config = from_folder(model_type="gemma3_text", hidden_size=width, dtype=dtype)
    expected = torch.tensor(width**0.5).to(getattr(torch, dtype))
    assert config.embedding_scale == expected.item()


@pytest.mark.parametrize(
    ("family", "values"),
    [
        ("llama", {"model_type": "llama"}),
        ("mistral", {"model_type": "mistral"}),
        ("qwen2", {"model_type": "qwen2"}),
        ("qwen3", {"model_type": "qwen3"}),
        ("gemma3", {"model_type": "gemma3_text"}),
    ],
)
@pytest.mark.parametrize(
    "key",
    [
        "num_experts",
        "quantization_config",
        "attn_logit_softcapping",
        "partial_rotary_factor",
        "use_bidirectional_attention",
        "never_heard_of",
    ],
)
def test_a_key_that_may_change_the_mathematics_is_refused(
    family: str, values: dict[str, Any], key: str
) -> None:
    assert from_folder(**values).family == family
    with pytest.raises(ConfigError, match=key):
        from_folder(**values, **{key: 0.5})


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "gemma3"])
@pytest.mark.parametrize("key", ["expert_count", "final_logit_softcapping", "never_heard_of"])
def test_a_gguf_key_that_may_change_the_mathematics_is_refused(architecture: str, key: str) -> None:
    window: dict[str, Any] = {"attention__sliding_window": 16} if architecture == "gemma3" else {}
    from_gguf(architecture, None, **window)
    with pytest.raises(ConfigError, match=key):
        from_gguf(architecture, None, **window, **{key: 2})


MODELS: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (transformers.LlamaConfig, {}),
    "mistral": (transformers.MistralConfig, {}),
    "qwen2": (transformers.Qwen2Config, {"tie_word_embeddings": True}),
    "qwen3": (transformers.Qwen3Config, {"head_dim": 16}),
    "gemma3": (transformers.Gemma3TextConfig, {"head_dim": 16}),
}


@pytest.mark.parametrize("family", MODELS)
def test_what_transformers_saves_has_all_tensors_and_no_more(family: str, tmp_path: Path) -> None:
    make, values = MODELS[family]
    auto: Any = transformers.AutoModelForCausalLM
    model = auto.from_config(make(**{**SIZES, **values}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(-1, 1)
    model.save_pretrained(tmp_path)
    weights = load_folder_weights(tmp_path)
    assert weights.config.family == family
    saved = model.state_dict()
    for name, file_name in {
        "layers.2.q": "model.layers.2.self_attn.q_proj.weight",
        "layers.2.attn_norm": "model.layers.2.input_layernorm.weight",
        "norm": "model.norm.weight",
    }.items():
        source = weights.tensors[name]
        expected = saved[file_name].float().numpy().reshape(source.shape)
        if family == "gemma3" and name.endswith("norm"):
            expected = np.float32(1) + expected
        assert np.array_equal(source.read_rows(0, source.shape[0]), expected)
