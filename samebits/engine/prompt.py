"""From what a caller calls a prompt to token ids: text, ids as they are, or messages."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from samebits.engine.request import SamplingParams
from samebits.engine.text import Tokenizer
from samebits.errors import RequestError
from samebits.model.template import ChatTemplate

Message: TypeAlias = Mapping[str, Any]
"""A role and a content, as chat templates take them."""
Prompt: TypeAlias = str | Sequence[int] | Sequence[Message]


class ReadPrompt(NamedTuple):
    """A prompt as tokens."""

    token_ids: Sequence[int]
    text: str | None
    """The rendered text; None if token ids were given."""


def read_prompt(prompt: Prompt, tokenizer: Tokenizer, template: ChatTemplate | None) -> ReadPrompt:
    """Turn a prompt into token ids; text is taken as it is, without a template.

    Raises:
        RequestError: Empty, invalid Unicode, or messages for a model without a chat template.
    """
    if isinstance(prompt, bytes | Mapping) or not isinstance(prompt, Sequence | np.ndarray):
        raise RequestError(
            expected="a text, a list of token ids or a list of messages",
            found=type(prompt).__name__,
        )
    if not len(prompt):
        raise RequestError(expected="a prompt of at least one token", found="an empty prompt")
    if isinstance(prompt, str):
        return read_text(prompt, tokenizer, add_special=True)
    if isinstance(prompt[0], Mapping):
        return read_text(render(prompt, template), tokenizer, add_special=False)
    return ReadPrompt(prompt, None)  # type: ignore[arg-type]  # ids are checked one by one later


def read_text(text: str, tokenizer: Tokenizer, *, add_special: bool) -> ReadPrompt:
    """Tokenise a text; a rendered template brings its special tokens itself.

    Raises:
        RequestError: It holds a lone surrogate, so it is no Unicode text.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(expected="valid Unicode text", found=str(error)) from error
    return ReadPrompt(tokenizer.encode(text, add_special), text)


def render(messages: Sequence[Any], template: ChatTemplate | None) -> str:
    """Write messages as text.

    Raises:
        RequestError: There is no template, or an item is no message.
    """
    if template is None:
        raise RequestError(
            expected="a text or token ids",
            found="messages, and the model has no chat template",
            remedy="Render them yourself and send the text.",
        )
    if not all(isinstance(message, Mapping) for message in messages):
        raise RequestError(expected="a list of messages only", found="other items among them")
    return template.render(messages)


def pair(
    prompts: Sequence[Prompt], params: SamplingParams | Sequence[SamplingParams] | None
) -> list[tuple[Prompt, SamplingParams]]:
    """Give each prompt its parameters.

    Raises:
        RequestError: One prompt instead of a list, or lists of different lengths.
    """
    if isinstance(prompts, str | bytes | Mapping):
        raise RequestError(expected="a list of prompts", found=f"one {type(prompts).__name__}")
    if params is None or isinstance(params, SamplingParams):
        params = [params or SamplingParams()] * len(prompts)
    if len(params) != len(prompts):
        raise RequestError(
            expected=f"parameters for {len(prompts)} prompts", found=f"for {len(params)}"
        )
    return list(zip(prompts, params, strict=True))
