"""The last section: what was asked and in force, the machine, the record, and the command."""

import shlex
from collections.abc import Iterator, Mapping

from samebits.audit.results import Analysis
from samebits.report.blocks import Block, Code, Fold, Section, make_table
from samebits.report.visible import show, show_id
from samebits.report.words import Words

PARTS = ("asked", "target", "machine")
"""Parts of a record's header that are listed field by field."""
POSITIONAL = ("target",)
"""Options that a command gives without their name."""


def make_setup(analysis: Analysis, words: Words) -> Section:
    """List the header of the record."""
    blocks: list[Block] = [
        Code(label=words("setup.again"), text=spell_command(analysis)),
        Code(label=words("setup.digest"), text=show(analysis.record_digest)),
    ]
    blocks.append(
        make_table(
            words("setup.record"), setup_columns(words), list_record(analysis, words), code="1"
        )
    )
    for part in PARTS:
        rows = [(name, show(text)) for name, text in flatten(analysis.header.get(part), "")]
        if rows:
            blocks.append(
                make_table(words(f"setup.{part}"), setup_columns(words), [*rows], code="01")
            )
    if prompts := list_prompts(analysis):
        columns = words.labels(("column.id", "column.text"))
        table = make_table(words("setup.prompts"), columns, [*prompts], code="0")
        blocks.append(Fold(summary=words("setup.prompts"), table=table))
    return Section(key="setup", title=words("setup"), blocks=tuple(blocks))


def setup_columns(words: Words) -> tuple[str, ...]:
    """Give the columns of every list of fields."""
    return words.labels(("column.field", "column.value"))


def list_record(analysis: Analysis, words: Words) -> list[tuple[str, str]]:
    """Identify the record."""
    header = analysis.header
    rows = []
    for key in ("format", "version", "started_at"):
        if header.get(key):
            rows.append((words(f"setup.{key}"), show(str(header[key]))))
    rows.append((words("setup.calls"), f"{analysis.num_observations:,}"))
    return rows


def flatten(value: object, name: str) -> Iterator[tuple[str, str]]:
    """List the leaves of nested values with dotted names."""
    if isinstance(value, Mapping):
        for key in sorted(map(str, value)):
            yield from flatten(value[key], f"{name}.{show_id(key)}" if name else show_id(key))
    elif isinstance(value, list | tuple) and any(
        isinstance(x, Mapping | list | tuple) for x in value
    ):
        for i, item in enumerate(value):
            yield from flatten(item, f"{name}.{i}")
    elif isinstance(value, list | tuple):
        yield name, " ".join(map(str, value))
    elif value is not None:
        yield name, str(value)


def list_prompts(analysis: Analysis) -> list[tuple[str, str]]:
    """Quote the prompts, cut where they are long."""
    prompts = analysis.header.get("prompts") or ()
    return [
        (show_id(str(item.get("id", ""))), show(text_of(item)))
        for item in prompts
        if isinstance(item, Mapping)
    ]


def text_of(prompt: Mapping[str, object]) -> str:
    """Give what a prompt asks: its text, or its messages after each other."""
    if prompt.get("text"):
        return str(prompt["text"])
    messages = prompt.get("messages")
    pairs = messages if isinstance(messages, list | tuple) else ()
    return "\n".join(": ".join(map(str, pair)) for pair in pairs)


def spell_command(analysis: Analysis) -> str:
    """Spell the command that asks the same again, from what was asked."""
    asked = analysis.header.get("asked")
    options = dict(asked) if isinstance(asked, Mapping) else {}
    parts = ["samebits", "audit", *(str(options.pop(key)) for key in POSITIONAL if key in options)]
    for name in sorted(options):
        parts += spell_option(name, options[name])
    return " ".join(shlex.quote(show(part, 4000)) for part in parts)


def spell_option(name: str, value: object) -> list[str]:
    """Spell one option; what was not asked for is left out."""
    flag = f"--{name.replace('_', '-')}"
    if value is None or value is False or value in ("", [], ()):
        return []
    if value is True:
        return [flag]
    if isinstance(value, list | tuple):
        return [flag, ",".join(map(str, value))]
    return [flag, str(value)]
