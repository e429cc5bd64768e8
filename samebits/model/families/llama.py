"""Llama: Llama 2, 3, 3.1, 3.2, SmolLM, SmolLM2 and others of the same form."""

from collections.abc import Mapping

from samebits.model.config import Activation, ModelConfig
from samebits.model.families.family import FOLDER_LAYER, Family
from samebits.model.families.keys import check_folder
from samebits.model.families.rope import rope_from_folder, rope_from_gguf
from samebits.model.families.shape import shape_from_folder, shape_from_gguf
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource


def config_from_gguf(settings: Settings, tensors: Mapping[str, RowSource]) -> ModelConfig:
    """Read GGUF metadata of architecture llama.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    shape = shape_from_gguf(settings, tensors)
    rope = rope_from_gguf(settings, tensors, shape.head_dim)
    settings.check_all_taken()
    return ModelConfig(
        family="llama",
        **shape._asdict(),
        activation=Activation.SILU,
        rope=rope,
        attention_scale=shape.head_dim**-0.5,
        tied_head="output.weight" not in tensors,
    )


def config_from_folder(settings: Settings) -> ModelConfig:
    """Read a config.json of model_type llama.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
    """
    shape = shape_from_folder(settings)
    settings.require("hidden_act", "silu")
    settings.require("attention_bias", False)
    settings.require("mlp_bias", False)
    settings.require("pretraining_tp", 1)
    rope = rope_from_folder(settings)
    tied_head = settings.take_bool("tie_word_embeddings", False)
    check_folder(settings)
    return ModelConfig(
        family="llama",
        **shape._asdict(),
        activation=Activation.SILU,
        rope=rope,
        attention_scale=shape.head_dim**-0.5,
        tied_head=tied_head,
    )


LLAMA = Family(
    name="llama",
    from_gguf=config_from_gguf,
    from_folder=config_from_folder,
    folder_names=FOLDER_LAYER,
    gguf_halves_rows=True,
)
