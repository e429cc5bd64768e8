"""Reads a command line of somebody else's: which engine it starts, with which options and Python.

Nothing here changes the command.
"""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import ConfigError

PYTHON = re.compile(r"(python|pypy)(\d+(\.\d+)*t?)?", re.ASCII)
PROGRAMS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trtllm-serve": "tensorrt-llm",
    "trtllm-bench": "tensorrt-llm",
    "trtllm-llmapi-launch": "tensorrt-llm",
    "llama-server": "llama.cpp",
    "llama-cli": "llama.cpp",
    "torchrun": "pytorch",
    "accelerate": "pytorch",
}
"""Name of a program to the engine it starts."""
MODULES = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt_llm": "tensorrt-llm",
    "llama_cpp": "llama.cpp",
}
"""First name of a module that is run with -m."""
MODULE = re.compile(r"-[bBdEiIOPqRsSuvVx]*m(.*)", re.ASCII)
"""What runs a module: -m alone, after other letters, or with the name behind it."""
WITH_VALUE = ("-X", "-W", "--check-hash-based-pycs")
"""Options of Python's own that take a value."""
EXEC_LINE = re.compile(rb"'''exec' \"?([^\s\"]+)", re.ASCII)
"""Second line of a script whose interpreter has too long a path for a first line."""
FIRST_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, and what can be told from it."""

    words: tuple[str, ...]
    program: str
    """Path of what is started."""
    engine: str
    """Guessed; empty if it cannot be."""
    options: Mapping[str, str]
    """By name without leading hyphens; of one that stands twice, the last."""
    interpreter: str
    """Path of the Python that runs it; empty if none does, or it cannot be found."""


def read_command(words: Sequence[str], variables: Mapping[str, str]) -> Command:
    """Read a command.

    Raises:
        ConfigError: It is empty, or its program is not found or not executable.
    """
    if not words or not words[0]:
        raise ConfigError(
            expected="a command after --", found="none", remedy="samebits run -- python script.py"
        )
    path = variables.get("PATH", "")
    program = shutil.which(words[0], path=path)
    if program is None:
        raise ConfigError(
            expected=f"a program that can be run: {words[0]}",
            found="no such file on the PATH, or no right to run it",
            remedy="Give its whole path.",
        )
    return Command(
        words=tuple(words),
        program=program,
        engine=guess_engine(words),
        options=dict(list_options(words[1:])),
        interpreter=find_interpreter(program, path),
    )


def guess_engine(words: Sequence[str]) -> str:
    """Guess which engine a command starts; empty if nothing tells."""
    name = Path(words[0]).name
    if PYTHON.fullmatch(name):
        return MODULES.get(find_module(words[1:]).partition(".")[0], "pytorch")
    return PROGRAMS.get(name, "")


def find_module(arguments: Sequence[str]) -> str:
    """Find the module that Python is told to run; empty for a script or a text."""
    rest = iter(arguments)
    for word in rest:
        if module := MODULE.match(word):
            return module[1] or next(rest, "")
        if word in WITH_VALUE:
            next(rest, "")
        elif not word.startswith("-") or word.startswith("-c"):
            return ""
    return ""


def list_options(arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """List options with their values: what follows, unless that is an option itself."""
    for place, word in enumerate(arguments):
        name, joint, value = word.partition("=")
        if not re.fullmatch(r"--?[A-Za-z][\w.-]*", name, re.ASCII):
            continue
        following = arguments[place + 1] if place + 1 < len(arguments) else "-"
        is_value = not following.startswith("-") or following[1:2].isdecimal()
        yield name.lstrip("-").replace("_", "-"), value if joint else following * is_value


def find_interpreter(program: str, path: str) -> str:
    """Find the Python that runs a program: itself, or that of a script's first line."""
    if PYTHON.fullmatch(Path(program).name):
        return program
    try:
        with open(program, "rb") as file:
            head = file.read(FIRST_BYTES)
    except OSError:
        # A program may be run without being read.
        return ""
    return find_named(head, path) if head.startswith(b"#!") else ""


def find_named(head: bytes, path: str) -> str:
    """Find the Python that a script names."""
    first, _, rest = head[2:].partition(b"\n")
    words = first.decode("utf-8", "replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-")]
    if long := EXEC_LINE.match(rest):
        words = [long.group(1).decode("utf-8", "replace")]
    if not words or not PYTHON.fullmatch(Path(words[0]).name):
        return ""
    return shutil.which(words[0], path=path) or ""
