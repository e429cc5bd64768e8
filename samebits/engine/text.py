"""From token ids to text, a piece at a time, with stop strings.

The text is a function of the token ids and the stop strings alone: it does not depend on how many
characters a token brings, nor on whether anybody streams.
"""

from collections.abc import Sequence
from typing import Protocol


class PieceDecoder(Protocol):
    """Text out of tokens, one at a time, never half a character."""

    def push(self, token_id: int) -> str:
        """Take a token, give the text that is now certain."""
        ...

    def flush(self) -> str:
        """Give what is left of a character that never became whole, as U+FFFD."""
        ...


class Tokenizer(Protocol):
    """What the engine needs of a tokenizer."""

    @property
    def eos_ids(self) -> frozenset[int]:
        """Tokens that end a sequence."""
        ...

    @property
    def digest(self) -> str:
        """Identify vocabulary, merges and rules."""
        ...

    def encode(self, text: str, add_special: bool = True) -> list[int]:
        """Turn a prompt into token ids; add_special: with what the model expects around a text."""
        ...

    def stream_decoder(self) -> PieceDecoder:
        """Begin to decode a stream of ids."""
        ...


class StopMatcher:
    """Cut text before the first stop string that is completed.

    Of several completed at the same character the longest counts. Both are what reading character
    by character would find, so the pieces the text comes in do not matter.
    """

    def __init__(self, stops: Sequence[str]) -> None:
        self.stops = tuple(stops)
        self.longest = max(map(len, stops), default=0)
        self.held = ""
        """Text that may yet be the beginning of a stop string."""
        self.is_stopped = False

    def push(self, piece: str) -> str:
        """Take text, give the text that no stop string can cut any more."""
        text = self.held + piece
        ends = [(at + len(s), at) for s in self.stops if (at := text.find(s)) >= 0]
        if ends:
            self.is_stopped = True
            self.held = ""
            return text[: min(ends)[1]]
        most = min(self.longest - 1, len(text))
        keep = next((k for k in range(most, 0, -1) if self.may_start(text[-k:])), 0)
        self.held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def may_start(self, tail: str) -> bool:
        """Answer whether a stop string starts with this text."""
        return any(stop.startswith(tail) for stop in self.stops)

    def finish(self) -> str:
        """Give what was held back: no more text comes."""
        held, self.held = self.held, ""
        return held


class TextStream:
    """The text of one sample, as its tokens come.

    Attributes:
        text: All text given so far.
        is_stopped: A stop string was found; the text ends before it.
    """

    def __init__(self, tokenizer: Tokenizer, stops: Sequence[str]) -> None:
        self.pieces = tokenizer.stream_decoder()
        self.matcher = StopMatcher(stops)
        self.text = ""

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string was found."""
        return self.matcher.is_stopped

    def push(self, token_id: int) -> str:
        """Take a token, give the text that is now certain."""
        return self.give(self.matcher.push(self.pieces.push(token_id)))

    def finish(self) -> str:
        """Give the rest; a stop string in it counts too."""
        if self.is_stopped:
            return ""
        text = self.matcher.push(self.pieces.flush())
        return self.give(text + self.matcher.finish())

    def give(self, text: str) -> str:
        """Add to the text."""
        self.text += text
        return text
