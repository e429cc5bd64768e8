"""What a user asks of an advice: read from the command line, kept in the record, compared."""

import shlex
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from samebits.advise.ladder import choose_rungs
from samebits.advise.record import AdviceRecord
from samebits.advise.run import Options
from samebits.audit.prompts import PromptSet, load_built_in, load_prompts_file
from samebits.cli.environment import read_variables
from samebits.errors import ConfigError
from samebits.lock.capture import capture_machine

LARGEST_BATCH = 256
MOST_DIGITS = 3
FREE = ("rungs", "need", "rate", "command")
"""What may be another when a record is resumed: nothing is asked otherwise for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviseAsk:
    """What the user wants of an advice."""

    target: str
    prompts: Path | None
    strategies: str | None
    batches: str
    max_tokens: int
    need: str
    rate: float
    dtype: str | None
    threads: int
    model: str | None
    key_variable: str
    out: Path | None
    resume: bool
    html: Path | None
    language: str
    as_json: bool

    def sizes(self) -> tuple[int, ...]:
        """Read how many requests come at once.

        Raises:
            ConfigError: No numbers, or out of range.
        """
        parts = [part.strip() for part in self.batches.split(",")]
        # No longer than that: Python refuses to read thousands of digits.
        are_numbers = all(part.isdecimal() and len(part) <= MOST_DIGITS for part in parts)
        sizes = sorted({int(part) for part in parts}) if are_numbers else [0]
        if not 2 <= sizes[0] <= sizes[-1] <= LARGEST_BATCH:
            raise ConfigError(
                expected=f"--batches of numbers from 2 to {LARGEST_BATCH}, with commas",
                found=self.batches,
            )
        return tuple(sizes)

    def keys(self) -> list[str] | None:
        """Read which remedies are wanted; None: all."""
        if self.strategies is None:
            return None
        return [key.strip() for key in self.strategies.split(",")]


def make_options(ask: AdviseAsk, past: AdviceRecord | None) -> Options:
    """Resolve what is tried; prompts of a resumed run are those of its record.

    Raises:
        ConfigError: Other prompts are given for it.
    """
    chosen = load_prompts_file(ask.prompts) if ask.prompts else load_built_in()
    if past is not None:
        if ask.prompts and chosen.prompts != past.prompts:
            raise ConfigError(
                expected=f"the {len(past.prompts)} prompts of the record, or none, with --resume",
                found=f"others in {ask.prompts}",
            )
        chosen = PromptSet(past.prompts, chosen.companions)
    return Options(
        rungs=choose_rungs(ask.keys()),
        prompts=chosen.prompts,
        companions=chosen.companions,
        batches=ask.sizes(),
        max_tokens=ask.max_tokens,
    )


def begin(ask: AdviseAsk, options: Options) -> AdviceRecord:
    """Make a record without trials."""
    asked: dict[str, Any] = {
        "batches": list(options.batches),
        "max_tokens": options.max_tokens,
        "rungs": [rung.key for rung in options.rungs],
        "dtype": ask.dtype,
        "threads": ask.threads,
        "model": ask.model,
        "need": ask.need,
        "rate": ask.rate,
        "command": spell_command(ask),
    }
    return AdviceRecord(
        version=version("samebits"),
        asked=asked,
        target=ask.target,
        machine=capture_machine(read_variables()),
        prompts=options.prompts,
    )


def spell_command(ask: AdviseAsk) -> str:
    """Spell the command that tries the same again."""
    parts = ["samebits", "advise", ask.target, "--max-tokens", str(ask.max_tokens)]
    parts += ["--batches", ask.batches, "--threads", str(ask.threads)]
    parts += ["--need", ask.need, "--rate", str(ask.rate)]
    given = (
        ("--prompts", ask.prompts.name if ask.prompts else None),
        ("--strategies", ask.strategies),
        ("--dtype", ask.dtype),
        ("--model", ask.model),
    )
    for option, value in given:
        parts += [option, value] if value is not None else []
    return shlex.join(parts)


def check_same(past: AdviceRecord, now: AdviceRecord, out: Path) -> None:
    """Refuse to go on with a record that was asked something else, or made elsewhere.

    Raises:
        ConfigError: Names what differs.
    """
    pairs = [("target", past.target, now.target), ("machine", past.machine, now.machine)]
    pairs += [
        (name, past.asked.get(name), now.asked.get(name))
        for name in sorted(past.asked.keys() | now.asked.keys())
        if name not in FREE
    ]
    for name, then, here in pairs:
        if then != here:
            raise ConfigError(
                expected=f"{name} as in {out}",
                found="another machine or other packages" if name == "machine" else repr(here),
                remedy="Ask the same, or begin another record.",
            )
