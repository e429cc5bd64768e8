"""From what was asked to what is in force: seeds drawn, lengths cut, each with its origin."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from samebits.engine.limits import Limits
from samebits.engine.request import SamplingParams, refuse
from samebits.errors import RequestError, RequestTooLong
from samebits.model.config import ModelConfig


class Setting(NamedTuple):
    """One parameter in force."""

    value: Any
    origin: str
    """asked, default, drawn (a random seed) or context (cut to the model's context)."""


PARAMETERS = tuple(name for name in SamplingParams.__dataclass_fields__ if name != "asked")


def check_token_ids(ids: Sequence[int], config: ModelConfig) -> tuple[int, ...]:
    """Give token ids back as plain ints.

    Raises:
        RequestError: None at all, or one that is no integer or not in the vocabulary.
    """
    if not len(ids):
        raise RequestError(expected="a prompt of at least one token", found="an empty prompt")
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int | np.integer):
            raise RequestError(expected="integer token ids", found=repr(token))
        if not 0 <= token < config.vocab_size:
            raise RequestError(expected=f"token ids in [0, {config.vocab_size})", found=str(token))
    return tuple(int(token) for token in ids)


def check_prompt_len(prompt_len: int, config: ModelConfig) -> None:
    """Refuse a prompt that leaves no room for one more token.

    Raises:
        RequestTooLong: The context is too short.
    """
    if prompt_len + 1 > config.context_len:
        raise RequestTooLong(
            expected=f"at most {config.context_len - 1} prompt tokens",
            found=str(prompt_len),
            remedy="Shorten the prompt or use a model with a longer context.",
        )


def resolve(
    params: SamplingParams, prompt_len: int, config: ModelConfig, limits: Limits
) -> dict[str, Setting]:
    """Give every parameter in force with where it came from.

    Raises:
        RequestError: A bias on a token that does not exist.
        RequestTooLong: The context, or the whole pool of pages, is too small for it.
    """
    check_prompt_len(prompt_len, config)
    if outside := [token for token in params.logit_bias if token >= config.vocab_size]:
        raise refuse("logit_bias id", f"in [0, {config.vocab_size})", outside[0])
    settings = {
        name: Setting(getattr(params, name), "asked" if name in params.asked else "default")
        for name in PARAMETERS
    }
    room = config.context_len - prompt_len
    if params.max_tokens > room:
        settings["max_tokens"] = Setting(room, "context")
    if params.temperature > 0 and params.seed is None:
        settings["seed"] = Setting(secrets.randbits(64), "drawn")
    check_fits(prompt_len + settings["max_tokens"].value - 1, limits)
    return settings


def check_fits(num_tokens: int, limits: Limits) -> None:
    """Refuse a sequence that the whole pool could not hold.

    Raises:
        RequestTooLong: It needs more pages than there are.
    """
    room = limits.num_pages * limits.page_tokens
    if num_tokens > room:
        raise RequestTooLong(
            expected=f"prompt and output within {room} tokens of key-value cache",
            found=str(num_tokens),
            remedy="Ask for fewer tokens, or load the engine with a larger kv_tokens.",
        )


def params_in_force(settings: Mapping[str, Setting]) -> SamplingParams:
    """Make the parameters to sample by."""
    return SamplingParams(**{name: setting.value for name, setting in settings.items()})
