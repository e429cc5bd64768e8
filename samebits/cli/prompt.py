"""The prompt of a command line: an argument, or standard input."""

import sys
from collections.abc import Mapping, Sequence

from samebits.errors import ConfigError, RequestError


def read_prompt_text(argument: str) -> str:
    """Give the text; `-` reads standard input and drops one final line ending.

    Raises:
        RequestError: It is empty or not UTF-8.
    """
    text = _read_stdin() if argument == "-" else argument
    _check_unicode(text, "the prompt")
    if not text:
        raise RequestError(
            expected="a prompt",
            found="an empty one",
            remedy='Say something: samebits generate "Why is the sky blue?"',
        )
    return text


def _read_stdin() -> str:
    data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            expected="UTF-8 on standard input",
            found=f"byte 0x{data[error.start]:02x} at offset {error.start}",
            remedy="Convert it first, for example with iconv.",
        ) from error
    return text.removesuffix("\n").removesuffix("\r")


def _check_unicode(text: str, what: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        # Python keeps undecodable bytes of an argument as lone surrogates.
        raise RequestError(
            expected=f"valid Unicode in {what}",
            found=f"U+{ord(text[error.start]):04X} at character {error.start}",
        ) from error


def make_prompt(
    text: str, *, system: str | None, chat: bool | None, has_template: bool
) -> str | Sequence[Mapping[str, str]]:
    """Turn the text into what the engine is asked: messages for a chat, or the text itself.

    Args:
        chat: None takes the chat template if the model has one.
    Raises:
        ConfigError: Chat is asked of a model without a template, or a system text without chat.
    """
    if chat and not has_template:
        raise ConfigError(
            expected="a model with a chat template for --chat",
            found="a model without",
            remedy="Use --raw.",
        )
    as_chat = has_template if chat is None else chat
    if system is not None:
        _check_unicode(system, "--system")
        if not as_chat:
            raise ConfigError(
                expected="a chat for --system",
                found="a raw prompt",
                remedy="Put the text into the prompt, or use --chat with a chat model.",
            )
    if not as_chat:
        return text
    messages = [] if system is None else [{"role": "system", "content": system}]
    return [*messages, {"role": "user", "content": text}]
