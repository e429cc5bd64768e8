"""A GGUF file as a model: its config, and its tensors by canonical name."""

from collections.abc import Mapping
from typing import NamedTuple

from samebits.model.config import ModelConfig
from samebits.model.expected import layer_shapes, match_tensors, top_shapes
from samebits.model.families.family import GGUF_LAYER, GGUF_TOP
from samebits.model.families.registry import find_gguf_family
from samebits.model.gguf import GgufFile
from samebits.model.matrix import HalvedRows
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource

# Computed from settings or used by them; not a weight.
_ROPE_FACTORS = "rope_freqs.weight"


class NamedWeights(NamedTuple):
    """A config and the tensors it needs, by canonical name."""

    config: ModelConfig
    tensors: Mapping[str, RowSource]


def load_gguf_weights(gguf: GgufFile) -> NamedWeights:
    """Read the config of a GGUF file and name its tensors.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
        ModelFileError: A tensor is missing, surplus or of another shape.
    """
    where = str(gguf.file.path)
    architecture = Settings(gguf.metadata, where).take_text("general.architecture")
    _check_whole_model(gguf)
    prefix = f"{architecture}."
    own = {
        key.removeprefix(prefix): value
        for key, value in gguf.metadata.items()
        if key.startswith(prefix)
    }
    settings = Settings(own, f"{architecture} metadata of {where}")
    family = find_gguf_family(architecture, settings)
    config = family.from_gguf(settings, gguf.tensors)
    found = {name: source for name, source in gguf.tensors.items() if name != _ROPE_FACTORS}
    tensors = match_tensors(_wanted(config), found, where)
    if family.gguf_halves_rows:
        tensors = _restore_rows(tensors, config.head_dim)
    return NamedWeights(config=config, tensors=tensors)


def _check_whole_model(gguf: GgufFile) -> None:
    """Refuse adapters, vocabularies and parts of a model that is split over files."""
    settings = Settings(gguf.metadata, str(gguf.file.path))
    settings.require("general.type", "model")
    settings.require("split.count", 0, 1)
    settings.require("general.quantization_version", 2)


def _wanted(config: ModelConfig) -> dict[str, tuple[str, tuple[int, int]]]:
    wanted = {name: (GGUF_TOP[name], shape) for name, shape in top_shapes(config).items()}
    for layer in range(config.num_layers):
        for name, shape in layer_shapes(config).items():
            wanted[f"layers.{layer}.{name}"] = (f"blk.{layer}.{GGUF_LAYER[name]}", shape)
    return wanted


def _restore_rows(tensors: Mapping[str, RowSource], head_dim: int) -> dict[str, RowSource]:
    return {
        name: HalvedRows(source, head_dim) if name.endswith((".q", ".k")) else source
        for name, source in tensors.items()
    }
