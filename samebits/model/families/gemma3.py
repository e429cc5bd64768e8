"""Gemma 3, text only: sliding windows on five layers of six, norms on both sides, tied head."""

from collections.abc import Mapping

import numpy as np

from samebits.errors import ConfigError
from samebits.model.config import Activation, ModelConfig, RopeConfig
from samebits.model.families.family import FOLDER_LAYER, Family
from samebits.model.families.keys import check_folder, take_window_layers
from samebits.model.families.rope import rope_from_gguf, rope_from_part
from samebits.model.families.shape import Shape, shape_from_folder, shape_from_gguf
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource

_HEAD_DIM = 256
_THETA, _THETA_LOCAL = 1_000_000.0, 10_000.0
_PATTERN = 6
# The 27B model alone scales attention by width / heads; it is known by its depth.
_LAYERS_OF_27B = 62

_FOLDER_NAMES = {
    **FOLDER_LAYER,
    "attn_post_norm": "post_attention_layernorm.weight",
    "ffn_norm": "pre_feedforward_layernorm.weight",
    "ffn_post_norm": "post_feedforward_layernorm.weight",
}


def config_from_gguf(settings: Settings, tensors: Mapping[str, RowSource]) -> ModelConfig:
    """Read GGUF metadata of architecture gemma3.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    shape = shape_from_gguf(settings, tensors)
    window = settings.take_int("attention.sliding_window")
    settings.require("attention.sliding_window_pattern", _PATTERN)
    rope = rope_from_gguf(settings, tensors, shape.head_dim, _THETA)
    local = RopeConfig(theta=settings.take_float("rope.freq_base_swa", _THETA_LOCAL))
    settings.check_all_taken()
    is_27b = shape.num_layers == _LAYERS_OF_27B
    return _make_config(
        shape,
        rope=rope,
        rope_local=local,
        window_tokens=window,
        window_layers=_window_pattern(shape.num_layers, _PATTERN),
        attention_scale=(shape.width / shape.num_heads if is_27b else shape.head_dim) ** -0.5,
        # A GGUF file does not say the precision; all of Google's were trained in bfloat16.
        embedding_scale=_scale_embeddings(shape.width, "bfloat16"),
        tied_head="output.weight" not in tensors,
    )


def config_from_folder(settings: Settings) -> ModelConfig:
    """Read a config.json of model_type gemma3_text.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    settings.check_present("num_key_value_heads")
    shape = shape_from_folder(settings, head_dim=_HEAD_DIM)
    _check_unimplemented(settings)
    pattern = settings.take_int("sliding_window_pattern", _PATTERN)
    pattern = settings.take_int("_sliding_window_pattern", pattern)
    listed = take_window_layers(settings, shape.num_layers)
    layers = listed or _window_pattern(shape.num_layers, pattern)
    window = settings.take_int("sliding_window", 4096)
    rope, rope_local = _take_ropes(settings)
    dtype = settings.take_text("torch_dtype", "float32")
    dtype = settings.take_text("dtype", dtype)
    scale = settings.take_float("query_pre_attn_scalar", 256) ** -0.5
    tied_head = settings.take_bool("tie_word_embeddings", True)
    check_folder(settings)
    return _make_config(
        shape,
        rope=rope,
        rope_local=rope_local,
        window_tokens=window,
        window_layers=layers,
        attention_scale=scale,
        embedding_scale=_scale_embeddings(shape.width, dtype),
        tied_head=tied_head,
    )


def _make_config(
    shape: Shape,
    *,
    rope: RopeConfig,
    rope_local: RopeConfig,
    window_tokens: int,
    window_layers: tuple[bool, ...],
    attention_scale: float,
    embedding_scale: float,
    tied_head: bool,
) -> ModelConfig:
    return ModelConfig(
        family="gemma3",
        **shape._asdict(),
        activation=Activation.GELU_TANH,
        rope=rope,
        rope_local=rope_local,
        window_tokens=window_tokens,
        window_layers=window_layers,
        attention_scale=attention_scale,
        embedding_scale=embedding_scale,
        qk_norm=True,
        post_norms=True,
        tied_head=tied_head,
    )


def _check_unimplemented(settings: Settings) -> None:
    settings.require("hidden_activation", "gelu_pytorch_tanh")
    # Early files carry this name too; transformers reads only the other.
    settings.require("hidden_act", "gelu_pytorch_tanh")
    settings.require("attention_bias", False)
    settings.require("use_bidirectional_attention", False)
    settings.require("final_logit_softcapping")
    settings.require("attn_logit_softcapping")


def _window_pattern(num_layers: int, pattern: int) -> tuple[bool, ...]:
    """Every pattern-th layer sees all tokens, the others a window."""
    return tuple((layer + 1) % pattern != 0 for layer in range(num_layers))


def _take_ropes(settings: Settings) -> tuple[RopeConfig, RopeConfig]:
    """Take the RoPE of global and of sliding layers, in the old or the new spelling."""
    theta = settings.take_float("rope_theta", _THETA)
    theta_local = settings.take_float("rope_local_base_freq", _THETA_LOCAL)
    settings.require("partial_rotary_factor", 1.0)
    old = settings.take_settings("rope_scaling")
    new = settings.take_settings("rope_parameters")
    if new is None:
        full = RopeConfig(theta=theta) if old is None else rope_from_part(old, theta)
        return full, RopeConfig(theta=theta_local)
    if old is not None:
        raise ConfigError(
            expected=f"rope_parameters or rope_scaling in {settings.where}", found="both"
        )
    full_part = new.take_settings("full_attention")
    local_part = new.take_settings("sliding_attention")
    new.check_all_taken()
    full = RopeConfig(theta=theta) if full_part is None else rope_from_part(full_part, theta)
    if local_part is None:
        return full, RopeConfig(theta=theta_local)
    return full, rope_from_part(local_part, theta_local)


def _scale_embeddings(width: int, dtype: str) -> float:
    """Round the square root of the width as the training precision did."""
    root = np.float32(width**0.5)
    if dtype == "bfloat16":
        bits = int(root.view(np.uint32))
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
        return float(np.uint32(bits).view(np.float32))
    if dtype == "float16":
        return float(np.float16(root))
    if dtype in ("float32", "float64"):
        return float(root)
    raise ConfigError(expected="bfloat16, float16, float32 or float64 as dtype", found=dtype)


GEMMA3 = Family(
    name="gemma3",
    from_gguf=config_from_gguf,
    from_folder=config_from_folder,
    folder_names=_FOLDER_NAMES,
    folder_norms_less_one=True,
)
