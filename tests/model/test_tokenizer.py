"""Token ids are those of transformers, and a stream decodes to the text of the whole."""

import random
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers
from tokenizers.models import BPE

from samebits.errors import ModelFileError, UnsupportedInput
from samebits.model.files import open_model
from samebits.model.gguf_tokenizer import make_gguf_tokenizer, merges_from_scores
from samebits.model.tokenizer import Spelling, StreamDecoder, Tokenizer, Vocabulary
from tests.model.gguf_bytes import tiny_llama, value_of

SAMPLES = [
    "",
    " ",
    "\n\n \n\t ",
    "Hello, world!",
    "I'll can't WE'RE o'clock",
    "3.14159 1000000 ²³ ٣٤ Ⅷ",
    "naïve café, e\u0301 and é",
    "日本語のテキスト。中文\uff0c한국어",
    "🧑\u200d🚀👩\u200d👩\u200d👧 🇩🇪 ✔\ufe0f",
    "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>",
    "<|im_start|<|im_end|>|>",
    "def f(x):\n    return {'a': x**2}\r\n",
    "\x00\x01\x7f\u0085\u2028\ufeff",
    "a" * 500,
    "   leading and trailing   ",
]


def random_texts(number: int) -> list[str]:
    draw = random.Random(7)
    ranges = [(32, 127), (160, 0x250), (0x370, 0x600), (0x3040, 0x30FF), (0x1F300, 0x1F700)]

    def letter() -> str:
        return draw.choice([" ", "\n", chr(draw.randrange(*draw.choice(ranges)))])

    return ["".join(letter() for _ in range(draw.randrange(40))) for _ in range(number)]


@pytest.fixture(scope="module")
def smollm2(smollm2_path: Path) -> Tokenizer:
    return open_model(smollm2_path).tokenizer


@pytest.fixture(scope="module")
def oracle(smollm2_path: Path) -> Any:
    transformers = pytest.importorskip("transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            smollm2_path.parent, gguf_file=smollm2_path.name
        )
    # Reading GGUF, transformers forgets that the model's own tokenizer.json cuts digits apart.
    digits = pre_tokenizers.Digits(individual_digits=True)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [digits, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return tokenizer


def test_ids_are_those_of_transformers(smollm2: Tokenizer, oracle: Any) -> None:
    for text in SAMPLES + random_texts(400):
        assert smollm2.encode(text) == oracle(text)["input_ids"], text


def test_digits_of_every_script_stand_alone(smollm2: Tokenizer) -> None:
    for text in ["123", "²³", "٣٤"]:
        alone = [token_id for digit in text for token_id in smollm2.encode(digit)]
        assert smollm2.encode(text) == alone


def test_text_comes_back(smollm2: Tokenizer, oracle: Any) -> None:
    for text in SAMPLES + random_texts(200):
        ids = smollm2.encode(text)
        assert smollm2.decode(ids, skip_special=False) == text
        expected = oracle.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert smollm2.decode(ids) == expected


@given(ids=st.lists(st.integers(0, 49151), max_size=30))
def test_a_stream_gives_the_text_of_the_whole(smollm2: Tokenizer, ids: list[int]) -> None:
    decoder = smollm2.stream_decoder()
    pieces = [decoder.push(token_id) for token_id in ids]
    whole = b"".join(
        smollm2.token_bytes(token_id) for token_id in ids if not smollm2.is_special(token_id)
    ).decode(errors="replace")
    assert "".join(pieces) + decoder.flush() == whole == smollm2.decode(ids)


def test_a_stream_never_gives_half_a_character(smollm2: Tokenizer) -> None:
    text = "🧑\u200d🚀 日本 é"
    decoder = smollm2.stream_decoder()
    pieces = [decoder.push(token_id) for token_id in smollm2.encode(text)]
    assert "".join(pieces) == text
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(pieces)
    assert decoder.flush() == ""


def test_a_stream_that_ends_within_a_character_says_so(smollm2: Tokenizer) -> None:
    cut = next(
        token_id for token_id in smollm2.encode("🧑") if smollm2.token_bytes(token_id)[0] > 0xC0
    )
    decoder = StreamDecoder(smollm2)
    assert decoder.push(cut) + decoder.flush() == "\N{REPLACEMENT CHARACTER}"


def test_special_tokens_are_those_of_the_model(smollm2: Tokenizer) -> None:
    assert smollm2.vocab_size == 49152
    assert smollm2.bos_id == 1
    assert smollm2.eos_id == 2
    assert smollm2.eos_ids == {0, 2}
    assert smollm2.token_text(2) == "<|im_end|>"
    assert smollm2.decode([1, 19556, 2]) == "Hello"
    assert smollm2.decode([1, 19556, 2], skip_special=False) == "<|im_start|>Hello<|im_end|>"


@pytest.mark.parametrize("text", ["\ud800", "fine until \udfff here"])
def test_a_lone_surrogate_is_refused(smollm2: Tokenizer, text: str) -> None:
    with pytest.raises(UnsupportedInput, match=r"lone surrogate U\+D"):
        smollm2.encode(text)


@pytest.mark.parametrize("token_id", [-1, 49152, 2**40])
def test_an_id_outside_the_vocabulary_is_refused(smollm2: Tokenizer, token_id: int) -> None:
    with pytest.raises(UnsupportedInput, match=str(token_id)):
        smollm2.decode([token_id])


def test_the_digest_follows_what_defines_the_encoding(tmp_path: Path) -> None:
    first = open_model(tiny_llama(0).write(tmp_path / "a.gguf")).tokenizer
    other_weights = open_model(tiny_llama(1).write(tmp_path / "b.gguf")).tokenizer
    changed = tiny_llama(0).replace("tokenizer.ggml.merges", value_of(["h e", "Ġ he", "l l"]))
    other_merges = open_model(changed.write(tmp_path / "c.gguf")).tokenizer
    assert first.digest == other_weights.digest
    assert first.digest != other_merges.digest


def metadata(**changes: Any) -> dict[str, Any]:
    """Make the metadata of a byte-level vocabulary of all bytes."""
    letters = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x144)]
    values = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": ["<s>", *(chr(letter) for letter in letters), "12", "123"],
        "merges": ["1 2", "12 3"],
        "bos_token_id": 0,
    }
    values |= changes
    return {f"tokenizer.ggml.{name}": value for name, value in values.items()}


PRE_TOKENIZED = {
    "gpt-2": ["123"],
    "smollm": ["1", "2", "3"],
    "llama-bpe": ["123"],
    "qwen2": ["1", "2", "3"],
}


@pytest.mark.parametrize("pre", PRE_TOKENIZED)
def test_every_pre_tokenizer_cuts_numbers_its_own_way(pre: str) -> None:
    tokenizer = make_gguf_tokenizer(metadata(pre=pre), "test")
    ids = tokenizer.encode("123", add_special=False)
    assert [tokenizer.token_text(token_id) for token_id in ids] == PRE_TOKENIZED[pre]


@cache
def make_byte_tokenizer(pre: str) -> Tokenizer:
    return make_gguf_tokenizer(metadata(pre=pre, merges=[]), "test")


# Not qwen2: it composes characters first (NFC).
@pytest.mark.parametrize("pre", sorted(set(PRE_TOKENIZED) - {"qwen2"}))
@given(text=st.text(max_size=40))
def test_every_byte_comes_back(pre: str, text: str) -> None:
    tokenizer = make_byte_tokenizer(pre)
    assert tokenizer.decode(tokenizer.encode(text, add_special=False), False) == text


def test_bos_is_added_where_the_file_or_the_pre_tokenizer_says_so() -> None:
    assert make_gguf_tokenizer(metadata(), "t").encode("a")[0] != 0
    assert make_gguf_tokenizer(metadata(pre="llama-bpe"), "t").encode("a")[0] == 0
    control = [3] + [1] * (len(metadata()["tokenizer.ggml.tokens"]) - 1)
    marked = metadata(add_bos_token=True, token_type=np.array(control, dtype=np.int32))
    tokenizer = make_gguf_tokenizer(marked, "t")
    assert tokenizer.encode("a")[0] == 0
    assert tokenizer.encode("a", add_special=False)[0] != 0


@pytest.mark.parametrize("pre", ["default", "tekken", None])
def test_an_unknown_pre_tokenizer_is_refused_by_name(pre: str | None) -> None:
    with pytest.raises(ModelFileError, match=f"found {pre or 'none'}"):
        make_gguf_tokenizer(metadata(pre=pre), "t")


def sentencepiece(**changes: Any) -> Tokenizer:
    """Make a SentencePiece tokenizer of some letters, bytes and merges."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "a", "b", "c", "▁a", "ab", "abc", "▁ab", "<mark>"]
    kinds = [2, 3, 3, *[6] * 256, *[1] * 8, 4]
    scores = [0.0] * 259 + [-8.0, -8.0, -8.0, -8.0, -3.0, -1.0, -2.0, -4.0, 0.0]
    values = {
        "model": "llama",
        "pre": "default",
        "tokens": pieces,
        "token_type": np.array(kinds, dtype=np.int32),
        "scores": np.array(scores, dtype=np.float32),
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unknown_token_id": 0,
    }
    values |= changes
    own = {f"tokenizer.ggml.{name}": value for name, value in values.items()}
    return make_gguf_tokenizer(own, "test")


def texts(tokenizer: Tokenizer, text: str) -> list[str]:
    return [tokenizer.token_text(token_id) for token_id in tokenizer.encode(text)]


def test_sentencepiece_joins_the_best_score_first() -> None:
    # "ab" (-1) before "▁a" (-3), then "abc" (-2): never "▁ab".
    assert texts(sentencepiece(), "abc") == ["<s>", "▁", "abc"]
    assert texts(sentencepiece(add_space_prefix=False), "ab a") == ["<s>", "ab", "▁a"]


def test_sentencepiece_spells_what_it_does_not_know_in_bytes() -> None:
    tokenizer = sentencepiece()
    assert texts(tokenizer, "aé") == ["<s>", "▁a", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("aé c")) == "aé c"
    marked = sentencepiece(add_space_prefix=False)
    assert texts(marked, "a<mark> b") == ["<s>", "a", "<mark>", "▁", "b"]
    assert marked.decode(marked.encode("a<mark> b")) == "a<mark> b"


def test_the_space_put_in_front_is_taken_off_once() -> None:
    tokenizer = sentencepiece()
    for text in ["a", " a", "  a b", ""]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_merges_follow_scores_then_places() -> None:
    vocab = {"a": 0, "b": 1, "ab": 2, "aba": 3, "ba": 4}
    merges = merges_from_scores(vocab, [0.0, 0.0, -2.0, -3.0, -1.0])
    assert merges == [("b", "a"), ("a", "b"), ("a", "ba"), ("ab", "a")]


def test_an_id_that_pads_the_model_spells_nothing() -> None:
    vocabulary = Vocabulary(
        spelling=Spelling.BYTE_LEVEL,
        added={},
        special_ids=frozenset(),
        bos_id=None,
        eos_id=None,
        eos_ids=frozenset(),
    )
    backend = Backend(BPE(vocab={"a": 0}, merges=[]))
    tokenizer = Tokenizer(backend, vocabulary, digest="sha256:", vocab_size=64)
    assert tokenizer.decode([0, 63, 0]) == "aa"


def test_scores_that_have_no_order_are_refused() -> None:
    scores = np.array([0.0] * 267 + [np.nan], dtype=np.float32)
    with pytest.raises(ModelFileError, match=r"no NaN, in tokenizer\.ggml\.scores"):
        sentencepiece(scores=scores)
