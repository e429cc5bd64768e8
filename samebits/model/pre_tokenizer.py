"""What the names of pre-tokenizers in GGUF files stand for: where text is cut before merging.

The patterns are those of the tokenizer.json that each family publishes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from tokenizers import Regex, normalizers, pre_tokenizers

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2 = _LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


class PreTokenizer(NamedTuple):
    """What a pre-tokenizer's name stands for."""

    make: Callable[[], Any]
    normalizer: Callable[[], Any] | None = None
    ignore_merges: bool = False
    adds_bos: bool = False


def _byte_level() -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def _digits_then_bytes() -> Any:
    digits = pre_tokenizers.Digits(individual_digits=True)
    return pre_tokenizers.Sequence([digits, _byte_level()])


def _split_then_bytes(pattern: str) -> Any:
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, plain])


_LLAMA_BPE = PreTokenizer(lambda: _split_then_bytes(_LLAMA3), ignore_merges=True, adds_bos=True)
PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "gpt-2": PreTokenizer(_byte_level),
    "smollm": PreTokenizer(_digits_then_bytes),
    "llama-bpe": _LLAMA_BPE,
    "llama3": _LLAMA_BPE,
    "qwen2": PreTokenizer(lambda: _split_then_bytes(_QWEN2), normalizer=normalizers.NFC),
}
"""By the name in tokenizer.ggml.pre."""
