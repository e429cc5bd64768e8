"""What one request asks for. Every impossible value is refused here, by name; nothing is mended.

Zero is a value and never means "not given": what was given is remembered in `asked`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from samebits.errors import RequestError, UnknownParameter

MAX_SAMPLES = 128
MAX_STOPS = 16
MAX_LOGPROBS = 20
MAX_SEED = 2**64 - 1
MIN_TEMPERATURE = 1e-30
MAX_TEMPERATURE = 1e30
"""Outside these, log2(e) / temperature leaves the range of binary32."""
MAX_SHIFT = 1e6
"""Largest magnitude of a bias or penalty: added to a logit below 1e38 it cannot overflow."""
MIN_REPETITION = 1e-6


def refuse(name: str, expected: str, value: object) -> RequestError:
    """Make the error for one parameter."""
    return RequestError(expected=f"{name}: {expected}", found=repr(value))


def check_number(name: str, value: object, low: float, high: float, rule: str) -> float:
    """Give a finite int or float in [low, high] back as a float; a bool is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(name, f"a number, {rule}", value)
    if not low <= value <= high:  # false for NaN; an int beyond binary64 compares, too
        raise refuse(name, rule, value)
    return float(value)


def check_integer(name: str, value: object, low: int, high: int | None) -> int:
    """Give an int in [low, high] back; a bool or a float is no integer."""
    rule = f"an integer >= {low}" if high is None else f"an integer in [{low}, {high}]"
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(name, rule, value)
    if value < low or (high is not None and value > high):
        raise refuse(name, rule, value)
    return value


def check_bias(value: object) -> dict[int, float]:
    """Give a mapping of token id to bias back, in order of id."""
    if not isinstance(value, Mapping):
        raise refuse("logit_bias", "a mapping of token id to number", value)
    rule = f"finite numbers in [-{MAX_SHIFT:g}, {MAX_SHIFT:g}]"
    checked = {
        check_integer("logit_bias id", token, 0, None): check_number(
            f"logit_bias[{token}]", bias, -MAX_SHIFT, MAX_SHIFT, rule
        )
        for token, bias in value.items()
    }
    return dict(sorted(checked.items()))


def check_stops(value: object) -> tuple[str, ...]:
    """Give the stop strings back as a tuple."""
    if isinstance(value, str) or not isinstance(value, list | tuple):
        raise refuse("stop", "a tuple of strings", value)
    if len(value) > MAX_STOPS:
        raise refuse("stop", f"at most {MAX_STOPS} strings", f"{len(value)} strings")
    for stop in value:
        if not isinstance(stop, str) or not stop:
            raise refuse("stop", "strings that are not empty", stop)
    return tuple(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How tokens are chosen, and when to stop.

    Raises:
        RequestError: A value that cannot be served; the message says what would be.
        UnknownParameter: A name nobody reads.
    """

    max_tokens: int = 16
    """Most tokens to generate, >= 1; less if the model's context ends before."""
    temperature: float = 0.0
    """0 takes the largest logit, ties to the lowest id."""
    top_k: int = 0
    """Sample among the k largest logits, ties to the lowest id; 0 sets no limit."""
    top_p: float = 1.0
    """Sample among the fewest largest whose weights reach this share of the total; in (0, 1]."""
    min_p: float = 0.0
    """Sample among those with at least this share of the largest weight; in [0, 1]."""
    repetition_penalty: float = 1.0
    """Divides positive and multiplies negative logits of tokens already seen, prompt included."""
    presence_penalty: float = 0.0
    """Subtracted from the logits of tokens already generated."""
    frequency_penalty: float = 0.0
    """Subtracted once for each time a token was generated."""
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    """Added to the logits of these ids."""
    stop: tuple[str, ...] = ()
    """Generation ends before the first of these strings that is completed."""
    n: int = 1
    """Samples of the same prompt."""
    first_index: int = 0
    """Index of the first sample: sample i of n is the only sample of first_index=i, n=1."""
    seed: int | None = None
    """Key of every draw, in [0, 2**64); None draws one, which the completion reports."""
    logprobs: int | None = None
    """Report the log-probability of each token and of this many best ones; 0 to 20."""
    ignore_eos: bool = False
    """Go on after an end-of-sequence token."""
    asked: frozenset[str] = field(init=False, compare=False, repr=False)
    """Names the caller gave, whatever their values."""

    def __new__(cls, **given: object) -> "SamplingParams":
        """Remember which names were given, and refuse unknown ones."""
        known = {f.name for f in fields(cls) if f.init}
        if unknown := sorted(set(given) - known):
            raise UnknownParameter(
                expected=f"one of {', '.join(sorted(known))}", found=", ".join(unknown)
            )
        self = object.__new__(cls)
        object.__setattr__(self, "asked", frozenset(given))
        return self

    def __post_init__(self) -> None:
        for name, value in self.checked_values().items():
            object.__setattr__(self, name, value)

    def checked_values(self) -> dict[str, Any]:
        """Check every field on its own; what depends on the model is checked at submission."""
        shift = f"in [-{MAX_SHIFT:g}, {MAX_SHIFT:g}]"
        if not isinstance(self.ignore_eos, bool):
            raise refuse("ignore_eos", "true or false", self.ignore_eos)
        if check_number("top_p", self.top_p, 0, 1, "in (0, 1]") == 0:
            raise refuse("top_p", "in (0, 1]", self.top_p)
        return {
            "max_tokens": check_integer("max_tokens", self.max_tokens, 1, None),
            "temperature": check_temperature(self.temperature),
            "top_k": check_integer("top_k", self.top_k, 0, None),
            "top_p": float(self.top_p),
            "min_p": check_number("min_p", self.min_p, 0, 1, "in [0, 1]"),
            "repetition_penalty": check_number(
                "repetition_penalty",
                self.repetition_penalty,
                MIN_REPETITION,
                MAX_SHIFT,
                f"in [{MIN_REPETITION:g}, {MAX_SHIFT:g}]",
            ),
            "presence_penalty": check_number(
                "presence_penalty", self.presence_penalty, -MAX_SHIFT, MAX_SHIFT, shift
            ),
            "frequency_penalty": check_number(
                "frequency_penalty", self.frequency_penalty, -MAX_SHIFT, MAX_SHIFT, shift
            ),
            "logit_bias": check_bias(self.logit_bias),
            "stop": check_stops(self.stop),
            "n": check_integer("n", self.n, 1, MAX_SAMPLES),
            "first_index": check_integer("first_index", self.first_index, 0, 2**32 - 1),
            "seed": None if self.seed is None else check_integer("seed", self.seed, 0, MAX_SEED),
            "logprobs": None
            if self.logprobs is None
            else check_integer("logprobs", self.logprobs, 0, MAX_LOGPROBS),
        }


def check_temperature(value: object) -> float:
    """Give a temperature back: 0, or large enough for binary32."""
    rule = f"0 or in [{MIN_TEMPERATURE:g}, {MAX_TEMPERATURE:g}]"
    checked = check_number("temperature", value, 0, MAX_TEMPERATURE, rule)
    if 0 < checked < MIN_TEMPERATURE:
        raise refuse("temperature", rule, value)
    return checked
