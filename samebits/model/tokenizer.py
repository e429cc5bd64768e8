"""Text to token ids and back.

The library `tokenizers` encodes. Decoding is ours and goes by bytes, so that a stream, cut
anywhere, gives the same text as the whole. Where a tokenizer comes from: gguf_tokenizer.py and
folder_tokenizer.py.
"""

import codecs
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

import tokenizers

from samebits.errors import UnsupportedInput
from samebits.model.border import refuse_failures

_BYTE_PIECE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


class Spelling(Enum):
    """How the pieces of a vocabulary spell bytes."""

    BYTE_LEVEL = "byte_level"
    """Each character stands for a byte, in the alphabet of GPT-2."""
    SENTENCEPIECE = "sentencepiece"
    """Text with ▁ for a space; <0x0A> is a byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """What is known of a vocabulary besides how to encode with it."""

    spelling: Spelling
    added: Mapping[int, str]
    """Tokens that are matched in the text as they stand: control and user-defined ones."""
    special_ids: frozenset[int]
    """Control tokens: no part of the text."""
    bos_id: int | None
    eos_id: int | None
    """The one that a template prints as eos_token."""
    eos_ids: frozenset[int]
    """Tokens that end a text or a turn."""
    strips_space: bool = False
    """A space is put before every text, and taken off again."""


class Tokenizer:
    """Encode text and decode tokens of one model.

    Attributes:
        bos_id: The token that begins a text; None when there is none.
        eos_id: The token the model's maker calls the end; None when there is none.
        eos_ids: All tokens that end a text or a turn.
        vocab_size: Number of ids, those included that the model pads its vocabulary with.
        digest: "sha256:..." of all that defines the encoding.
    """

    __slots__ = (
        "_backend",
        "_pieces",
        "_vocabulary",
        "bos_id",
        "digest",
        "eos_id",
        "eos_ids",
        "vocab_size",
    )

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        vocabulary: Vocabulary,
        *,
        digest: str,
        vocab_size: int | None = None,
    ) -> None:
        """Wrap a backend; vocab_size is the model's, where it is larger than the backend's."""
        self._backend = backend
        self._vocabulary = vocabulary
        self._pieces: dict[int, bytes] = {}
        self.bos_id = vocabulary.bos_id
        self.eos_id = vocabulary.eos_id
        self.eos_ids = vocabulary.eos_ids
        self.digest = digest
        self.vocab_size = max(backend.get_vocab_size(), vocab_size or 0)

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """Turn text into token ids; add_special adds what the model expects around a text.

        Names of control tokens in the text become these tokens.

        Raises:
            UnsupportedInput: The text holds a lone surrogate, which no encoding can carry, or the
                model's tokenizer fails on it.
        """
        check_text(text)
        with refuse_failures(UnsupportedInput, "text that the model's tokenizer can encode"):
            ids: list[int] = self._backend.encode(text, add_special_tokens=add_special).ids
        return ids

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Turn token ids into text; bytes that are no UTF-8 become U+FFFD.

        Raises:
            UnsupportedInput: An id is outside the vocabulary.
        """
        decoder = StreamDecoder(self, skip_special)
        return "".join([decoder.push(token_id) for token_id in ids]) + decoder.flush()

    def stream_decoder(self, skip_special: bool = True) -> "StreamDecoder":
        """Begin to decode a stream of ids."""
        return StreamDecoder(self, skip_special)

    def is_special(self, token_id: int) -> bool:
        """Say whether a token is a control token."""
        return token_id in self._vocabulary.special_ids

    def token_bytes(self, token_id: int) -> bytes:
        """Spell a token in bytes; nothing for an id that only pads the model's vocabulary.

        Raises:
            UnsupportedInput: The id is outside the vocabulary.
        """
        spelled = self._pieces.get(token_id)
        if spelled is None:
            if not 0 <= token_id < self.vocab_size:
                raise UnsupportedInput(
                    expected=f"token ids from 0 to {self.vocab_size - 1}", found=str(token_id)
                )
            spelled = self._pieces[token_id] = self._spell(token_id)
        return spelled

    def token_text(self, token_id: int) -> str:
        """Write a token as its vocabulary does, for templates and reports; empty for padding."""
        with refuse_failures(UnsupportedInput, "a token id that the model's tokenizer can spell"):
            return self._backend.id_to_token(token_id) or ""

    @property
    def spelling(self) -> Spelling:
        """How its pieces spell bytes."""
        return self._vocabulary.spelling

    def to_json(self) -> str:
        """Spell the encoder as tokenizer.json; what decodes is not in it."""
        text: str = self._backend.to_str()
        return text

    @property
    def strips_space(self) -> bool:
        """Whether decoding takes off the one space that encoding put in front."""
        return self._vocabulary.strips_space

    def _spell(self, token_id: int) -> bytes:
        if token_id in self._vocabulary.added:
            return self._vocabulary.added[token_id].encode()
        piece = self.token_text(token_id)
        if self._vocabulary.spelling is Spelling.BYTE_LEVEL:
            return spell_byte_level(piece)
        if match := _BYTE_PIECE.fullmatch(piece):
            return bytes([int(match[1], 16)])
        return piece.replace(_SPACE, " ").encode()


class StreamDecoder:
    """Decode ids one at a time, never giving half a character."""

    __slots__ = ("_at_start", "_skip_special", "_tokenizer", "_utf8")

    def __init__(self, tokenizer: Tokenizer, skip_special: bool = True) -> None:
        """Begin a text."""
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_start = tokenizer.strips_space

    def push(self, token_id: int) -> str:
        """Take a token and give the text that is certain now.

        Raises:
            UnsupportedInput: The id is outside the vocabulary.
        """
        spelled = self._tokenizer.token_bytes(token_id)
        if self._skip_special and self._tokenizer.is_special(token_id):
            return ""
        if self._at_start and spelled:
            self._at_start = False
            spelled = spelled.removeprefix(b" ")
        return self._utf8.decode(spelled)

    def flush(self) -> str:
        """End the text: give what is left of a character that never became whole."""
        return self._utf8.decode(b"", final=True)


def check_text(text: str) -> None:
    """Check that text can be written as UTF-8.

    Raises:
        UnsupportedInput: It holds a lone surrogate; says where.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UnsupportedInput(
            expected="text that UTF-8 can carry",
            found=f"the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}",
        ) from error


def spell_byte_level(piece: str) -> bytes:
    """Turn a byte-level piece into bytes; a character outside the alphabet stands for itself."""
    return b"".join(
        bytes([_BYTE_OF[letter]]) if letter in _BYTE_OF else letter.encode() for letter in piece
    )


def _make_alphabet() -> dict[str, int]:
    """Map GPT-2's alphabet to bytes: printable Latin-1 is itself, the others start at U+0100."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {
        chr(0x100 + place): byte for place, byte in enumerate(hidden)
    }


_BYTE_OF = _make_alphabet()
