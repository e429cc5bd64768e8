"""Digests of a model's files for a lock, whether our engine can run the model or not."""

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from samebits.errors import ModelFileError
from samebits.lock.contents import ModelDigests
from samebits.model.folder_tokenizer import read_folder_template
from samebits.model.gguf import open_gguf
from samebits.record.canonical import canonical_bytes
from samebits.record.digest import tagged_digest

READ_BYTES = 1 << 22
KINDS = frozenset(
    {".json", ".safetensors", ".bin", ".model", ".jinja", ".txt", ".gguf", ".tiktoken"}
)
"""Endings of the files that make a folder's model what it is."""
NAMES = re.compile(
    r"(model|pytorch_model|consolidated|adapter_model|mtp)([.-]\d{2,5})?(-of-\d{2,5})?"
    r"\.(safetensors|bin)(\.index\.json)?|"
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|"
    r"preprocessor_config|processor_config|chat_template|quantize_config|quantization_config|"
    r"adapter_config|params)\.(json|jinja|model|tiktoken)|"
    r"(merges|vocab)\.txt|(spiece|sentencepiece\.bpe)\.model",
    re.ASCII,
)
"""Names that tell nothing but a file's part; another file goes by its digest."""
TOKENIZER_FILES = (
    *("added_tokens.json", "merges.txt", "special_tokens_map.json", "spiece.model"),
    *("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt"),
)

Progress = Callable[[float, str], None]


def digest_model(path: Path, progress: Progress | None = None) -> ModelDigests:
    """Digest a GGUF file, or the files of a Hugging Face folder.

    Args:
        progress: Told the share done, in [0, 1], and what is under way.
    Raises:
        ModelFileError: There is no such file, or it cannot be read.
    """
    tell = progress or (lambda _fraction, _doing: None)
    try:
        return digest_folder(path, tell) if path.is_dir() else digest_single(path, tell)
    except OSError as error:
        raise ModelFileError(
            expected="a model that can be read", found=error.strerror or "an error of the system"
        ) from error


def digest_single(path: Path, tell: Progress) -> ModelDigests:
    """Digest one file, and what its header holds of a tokenizer."""
    if not path.is_file():
        raise ModelFileError(expected="a GGUF file or a folder", found="something else")
    weights = {"weights": digest_file(path, tell, 0, path.stat().st_size)}
    try:
        metadata = open_gguf(path).metadata
    except ModelFileError:
        # Of a kind that we cannot read: its digest still tells it from any other.
        return ModelDigests(files=weights, tokenizer=None, template=None)
    template = metadata.get("tokenizer.chat_template")
    return ModelDigests(
        files=weights,
        tokenizer=digest_metadata(metadata),
        template=digest_text(template) if isinstance(template, str) else None,
    )


def digest_metadata(metadata: Mapping[str, Any]) -> str | None:
    """Digest the entries of a header that make a tokenizer; None if there are none."""
    names = sorted(x for x in metadata if x.startswith("tokenizer.") and "chat_template" not in x)
    parts = (part for name in names for part in (name, repr(metadata[name])))
    return tagged_digest("samebits/gguf-tokenizer/v1", *map(str.encode, parts)) if names else None


def digest_folder(folder: Path, tell: Progress) -> ModelDigests:
    """Digest the files of a folder."""
    files = sorted(x for x in folder.iterdir() if x.suffix in KINDS and x.is_file())
    if not files:
        raise ModelFileError(expected="a folder with the files of a model", found="none of them")
    total = sum(file.stat().st_size for file in files)
    done = 0
    digests = {}
    for file in files:
        digest = digest_file(file, tell, done, total)
        done += file.stat().st_size
        name = file.name if NAMES.fullmatch(file.name) else f"other {digest[7:23]}"
        digests[name] = digest
    return ModelDigests(
        files=digests, tokenizer=join_tokenizer(digests), template=digest_template(folder)
    )


def join_tokenizer(digests: Mapping[str, str]) -> str | None:
    """Digest the digests of the files that make a tokenizer; None if there are none."""
    own = {name: digests[name] for name in TOKENIZER_FILES if name in digests}
    return tagged_digest("samebits/folder-tokenizer/v1", canonical_bytes(own)) if own else None


def digest_template(folder: Path) -> str | None:
    """Digest the chat template of a folder; None if there is none, or none by default."""
    try:
        template = read_folder_template(folder)
    except ModelFileError:
        return None
    return None if template is None else digest_text(template)


def digest_text(text: str) -> str:
    """Digest a text in UTF-8."""
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def digest_file(file: Path, tell: Progress, done: int, total: int) -> str:
    """Digest one file: plain SHA-256, as other tools print it."""
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while part := os.read(stream.fileno(), READ_BYTES):
            digest.update(part)
            done += len(part)
            tell(min(1.0, done / max(1, total)), "digest of the model")
    return f"sha256:{digest.hexdigest()}"
