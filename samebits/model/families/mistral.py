"""Mistral: Llama with a sliding window on every layer, where a window is set."""

from collections.abc import Mapping
from dataclasses import replace

from samebits.model.config import Activation, ModelConfig
from samebits.model.families.family import FOLDER_LAYER, Family
from samebits.model.families.keys import check_folder
from samebits.model.families.llama import config_from_gguf as llama_from_gguf
from samebits.model.families.rope import rope_from_folder
from samebits.model.families.shape import shape_from_folder
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource


def config_from_gguf(settings: Settings, tensors: Mapping[str, RowSource]) -> ModelConfig:
    """Read GGUF metadata of architecture llama that has a sliding window.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    window = settings.take_int("attention.sliding_window")
    config = llama_from_gguf(settings, tensors)
    window_layers = (True,) * config.num_layers
    return replace(config, family="mistral", window_tokens=window, window_layers=window_layers)


def config_from_folder(settings: Settings) -> ModelConfig:
    """Read a config.json of model_type mistral.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    settings.check_present("num_key_value_heads")
    shape = shape_from_folder(settings)
    settings.require("hidden_act", "silu")
    window = 0 if settings.is_null("sliding_window") else settings.take_int("sliding_window", 4096)
    rope = rope_from_folder(settings)
    tied_head = settings.take_bool("tie_word_embeddings", False)
    check_folder(settings)
    return ModelConfig(
        family="mistral",
        **shape._asdict(),
        activation=Activation.SILU,
        rope=rope,
        window_tokens=window,
        window_layers=(True,) * shape.num_layers if window else (),
        attention_scale=shape.head_dim**-0.5,
        tied_head=tied_head,
    )


MISTRAL = Family(
    name="mistral",
    from_gguf=config_from_gguf,
    from_folder=config_from_folder,
    folder_names=FOLDER_LAYER,
    gguf_halves_rows=True,
)
