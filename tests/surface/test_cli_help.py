"""The verbs, their options, defaults and help texts are those of cli_help.txt.

How typer lays its help out differs between its versions, so the snapshot holds what we wrote, in
our own layout. After a change that is meant: python -m tests.surface.test_cli_help
"""

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_type_hints

from typer import Context
from typer.models import ArgumentInfo

from samebits.cli.app import VERBS, app, share_options

SNAPSHOT = Path(__file__).with_name("cli_help.txt")


def describe_commands() -> str:
    """Write every verb as a paragraph: its help, then a line for each argument and option."""
    return "\n\n".join(describe(name, verb) for name, verb in list_commands()) + "\n"


def list_commands() -> Iterator[tuple[str, Callable[..., None]]]:
    """List the verbs, then those that have verbs of their own."""
    yield "samebits", share_options
    yield from ((f"samebits {verb.__name__}", verb) for verb in VERBS)
    for group in app.registered_groups:
        inner = group.typer_instance
        assert inner is not None
        if inner.registered_callback is not None and inner.registered_callback.callback is not None:
            yield f"samebits {group.name}", inner.registered_callback.callback
        for command in inner.registered_commands:
            assert command.callback is not None
            name = command.name or command.callback.__name__
            yield f"samebits {group.name} {name}", command.callback


def describe(name: str, verb: Callable[..., None]) -> str:
    lines = [name, *(f"  {line}".rstrip() for line in (inspect.getdoc(verb) or "").splitlines())]
    return "\n".join([*lines, *describe_parameters(verb)])


def describe_parameters(verb: Callable[..., None]) -> Iterator[str]:
    hints = get_type_hints(verb, include_extras=True)
    for name, parameter in inspect.signature(verb).parameters.items():
        if hints[name] is Context:
            continue
        kind, info = get_args(hints[name])
        yield f"    {spell(name, info)}{note(kind, parameter.default)}: {info.help}"


def spell(name: str, info: Any) -> str:
    if isinstance(info, ArgumentInfo):
        return name.upper()
    # Inside Annotated, typer keeps the first name of an option where a default would stand.
    names = [info.default, *(info.param_decls or ())]
    return " ".join(x for x in names if isinstance(x, str)) or f"--{name.replace('_', '-')}"


def note(kind: Any, default: object) -> str:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return f" ({', '.join(kind)}; default {default})"
    if default is inspect.Parameter.empty:
        return " (required)"
    return "" if default is None or default is False else f" (default {default})"


def test_help_is_the_snapshot() -> None:
    assert describe_commands() == SNAPSHOT.read_text("utf-8")


def test_everything_has_help() -> None:
    for command, verb in list_commands():
        assert inspect.getdoc(verb)
        for name, hint in get_type_hints(verb, include_extras=True).items():
            if name != "return" and hint is not Context:
                assert get_args(hint)[1].help, f"{command}: {name}"


if __name__ == "__main__":
    SNAPSHOT.write_text(describe_commands(), "utf-8")
