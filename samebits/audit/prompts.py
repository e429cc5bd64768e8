"""The prompts of an audit: the user's file, or those that lie beside this one."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from samebits.errors import ConfigError, RecordCorrupt
from samebits.record.canonical import parse_json

MOST_PROMPTS = 10_000
LARGEST_FILE_BYTES = 256 * 2**20
KEYS = ("id", "prompt", "messages", "answer")
ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPrompt:
    """One thing to ask; a cluster of the statistics."""

    id: str
    text: str | None = None
    """Sent as it is; None if messages are given."""
    messages: tuple[tuple[str, str], ...] | None = None
    """(role, content) for the chat template."""
    answer: str | None = None
    """The right answer, if the prompt is a task."""


class PromptSet(NamedTuple):
    """What an audit asks."""

    prompts: tuple[AuditPrompt, ...]
    companions: tuple[AuditPrompt, ...]
    """Texts that only share a batch or a server with them; never observed."""


def load_built_in() -> PromptSet:
    """Read audit_prompts.json: short and long, prose and code."""
    data = json.loads(files("samebits.audit").joinpath("audit_prompts.json").read_text("utf-8"))
    return PromptSet(name_texts("p", data["prompts"]), name_texts("c", data["companions"]))


def name_texts(letter: str, texts: Sequence[str]) -> tuple[AuditPrompt, ...]:
    """Number texts from 1."""
    return tuple(AuditPrompt(id=f"{letter}{i}", text=text) for i, text in enumerate(texts, start=1))


def load_prompts_file(path: Path) -> PromptSet:
    """Read a user's prompts; companions are the built-in ones.

    A file named .jsonl or .json holds one JSON object a line: `prompt` (a text) or `messages` (a
    list of {role, content}), and, if wanted, `id` and `answer`. Any other holds one prompt a line.

    Raises:
        ConfigError: It cannot be read, is empty, holds a prompt twice, or a line is no prompt;
            names the line.
    """
    lines = [(i, line) for i, line in enumerate(read_lines(path), start=1) if line.strip()]
    if not 1 <= len(lines) <= MOST_PROMPTS:
        raise ConfigError(
            expected=f"1 to {MOST_PROMPTS} prompts in {path}", found=f"{len(lines)} lines with text"
        )
    read = read_object if path.suffix in (".jsonl", ".json") else read_text
    prompts = tuple(read(line, i, path) for i, line in lines)
    check_ids(prompts, path)
    check_contents(prompts, path)
    return PromptSet(prompts, load_built_in().companions)


def read_lines(path: Path) -> list[str]:
    """Read the lines of a UTF-8 file."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(
            expected=f"prompts in {path}", found=error.strerror or str(error)
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(expected=f"UTF-8 in {path}", found=str(error)) from error
    if len(data) > LARGEST_FILE_BYTES:
        raise ConfigError(expected=f"at most {LARGEST_FILE_BYTES} bytes in {path}", found="more")
    # Not splitlines: U+2028 and the like are text.
    return text.replace("\r\n", "\n").split("\n")


def read_text(line: str, number: int, _path: Path) -> AuditPrompt:
    """Take a whole line as a prompt."""
    return AuditPrompt(id=str(number), text=line)


def read_object(line: str, number: int, path: Path) -> AuditPrompt:
    """Read one JSON object."""
    refuse = Refuse(path, number)
    try:
        value = parse_json(line)
    except RecordCorrupt as error:
        raise refuse("a JSON object a line", error.found) from error
    if not isinstance(value, dict):
        raise refuse("a JSON object a line", type(value).__name__)
    if unknown := sorted(set(value) - set(KEYS)):
        raise refuse(f"no other keys than {', '.join(KEYS)}", ", ".join(unknown))
    if ("prompt" in value) == ("messages" in value):
        raise refuse("either prompt or messages", "both" if "prompt" in value else "neither")
    for key in ("id", "prompt", "answer"):
        if key in value and (not isinstance(value[key], str) or not value[key]):
            raise refuse(f"{key}: a text that is not empty", repr(value[key]))
    return AuditPrompt(
        id=value.get("id", str(number)),
        text=value.get("prompt"),
        messages=read_messages(value["messages"], refuse) if "messages" in value else None,
        answer=value.get("answer"),
    )


class Refuse:
    """Make errors that name a line of a file."""

    def __init__(self, path: Path, number: int) -> None:
        self.place = f"line {number} of {path}"

    def __call__(self, expected: str, found: str) -> ConfigError:
        """Make one."""
        return ConfigError(expected=f"{self.place}: {expected}", found=found)


def read_messages(
    value: Any, refuse: Callable[[str, str], ConfigError]
) -> tuple[tuple[str, str], ...]:
    """Read a list of {role, content}."""
    if not isinstance(value, list) or not value:
        raise refuse("messages: a list that is not empty", repr(value))
    for message in value:
        is_message = isinstance(message, Mapping) and set(message) == {"role", "content"}
        if not is_message or not all(isinstance(text, str) for text in message.values()):
            raise refuse("messages: objects of role and content, both texts", repr(message))
        if message["role"] not in ROLES:
            raise refuse(f"role: one of {', '.join(ROLES)}", repr(message["role"]))
    return tuple((message["role"], message["content"]) for message in value)


def check_ids(prompts: Sequence[AuditPrompt], path: Path) -> None:
    """Refuse an id that stands twice."""
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise ConfigError(expected=f"each id once in {path}", found=f"{prompt.id!r} twice")
        seen.add(prompt.id)


def check_contents(prompts: Sequence[AuditPrompt], path: Path) -> None:
    """Refuse a prompt that stands twice: the same question is no second piece of evidence."""
    seen: dict[tuple[object, object], str] = {}
    for prompt in prompts:
        first = seen.setdefault((prompt.text, prompt.messages), prompt.id)
        if first != prompt.id:
            raise ConfigError(
                expected=f"each prompt once in {path}",
                found=f"{prompt.id!r} asks what {first!r} asks",
                remedy="Leave one out: repeats are made by the audit.",
            )


def as_messages(prompt: AuditPrompt) -> list[dict[str, str]]:
    """Give the messages of a prompt as templates take them; a text is what a user says."""
    turns = prompt.messages or (("user", prompt.text or ""),)
    return [{"role": role, "content": content} for role, content in turns]
