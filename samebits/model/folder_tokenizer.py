"""A tokenizer and a chat template from the files of a Hugging Face folder."""

import base64
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from samebits.errors import ModelFileError
from samebits.model.border import refuse_failures
from samebits.model.gguf_tokenizer import END_TEXTS
from samebits.model.json_file import parse_json, read_json, read_text_bytes
from samebits.model.template import SOURCE_LIMIT_CHARS
from samebits.model.tokenizer import Spelling, Tokenizer, Vocabulary

# Of BPE, and of Unigram.
_LOTS = ("dropout", "alpha", "nbest_size")


def make_folder_tokenizer(path: Path, vocab_size: int | None = None) -> Tokenizer:
    """Build the tokenizer of tokenizer.json, with the special tokens the other files name.

    Raises:
        ModelFileError: tokenizer.json is missing, damaged or decodes in a way not known here.
    """
    file = path / "tokenizer.json"
    raw = read_text_bytes(file)
    table = parse_json(raw, str(file))
    _check_charsmaps(table.get("normalizer"), str(file))
    backend = _load_backend(raw, str(file))
    _check_certain(table, str(file))
    added = _added_tokens(table)
    special = {place for place, entry in added.items() if entry.get("special")}
    bos_id, eos_id, end_ids = _special_ids(path, backend)
    ends = {place for place in special if added[place]["content"] in END_TEXTS} | end_ids
    vocabulary = Vocabulary(
        spelling=_find_spelling(table, str(file)),
        added={place: entry["content"] for place, entry in added.items()},
        special_ids=frozenset(special),
        bos_id=bos_id,
        eos_id=eos_id,
        eos_ids=frozenset(ends),
        strips_space=_strips_space(table),
    )
    digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
    return Tokenizer(backend, vocabulary, digest=digest, vocab_size=vocab_size)


def read_folder_template(path: Path) -> str | None:
    """Read the chat template of a folder; None when it has none.

    Raises:
        ModelFileError: It is no text, or there are several and none is the default.
    """
    file = path / "chat_template.jinja"
    if file.exists():
        raw = read_text_bytes(file)
        if len(raw) > 4 * SOURCE_LIMIT_CHARS:
            raise ModelFileError(
                expected=f"at most {SOURCE_LIMIT_CHARS} characters in {file}", found="more"
            )
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(expected=f"UTF-8 in {file}", found=str(error)) from error
    return _template_in(_read_optional(path / "tokenizer_config.json"), path)


def _template_in(config: Mapping[str, Any], path: Path) -> str | None:
    source = config.get("chat_template")
    if isinstance(source, list):
        entries = [one for one in source if isinstance(one, Mapping)]
        defaults = [one.get("template") for one in entries if one.get("name") == "default"]
        source = defaults[-1] if defaults else source
    if source is not None and not isinstance(source, str):
        raise ModelFileError(
            expected=f"a chat_template, or a default one, in {path / 'tokenizer_config.json'}",
            found=f"{source!r:.200}",
        )
    return source


def _load_backend(raw: bytes, where: str) -> tokenizers.Tokenizer:
    with refuse_failures(ModelFileError, f"a tokenizer in {where}"):
        backend = tokenizers.Tokenizer.from_buffer(raw)
        backend.no_truncation()
        backend.no_padding()
    return backend


def _check_charsmaps(normalizer: Any, where: str) -> None:
    """Refuse tables that claim more bytes than they have: the library would allocate them."""
    if not isinstance(normalizer, Mapping):
        return
    parts = normalizer.get("normalizers")
    for part in parts if isinstance(parts, list) else ():
        _check_charsmaps(part, where)
    text = normalizer.get("precompiled_charsmap")
    if isinstance(text, str):
        try:
            raw = base64.b64decode(text, validate=True)
        except ValueError:
            raw = b""
        if not 4 <= 4 + int.from_bytes(raw[:4], "little") <= len(raw):
            raise ModelFileError(
                expected=f"a whole precompiled_charsmap in {where}", found=f"{text!r:.100}"
            )


def _check_certain(table: Mapping[str, Any], where: str) -> None:
    """Refuse to draw lots: with one of these, the same text has other ids each time."""
    model = table.get("model")
    if not isinstance(model, Mapping):
        return
    for key in _LOTS:
        if model.get(key):
            raise ModelFileError(
                expected=f"{key} null or 0 in the model of {where}",
                found=f"{key} {model[key]!r:.100}",
                remedy="It makes encoding random, for training: set it to null.",
            )


def _added_tokens(table: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    entries = table.get("added_tokens") or []
    # tokenizers has parsed the same bytes: the fields are there.
    return {int(entry["id"]): entry for entry in entries}


def _find_spelling(table: Mapping[str, Any], where: str) -> Spelling:
    kinds = {part.get("type") for part in _decoder_parts(table)}
    if "ByteLevel" in kinds:
        return Spelling.BYTE_LEVEL
    if kinds & {"ByteFallback", "Metaspace"}:
        return Spelling.SENTENCEPIECE
    raise ModelFileError(
        expected=f"a decoder with ByteLevel, ByteFallback or Metaspace in {where}",
        found=", ".join(sorted(str(kind) for kind in kinds)) or "none",
    )


def _strips_space(table: Mapping[str, Any]) -> bool:
    return any(
        (part.get("type") == "Strip" and part.get("start", 0) > 0)
        or (part.get("type") == "Metaspace" and part.get("prepend_scheme", "always") != "never")
        for part in _decoder_parts(table)
    )


def _decoder_parts(table: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    decoder = table.get("decoder")
    if not isinstance(decoder, Mapping):
        return []
    return list(decoder["decoders"]) if decoder.get("type") == "Sequence" else [decoder]


def _special_ids(
    path: Path, backend: tokenizers.Tokenizer
) -> tuple[int | None, int | None, set[int]]:
    """Find bos, eos and all ends in tokenizer_config, generation_config and config."""
    tokenizer_config = _read_optional(path / "tokenizer_config.json")
    bos_id = _named_id(tokenizer_config.get("bos_token"), backend)
    eos_id = _named_id(tokenizer_config.get("eos_token"), backend)
    ends = set() if eos_id is None else {eos_id}
    for name in ("config.json", "generation_config.json"):
        config = _read_optional(path / name)
        listed = _as_ids(config.get("eos_token_id"), path / name)
        ends |= set(listed)
        eos_id = listed[0] if eos_id is None and listed else eos_id
        first = _as_ids(config.get("bos_token_id"), path / name)
        bos_id = first[0] if bos_id is None and first else bos_id
    return bos_id, eos_id, ends


def _named_id(token: Any, backend: tokenizers.Tokenizer) -> int | None:
    text = token.get("content") if isinstance(token, Mapping) else token
    if not isinstance(text, str):
        return None
    with refuse_failures(ModelFileError, "bos_token and eos_token that UTF-8 can carry"):
        place: int | None = backend.token_to_id(text)
    return place


def _as_ids(value: Any, path: Path) -> list[int]:
    ids = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(one) is not int or one < 0 for one in ids):
        raise ModelFileError(expected=f"token ids in {path}", found=f"{value!r:.200}")
    return ids


def _read_optional(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}
