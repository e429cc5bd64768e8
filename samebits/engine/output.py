"""What a request gets back. No clock values: they belong to whoever watches."""

from collections.abc import Mapping
from dataclasses import dataclass

from samebits.engine.in_force import Setting
from samebits.engine.sample import TokenLogprobs
from samebits.record.receipt import Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One finished sample."""

    index: int
    """Sample index: params.first_index plus its place among the n."""
    token_ids: tuple[int, ...]
    """All tokens drawn, the end-of-sequence token and those of a stop string included."""
    text: str
    """The text of the tokens, without an end-of-sequence token, cut before a stop string."""
    finish_reason: str
    """stop (end-of-sequence token or stop string) or length."""
    logprobs: tuple[TokenLogprobs, ...] | None
    """One entry a token, if asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """All samples of one prompt."""

    prompt_ids: tuple[int, ...]
    outputs: tuple[Output, ...]
    """In order of index."""
    params_in_force: Mapping[str, Setting]
    """Every parameter, its value and where that came from."""
    receipt: Receipt | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEvent:
    """One token of one sample, as it is drawn."""

    prompt: int
    """Place of the prompt in the call."""
    index: int
    """Sample index."""
    token_id: int
    text: str
    """Text that became certain; the texts of a sample's events join to Output.text."""
    finish_reason: str | None
    """Set on the last event of a sample."""
    logprobs: TokenLogprobs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedEvent:
    """A prompt whose samples are all finished."""

    prompt: int
    completion: Completion
