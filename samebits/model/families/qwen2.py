"""Qwen 2 and 2.5: Llama with biases on q, k and v."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from samebits.model.config import Activation, ModelConfig
from samebits.model.families.family import FOLDER_LAYER, Family
from samebits.model.families.keys import check_folder, take_window_layers
from samebits.model.families.llama import config_from_gguf as llama_from_gguf
from samebits.model.families.rope import rope_from_folder
from samebits.model.families.shape import shape_from_folder
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource


class Window(NamedTuple):
    """A sliding window, named as in ModelConfig."""

    window_tokens: int
    window_layers: tuple[bool, ...]


def take_qwen_window(settings: Settings, num_layers: int) -> Window:
    """Take the window settings of Qwen 2 and 3: off unless use_sliding_window says so.

    Raises:
        ConfigError: A setting is wrong.
    """
    is_used = settings.take_bool("use_sliding_window", False)
    first = settings.take_int("max_window_layers", 28, least=0)
    listed = take_window_layers(settings, num_layers)
    window = settings.take_int("sliding_window", 4096)
    if not is_used or settings.is_null("sliding_window"):
        settings.require("layer_types", ["full_attention"] * num_layers)
        return Window(window_tokens=0, window_layers=())
    layers = listed or tuple(layer >= first for layer in range(num_layers))
    return Window(window_tokens=window, window_layers=layers)


def config_from_gguf(settings: Settings, tensors: Mapping[str, RowSource]) -> ModelConfig:
    """Read GGUF metadata of architecture qwen2.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    return replace(llama_from_gguf(settings, tensors), family="qwen2", attention_bias=True)


def config_from_folder(settings: Settings) -> ModelConfig:
    """Read a config.json of model_type qwen2.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    settings.check_present("num_key_value_heads")
    shape = shape_from_folder(settings)
    settings.require("hidden_act", "silu")
    window = take_qwen_window(settings, shape.num_layers)
    rope = rope_from_folder(settings)
    tied_head = settings.take_bool("tie_word_embeddings", False)
    check_folder(settings)
    return ModelConfig(
        family="qwen2",
        **shape._asdict(),
        **window._asdict(),
        activation=Activation.SILU,
        rope=rope,
        attention_scale=shape.head_dim**-0.5,
        attention_bias=True,
        tied_head=tied_head,
    )


QWEN2 = Family(
    name="qwen2",
    from_gguf=config_from_gguf,
    from_folder=config_from_folder,
    folder_names=FOLDER_LAYER,
)
