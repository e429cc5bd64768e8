"""A Hugging Face folder as a model: config.json and safetensors, in one file or in shards."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from samebits.errors import ModelFileError
from samebits.model.config import ModelConfig
from samebits.model.expected import layer_shapes, match_tensors, top_shapes
from samebits.model.families.family import FOLDER_TOP, NORM_NAMES, Family
from samebits.model.families.registry import find_folder_family
from samebits.model.json_file import read_json
from samebits.model.matrix import EncodedMatrix, OnePlusRows
from samebits.model.safetensors import open_safetensors
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource
from samebits.model.weight_file import WeightFile

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
# Frequencies that old checkpoints stored; they follow from the config.
_BUFFER_END = ".rotary_emb.inv_freq"


class FolderWeights(NamedTuple):
    """A config, the tensors it needs by canonical name, and the files they lie in."""

    config: ModelConfig
    tensors: Mapping[str, RowSource]
    files: tuple[WeightFile, ...]


def load_folder_weights(path: Path) -> FolderWeights:
    """Read config.json and the tables of all safetensors files.

    Raises:
        ConfigError: A setting is wrong, unknown or not implemented.
        ModelFileError: A file or a tensor is missing, surplus, damaged or of another shape.
    """
    settings = Settings(read_json(path / "config.json"), str(path / "config.json"))
    family = find_folder_family(settings)
    config = family.from_folder(settings)
    files, found = _open_shards(path)
    found = {name: one for name, one in found.items() if not name.endswith(_BUFFER_END)}
    if config.tied_head:
        found = _drop_tied_head(found, str(path))
    tensors = match_tensors(_wanted(config, family), found, str(path))
    if family.folder_norms_less_one:
        tensors = _add_one_to_norms(tensors)
    return FolderWeights(config=config, tensors=tensors, files=files)


def _open_shards(path: Path) -> tuple[tuple[WeightFile, ...], dict[str, EncodedMatrix]]:
    if (path / _SINGLE).exists():
        file, tensors = open_safetensors(path / _SINGLE)
        return (file,), tensors
    if not (path / _INDEX).exists():
        raise ModelFileError(
            expected=f"{_SINGLE} or {_INDEX} in {path}",
            found="neither",
            remedy="Other formats, pickles above all, are not read.",
        )
    weight_map = _read_weight_map(path / _INDEX)
    files = []
    found: dict[str, EncodedMatrix] = {}
    for shard in sorted(set(weight_map.values())):
        file, tensors = open_safetensors(path / shard)
        _check_shard(shard, tensors, weight_map)
        files.append(file)
        found |= tensors
    return tuple(files), found


def _read_weight_map(path: Path) -> dict[str, str]:
    weight_map: Any = read_json(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFileError(
            expected=f"a weight_map that is not empty in {path}", found=f"{weight_map!r:.200}"
        )
    for name, shard in weight_map.items():
        is_plain = isinstance(shard, str) and shard == Path(shard).name and "\\" not in shard
        if not is_plain or not shard.endswith(".safetensors") or "\0" in shard:
            raise ModelFileError(
                expected=f"a safetensors file of the same folder for {name!r} in {path}",
                found=f"{shard!r:.200}",
            )
    return weight_map


def _check_shard(shard: str, tensors: Mapping[str, Any], weight_map: Mapping[str, str]) -> None:
    listed = {name for name, file in weight_map.items() if file == shard}
    if listed != tensors.keys():
        name = min(listed ^ tensors.keys())
        where = "listed, but not in the file" if name in listed else "in the file, but not listed"
        raise ModelFileError(
            expected=f"the tensors that {_INDEX} lists in {shard}", found=f"{name!r} {where}"
        )


def _drop_tied_head(found: Mapping[str, EncodedMatrix], where: str) -> dict[str, EncodedMatrix]:
    """Leave out an output matrix that repeats the embedding, as some checkpoints have it."""
    rest = dict(found)
    head = rest.pop(FOLDER_TOP["head"], None)
    embed = rest.get(FOLDER_TOP["embed"])
    if head is not None and embed is not None and not head.has_same_bytes(embed):
        raise ModelFileError(
            expected=f"an output matrix equal to the embedding in {where}",
            found="another matrix, though config.json says tie_word_embeddings",
        )
    return rest


def _wanted(config: ModelConfig, family: Family) -> dict[str, tuple[str, tuple[int, int]]]:
    wanted = {name: (FOLDER_TOP[name], shape) for name, shape in top_shapes(config).items()}
    for layer in range(config.num_layers):
        for name, shape in layer_shapes(config).items():
            file_name = f"model.layers.{layer}.{family.folder_names[name]}"
            wanted[f"layers.{layer}.{name}"] = (file_name, shape)
    return wanted


def _add_one_to_norms(tensors: Mapping[str, RowSource]) -> dict[str, RowSource]:
    return {
        name: OnePlusRows(source) if name.rpartition(".")[2] in NORM_NAMES else source
        for name, source in tensors.items()
    }
