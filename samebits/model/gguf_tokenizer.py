"""A tokenizer from GGUF metadata: byte-level BPE and SentencePiece BPE.

An unknown pre-tokenizer is an error, never a guess: it would cut the text elsewhere and the model
would see other ids.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tokenizers import (
    AddedToken,
    Tokenizer,
    models,
    normalizers,
    processors,
)

from samebits.errors import ModelFileError
from samebits.model import tokenizer as ours
from samebits.model.border import refuse_failures
from samebits.model.pre_tokenizer import PRE_TOKENIZERS
from samebits.model.settings import Settings

_UNKNOWN, _CONTROL, _USER = 2, 3, 4
# Merges are sought in every half of a token: quadratic in its length.
_MAX_TOKEN_CHARS = 1000
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"

END_TEXTS = frozenset(
    {"<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<|end_of_text|>"}
)
"""Control tokens that end a text or a turn in every model that has them."""

# Ids of tokens that only mark gaps, masks and padding; nothing here needs them.
_GAP_TOKENS = (
    "unknown padding seperator separator mask cls prefix suffix middle "
    "fim_pre fim_suf fim_mid fim_pad fim_rep fim_sep"
)
_HARMLESS = {f"tokenizer.ggml.{name}_token_id" for name in _GAP_TOKENS.split()} | {
    "tokenizer.ggml.token_type_count"
}


class _Pieces(NamedTuple):
    """The vocabulary arrays of a GGUF file."""

    tokens: list[str]
    kinds: list[int]
    vocab: dict[str, int]


def make_gguf_tokenizer(
    metadata: Mapping[str, Any], where: str, vocab_size: int | None = None
) -> ours.Tokenizer:
    """Build the tokenizer that GGUF metadata describe.

    Raises:
        ModelFileError: It is absent, damaged or of a kind not read here; names the kind.
        ConfigError: A setting of it is unknown.
    """
    own = {key: value for key, value in metadata.items() if key.startswith("tokenizer.ggml.")}
    digest = _digest(own)
    settings = Settings(own, where)
    pieces = _take_pieces(settings, where)
    if vocab_size is not None and len(pieces.tokens) > vocab_size:
        raise ModelFileError(
            expected=f"at most {vocab_size} tokens, the rows of the embedding, in {where}",
            found=str(len(pieces.tokens)),
        )
    kind = settings.take_text("tokenizer.ggml.model", "none")
    makers = {"gpt2": _make_byte_level, "llama": _make_sentencepiece}
    if kind not in makers:
        raise ModelFileError(expected=f"tokenizer.ggml.model gpt2 or llama in {where}", found=kind)
    built = makers[kind](settings, pieces, where)
    vocabulary = _finish(built, settings, pieces, where)
    settings.check_all_taken(_HARMLESS)
    return ours.Tokenizer(built.backend, vocabulary, digest=digest, vocab_size=vocab_size)


class _Built(NamedTuple):
    backend: Tokenizer
    spelling: ours.Spelling
    adds_bos: bool
    strips_space: bool


def _take_pieces(settings: Settings, where: str) -> _Pieces:
    tokens = settings.take("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens or type(tokens[0]) is not str:
        raise ModelFileError(
            expected=f"a list of strings tokenizer.ggml.tokens in {where}", found=_name(tokens)
        )
    kinds = settings.take("tokenizer.ggml.token_type")
    if kinds is None:
        kinds = np.ones(len(tokens), dtype=np.int32)
    if not isinstance(kinds, np.ndarray) or kinds.shape != (len(tokens),):
        raise ModelFileError(
            expected=f"{len(tokens)} numbers in tokenizer.ggml.token_type in {where}",
            found=_name(kinds),
        )
    longest = max(tokens, key=len)
    if len(longest) > _MAX_TOKEN_CHARS:
        raise ModelFileError(
            expected=f"tokens of at most {_MAX_TOKEN_CHARS} characters in {where}",
            found=f"{len(longest)} characters, beginning {longest[:20]!r}",
        )
    vocab = {token: place for place, token in enumerate(tokens)}
    if len(vocab) != len(tokens):
        twice = next(token for place, token in enumerate(tokens) if vocab[token] != place)
        raise ModelFileError(expected=f"tokens that differ in {where}", found=f"{twice!r} twice")
    return _Pieces(tokens=tokens, kinds=kinds.tolist(), vocab=vocab)


def _make_byte_level(settings: Settings, pieces: _Pieces, where: str) -> _Built:
    name = settings.take_text("tokenizer.ggml.pre", "none")
    if name not in PRE_TOKENIZERS:
        raise ModelFileError(
            expected=f"one of {', '.join(PRE_TOKENIZERS)} as tokenizer.ggml.pre in {where}",
            found=name,
            remedy="Use the model's folder with tokenizer.json.",
        )
    pre = PRE_TOKENIZERS[name]
    settings.require("tokenizer.ggml.add_space_prefix", False)
    settings.take("tokenizer.ggml.scores")
    merges = _take_merges(settings, pieces.vocab, where)
    with refuse_failures(ModelFileError, f"a vocabulary and merges of BPE in {where}"):
        model = models.BPE(vocab=pieces.vocab, merges=merges, ignore_merges=pre.ignore_merges)
    backend = Tokenizer(model)
    backend.pre_tokenizer = pre.make()
    if pre.normalizer is not None:
        backend.normalizer = pre.normalizer()
    return _Built(backend, ours.Spelling.BYTE_LEVEL, pre.adds_bos, False)


def _take_merges(settings: Settings, vocab: Mapping[str, int], where: str) -> list[tuple[str, str]]:
    lines = settings.take("tokenizer.ggml.merges")
    if not isinstance(lines, list):
        raise ModelFileError(
            expected=f"a list of strings tokenizer.ggml.merges in {where}", found=_name(lines)
        )
    merges = []
    if lines and type(lines[0]) is not str:
        lines = [""]
    for line in lines:
        one, _, two = line.partition(" ")
        if one not in vocab or two not in vocab or one + two not in vocab:
            raise ModelFileError(
                expected=f"merges of two tokens to a third in {where}", found=f"{line!r:.100}"
            )
        merges.append((one, two))
    return merges


def _make_sentencepiece(settings: Settings, pieces: _Pieces, where: str) -> _Built:
    settings.require("tokenizer.ggml.pre", "default")
    settings.require("tokenizer.ggml.remove_extra_whitespaces", False)
    settings.take("tokenizer.ggml.merges")
    scores = settings.take("tokenizer.ggml.scores")
    is_array = isinstance(scores, np.ndarray) and scores.shape == (len(pieces.tokens),)
    if not is_array or np.isnan(scores).any():
        raise ModelFileError(
            expected=f"{len(pieces.tokens)} numbers, no NaN, in tokenizer.ggml.scores in {where}",
            found=_name(scores),
        )
    has_prefix = settings.take_bool("tokenizer.ggml.add_space_prefix", True)
    unknown = settings.take_int("tokenizer.ggml.unknown_token_id", 0, least=0)
    merges = merges_from_scores(pieces.vocab, scores.tolist())
    unk_token = _token_at(pieces, unknown, where)
    with refuse_failures(ModelFileError, f"a vocabulary and scores of BPE in {where}"):
        model = models.BPE(
            vocab=pieces.vocab,
            merges=merges,
            unk_token=unk_token,
            fuse_unk=True,
            byte_fallback=True,
        )
    backend = Tokenizer(model)
    replace = normalizers.Replace(" ", _SPACE)
    prepend = normalizers.Prepend(_SPACE)
    backend.normalizer = normalizers.Sequence([prepend, replace]) if has_prefix else replace
    return _Built(backend, ours.Spelling.SENTENCEPIECE, True, has_prefix)


def merges_from_scores(vocab: Mapping[str, int], scores: Sequence[float]) -> list[tuple[str, str]]:
    """List the merges that SentencePiece would make, best score first.

    SentencePiece joins the neighbours whose union has the best score, the leftmost first; every way
    to halve a token is such a union, so all halves of a token stand together.
    """
    ranked: list[tuple[float, int, int, int, str, str]] = []
    for token, place in vocab.items():
        for cut in range(1, len(token)):
            one, two = token[:cut], token[cut:]
            if one in vocab and two in vocab:
                ranked.append((-scores[place], place, vocab[one], vocab[two], one, two))
    ranked.sort()
    return [(entry[4], entry[5]) for entry in ranked]


def _finish(built: _Built, settings: Settings, pieces: _Pieces, where: str) -> ours.Vocabulary:
    """Add the control tokens, and what stands around every text."""
    marked = {
        place: token
        for place, token in enumerate(pieces.tokens)
        if pieces.kinds[place] in (_CONTROL, _USER)
    }
    special = {place for place in marked if pieces.kinds[place] == _CONTROL}
    special |= {place for place, kind in enumerate(pieces.kinds) if kind == _UNKNOWN}
    _add_marked(built.backend, [marked[place] for place in sorted(special & marked.keys())], True)
    _add_marked(built.backend, [marked[place] for place in sorted(marked.keys() - special)], False)
    bos_id = _take_id(settings, "bos", pieces, where)
    eos_id = _take_id(settings, "eos", pieces, where)
    _set_frame(built, settings, pieces, bos_id, eos_id)
    ends = {_take_id(settings, name, pieces, where) for name in ("eot", "eom")} | {eos_id}
    ends |= {place for place, token in marked.items() if token in END_TEXTS}
    return ours.Vocabulary(
        spelling=built.spelling,
        added=marked,
        special_ids=frozenset(special),
        bos_id=bos_id,
        eos_id=eos_id,
        eos_ids=frozenset(end for end in ends if end is not None),
        strips_space=built.strips_space,
    )


def _add_marked(backend: Tokenizer, tokens: list[str], is_special: bool) -> None:
    """Have tokens matched in the text as they stand; in one call, for each builds the matcher."""
    added = [AddedToken(token, special=is_special, normalized=False) for token in tokens]
    with refuse_failures(ModelFileError, "control and user-defined tokens that can be matched"):
        (backend.add_special_tokens if is_special else backend.add_tokens)(added)


def _set_frame(
    built: _Built, settings: Settings, pieces: _Pieces, bos_id: int | None, eos_id: int | None
) -> None:
    """Put bos before and eos after each text, as the file asks."""
    add_bos = settings.take_bool("tokenizer.ggml.add_bos_token", built.adds_bos)
    add_eos = settings.take_bool("tokenizer.ggml.add_eos_token", False)
    settings.require("tokenizer.ggml.add_sep_token", False)
    before = [] if bos_id is None or not add_bos else [(pieces.tokens[bos_id], bos_id)]
    after = [] if eos_id is None or not add_eos else [(pieces.tokens[eos_id], eos_id)]
    if before or after:
        for token, place in [*before, *after]:
            _check_frame(token, place)
        frame = [*(token for token, _ in before), "$A", *(token for token, _ in after)]
        with refuse_failures(ModelFileError, "tokens bos and eos that can stand around a text"):
            built.backend.post_processor = processors.TemplateProcessing(
                single=frame, pair=None, special_tokens=[*before, *after]
            )


def _check_frame(token: str, place: int) -> None:
    """Refuse names that a template of the library would read as a placeholder or a type."""
    if not token or token.startswith("$") or ":" in token or any(map(str.isspace, token)):
        raise ModelFileError(
            expected="tokens bos and eos without $ in front, without : and without spaces",
            found=f"{token!r:.200} with id {place}",
        )


def _take_id(settings: Settings, name: str, pieces: _Pieces, where: str) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    if settings.take(key) is None:
        return None
    place = settings.take_int(key, least=0)
    _token_at(pieces, place, where)
    return place


def _token_at(pieces: _Pieces, place: int, where: str) -> str:
    if place >= len(pieces.tokens):
        raise ModelFileError(
            expected=f"ids of special tokens below {len(pieces.tokens)} in {where}",
            found=str(place),
        )
    return pieces.tokens[place]


def _name(value: Any) -> str:
    """Describe what stood in place of an array."""
    if value is None:
        return "no such key"
    return f"{type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else repr(value)


def _digest(own: Mapping[str, Any]) -> str:
    """Digest the metadata that define the encoding, as JSON with sorted keys."""
    plain = {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in own.items()
    }
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
