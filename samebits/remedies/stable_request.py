"""What a call of a stable model asks for, and the refusal of what it cannot answer."""

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.errors import ConfigError, RequestError, RequestTooLong
from samebits.remedies.choose import Chooser
from samebits.remedies.reader import Ids
from samebits.remedies.stabilize import is_count

SURROGATE = re.compile("[\ud800-\udfff]")
Report = Callable[[int, int], None]
"""Told after every step how many answers are there and how many are wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What one call asks for."""

    prompts: tuple[Ids, ...]
    max_tokens: int
    stop_ids: frozenset[int]
    chooser: Chooser
    report: Report


def check_prompts(prompts: Sequence[Any]) -> None:
    """Refuse one prompt where a list of them belongs: its letters would be taken for prompts.

    Raises:
        RequestError: It is one; or a text is no Unicode.
    """
    if isinstance(prompts, str | bytes) or any(map(is_integer, prompts)):
        raise RequestError(
            expected="a list of prompts, each a text or a list of token ids",
            found="one prompt",
            remedy="Put it in a list.",
        )
    for request, prompt in enumerate(prompts):
        if isinstance(prompt, str) and SURROGATE.search(prompt):
            raise RequestError(expected="Unicode", found=f"a surrogate in prompt {request}")


def is_integer(value: Any) -> bool:
    """Answer whether a value is one integer, of Python, NumPy or PyTorch."""
    try:
        operator.index(value)
    except TypeError:
        return False
    # A tensor of one value is a prompt of one token.
    return getattr(value, "ndim", 0) == 0


def read_ids(ids: Any, name: str) -> Ids:
    """Give token ids as integers of Python.

    Raises:
        RequestError: Some are none; names what they were given as.
    """
    try:
        # A bool has an index, and is none.
        return tuple(-1 if isinstance(value, bool) else operator.index(value) for value in ids)
    except TypeError as error:
        raise RequestError(expected=f"token ids as {name}", found=str(error)) from error


def encode(tokenizer: Any, prompt: str | Sequence[int]) -> Ids:
    """Give the token ids of a prompt.

    Raises:
        ConfigError: A text, and there is no tokenizer.
        RequestError: No token ids.
    """
    if not isinstance(prompt, str):
        return read_ids(prompt, "a prompt")
    if tokenizer is None:
        raise ConfigError(
            expected="token ids, or a tokenizer for texts",
            found="a text and no tokenizer",
            remedy="Call stabilize(model, tokenizer).",
        )
    return tuple(tokenizer(prompt).input_ids)


def check_ask(ask: Ask, model: Any) -> None:
    """Refuse what a model cannot answer, before anything is computed.

    Raises:
        RequestError: An empty prompt, a foreign id, or no token asked for.
        RequestTooLong: No room in the model's context.
    """
    if not is_count(ask.max_tokens):
        raise RequestError(expected="max_tokens of at least 1", found=repr(ask.max_tokens))
    if not all(map(is_id, ask.stop_ids)):
        raise RequestError(expected="token ids as stop_ids", found="others")
    size = model.get_input_embeddings().weight.shape[0]
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    for request, ids in enumerate(ask.prompts):
        if not ids:
            raise RequestError(expected="at least one token", found=f"none in prompt {request}")
        if not all(is_id(x, size) for x in ids):
            raise RequestError(
                expected=f"token ids from 0 to {size - 1}", found=f"others in prompt {request}"
            )
        if context is not None and len(ids) + ask.max_tokens > context:
            raise RequestTooLong(
                expected=f"prompt and answer of at most {context} tokens, the model's context",
                found=f"{len(ids)} and {ask.max_tokens} in prompt {request}",
            )


def is_id(value: Any, size: float = math.inf) -> bool:
    """Answer whether a value is a token id of a vocabulary; a bool is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size
