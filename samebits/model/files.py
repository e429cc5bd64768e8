"""Opens a model: weights, config, tokenizer and chat template of one file or folder.

Nothing but headers is read until a weight is asked for.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import ModelFileError
from samebits.model.config import ModelConfig
from samebits.model.folder import load_folder_weights
from samebits.model.folder_tokenizer import make_folder_tokenizer, read_folder_template
from samebits.model.gguf import open_gguf
from samebits.model.gguf_model import load_gguf_weights
from samebits.model.gguf_tokenizer import make_gguf_tokenizer
from samebits.model.template import ChatTemplate
from samebits.model.tensor import RowSource
from samebits.model.tokenizer import Tokenizer
from samebits.model.weight_file import WeightFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """An open model."""

    config: ModelConfig
    tensors: Mapping[str, RowSource]
    """By canonical name: layers.py."""
    tokenizer: Tokenizer
    template: ChatTemplate | None
    """None for a model that was not trained to chat."""
    path: Path
    weight_files: tuple[WeightFile, ...]
    """In the order of their names."""

    @property
    def file_digest(self) -> str:
        """Digest the bytes of the weight files: "sha256:..."; reads them all the first time.

        A single file has its own SHA-256. A folder has that of the lines "name digest".

        Raises:
            ModelFileError: A file was cut off since it was opened.
        """
        if self.path.is_file():
            return self.weight_files[0].sha256()
        lines = [f"{file.path.name} {file.sha256()}\n" for file in self.weight_files]
        return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def open_model(path: Path) -> ModelFiles:
    """Open a GGUF file or a Hugging Face folder and check all its headers.

    Raises:
        ModelFileError: A file is missing, damaged, foreign or does not fit the config.
        ConfigError: The config needs what is not implemented; names the setting.
    """
    # Path.is_dir raises where a name is too long.
    if os.path.isdir(path):
        return _open_folder(path)
    if path.suffix == ".safetensors":
        raise ModelFileError(
            expected="a GGUF file or a folder with config.json",
            found=f"the safetensors file {path}",
            remedy="Name the folder it lies in.",
        )
    return _open_gguf_file(path)


def _open_gguf_file(path: Path) -> ModelFiles:
    gguf = open_gguf(path)
    weights = load_gguf_weights(gguf)
    vocab_size = weights.config.vocab_size
    tokenizer = make_gguf_tokenizer(gguf.metadata, str(path), vocab_size)
    source = gguf.metadata.get("tokenizer.chat_template")
    return ModelFiles(
        config=weights.config,
        tensors=weights.tensors,
        tokenizer=tokenizer,
        template=_make_template(source, tokenizer) if isinstance(source, str) else None,
        path=path,
        weight_files=(gguf.file,),
    )


def _open_folder(path: Path) -> ModelFiles:
    weights = load_folder_weights(path)
    tokenizer = make_folder_tokenizer(path, weights.config.vocab_size)
    source = read_folder_template(path)
    return ModelFiles(
        config=weights.config,
        tensors=weights.tensors,
        tokenizer=tokenizer,
        template=None if source is None else _make_template(source, tokenizer),
        path=path,
        weight_files=weights.files,
    )


def _make_template(source: str, tokenizer: Tokenizer) -> ChatTemplate:
    bos = "" if tokenizer.bos_id is None else tokenizer.token_text(tokenizer.bos_id)
    eos = "" if tokenizer.eos_id is None else tokenizer.token_text(tokenizer.eos_id)
    return ChatTemplate(source, bos, eos)
