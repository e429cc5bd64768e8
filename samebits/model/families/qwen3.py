"""Qwen 3: no biases, a norm on each head of q and k."""

from collections.abc import Mapping
from dataclasses import replace

from samebits.model.config import Activation, ModelConfig
from samebits.model.families.family import FOLDER_LAYER, Family
from samebits.model.families.keys import check_folder
from samebits.model.families.llama import config_from_gguf as llama_from_gguf
from samebits.model.families.qwen2 import take_qwen_window
from samebits.model.families.rope import rope_from_folder
from samebits.model.families.shape import shape_from_folder
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource

_HEAD_DIM = 128


def config_from_gguf(settings: Settings, tensors: Mapping[str, RowSource]) -> ModelConfig:
    """Read GGUF metadata of architecture qwen3.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    return replace(llama_from_gguf(settings, tensors), family="qwen3", qk_norm=True)


def config_from_folder(settings: Settings) -> ModelConfig:
    """Read a config.json of model_type qwen3.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    settings.check_present("num_key_value_heads")
    shape = shape_from_folder(settings, head_dim=_HEAD_DIM)
    settings.require("hidden_act", "silu")
    settings.require("attention_bias", False)
    window = take_qwen_window(settings, shape.num_layers)
    rope = rope_from_folder(settings)
    tied_head = settings.take_bool("tie_word_embeddings", False)
    check_folder(settings)
    return ModelConfig(
        family="qwen3",
        **shape._asdict(),
        **window._asdict(),
        activation=Activation.SILU,
        rope=rope,
        attention_scale=shape.head_dim**-0.5,
        qk_norm=True,
        tied_head=tied_head,
    )


QWEN3 = Family(
    name="qwen3",
    from_gguf=config_from_gguf,
    from_folder=config_from_folder,
    folder_names=FOLDER_LAYER,
)
