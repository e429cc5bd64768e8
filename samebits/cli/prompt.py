"""The prompt of a command line: an argument, or standard input."""

import sys
from collections.abc import Mapping, Sequence

from samebits.errors import ConfigError, RequestError


def read_prompt_text(argument: str) -> str:
    """Give the text; `-` reads standard input and drops one final line ending.

    Raises:
        RequestError: It is empty, not UTF-8, or standard input cannot be read.
    """
    text = _read_stdin() if argument == "-" else argument
    check_unicode(text, "the prompt")
    if not text:
        raise RequestError(
            expected="a prompt",
            found="an empty one",
            remedy='Say something: samebits generate "Why is the sky blue?"',
        )
    return text


def _read_stdin() -> str:
    data = _read_bytes()
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            expected="UTF-8 on standard input",
            found=f"byte 0x{data[error.start]:02x} at offset {error.start}",
            remedy="Convert it first, for example with iconv.",
        ) from error
    return text.removesuffix("\n").removesuffix("\r")


def _read_bytes() -> bytes:
    try:
        if sys.stdin is not None:
            return sys.stdin.buffer.read()
        found = "it is closed"
    except OSError as error:
        found = error.strerror or str(error)
    raise RequestError(
        expected="standard input to hold the prompt",
        found=found,
        remedy='Say it as an argument: samebits generate "Why is the sky blue?"',
    )


def check_unicode(text: str, what: str) -> None:
    """Refuse an argument that held bytes of no text.

    Raises:
        RequestError: It holds a lone surrogate; says where.
    """
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
    if system is not None and not as_chat:
        raise ConfigError(
            expected="a chat for --system",
            found="a raw prompt",
            remedy="Put the text into the prompt, or use --chat with a chat model.",
        )
    if not as_chat:
        return text
    messages = [] if system is None else [{"role": "system", "content": system}]
    return [*messages, {"role": "user", "content": text}]
