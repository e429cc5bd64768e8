"""What `samebits advise` does: make or resume a record, run the ladder, print what came out."""

import shlex
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

import typer

from samebits.advise.bench import HfBench, ServerBench
from samebits.advise.ladder import choose_rungs
from samebits.advise.record import AdviceRecord
from samebits.advise.run import Bench, Options, Told, run_ladder
from samebits.advise.weigh import weigh
from samebits.audit.prompts import PromptSet, load_built_in, load_prompts_file
from samebits.audit.targets.hf import HfSettings, check_folder
from samebits.cli.advice_file import AdviceFile
from samebits.cli.audit_target import TargetAsk, find_kind, make_target
from samebits.cli.environment import read_variables
from samebits.cli.names import FormatName
from samebits.cli.output_file import check_writable
from samebits.cli.progress import show_progress
from samebits.cli.reporting import draw_advice, put_report
from samebits.errors import ConfigError, SamebitsError
from samebits.lock.capture import capture_machine

EXIT_INTERRUPTED = 130
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


def run(ask: AdviseAsk) -> None:
    """Try, weigh and print; the exit code says whether something will do.

    Raises:
        SamebitsError: Nothing could be tried; what was tried before is in the record.
    """
    check(ask)
    out = ask.out or find_name()
    with ExitStack() as stack:
        # Held before it is read, so that no two runs go on with one record.
        file = stack.enter_context(AdviceFile.resume(out)) if ask.resume else None
        past = None if file is None else file.read()
        options = make_options(ask, past)
        record = past or begin(ask, options)
        if past is not None:
            check_same(past, begin(ask, options), out)
        bench = make_bench(ask, options)
        if file is None:
            file = stack.enter_context(AdviceFile.create(out, record))
        try:
            record = carry_out(ask, options, bench, record, file)
        except KeyboardInterrupt:
            tell_rest("interrupted", out)
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except SamebitsError:
            # Not even the target as it is could be asked: nothing is lost with the new record.
            if past is None and not file.read().trials:
                out.unlink()
            raise
        tell_stopped(options, record, out)
        print(f"record: {out}", file=sys.stderr)
        raise typer.Exit(put(ask, record))


def tell_stopped(options: Options, record: AdviceRecord, out: Path) -> None:
    """Say which remedies somebody ended, and how they are tried after all."""
    tried = {trial.rung for trial in record.trials}
    if stopped := [rung.key for rung in options.rungs if rung.key not in tried]:
        tell_rest(f"stopped by a signal: {', '.join(stopped)}", out)


def tell_rest(what: str, out: Path) -> None:
    """Say that something is left to try, and how."""
    print(f"{what}; {out} holds what was tried; --resume --out {out} goes on", file=sys.stderr)


def check(ask: AdviseAsk) -> None:
    """Refuse what cannot be asked or written, before anything is tried.

    Raises:
        ConfigError: It is so.
    """
    if ask.resume and (ask.out is None or not ask.out.is_file()):
        raise ConfigError(expected="--out RECORD that is there, with --resume", found=str(ask.out))
    if not 0 < ask.rate < 1 or ask.max_tokens < 1 or ask.threads < 1:
        raise ConfigError(
            expected="a rate between 0 and 1, at least one token and one thread",
            found=f"{ask.rate}, {ask.max_tokens} and {ask.threads}",
        )
    if ask.out is not None and ask.html is not None and ask.out.resolve() == ask.html.resolve():
        raise ConfigError(expected="two files, for record and report", found=str(ask.out))
    for path, option in ((ask.out, "--out"), (ask.html, "--html")):
        if path is not None:
            check_writable(path, option)
    if ask.out is not None and ask.out.exists() and not ask.resume:
        raise ConfigError(
            expected="a new file for the record",
            found=f"{ask.out}, which exists",
            remedy="Add --resume to go on with it, or name another file.",
        )


def find_name() -> Path:
    """Find a name for a new record: advice-1.json, advice-2.json and so on."""
    names = (Path(f"advice-{number}.json") for number in count(1))
    path = next(path for path in names if not path.exists())
    check_writable(path, "--out")
    return path


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


def make_bench(ask: AdviseAsk, options: Options) -> Bench:
    """Build what remedies are tried on; nothing is opened yet.

    Raises:
        ConfigError: There is no such target, or it needs no advice.
    """
    kind = find_kind(ask.target)
    if kind == "http":
        target = TargetAsk(target=ask.target, model=ask.model, key_variable=ask.key_variable)
        return ServerBench(target=make_target(target))
    if kind != "hf":
        raise ConfigError(
            expected="hf:FOLDER or a server",
            found=ask.target,
            remedy="Our engine is one of the remedies; audit it by samebits audit.",
        )
    path = ask.target.partition(":")[2]
    check_folder(path)
    settings = HfSettings(path=path, name=ask.target, dtype=ask.dtype, threads=ask.threads)
    texts = tuple(prompt.text for prompt in options.companions if prompt.text is not None)
    return HfBench(settings=settings, variables=read_variables(), companions=texts)


def carry_out(
    ask: AdviseAsk, options: Options, bench: Bench, record: AdviceRecord, file: AdviceFile
) -> AdviceRecord:
    """Run the ladder with progress shown, and keep the record after each remedy."""
    stage_of = None if ask.as_json else find_rung
    with show_progress("starting", has_clock=True, stage_of=stage_of) as show_share:

        def tell(told: Told) -> None:
            show_share(told.done / max(1, told.total), told.label)

        return run_ladder(options, bench, record, keep=file.write, tell=tell)


def find_rung(label: str) -> str:
    """Find the remedy that a label of progress tells of."""
    return label.partition(":")[0]


def put(ask: AdviseAsk, record: AdviceRecord) -> int:
    """Print what a record says; give the exit code."""
    drawn = draw_advice(weigh(record, need=ask.need, rate=ask.rate), ask.language)
    if ask.html is not None:
        put_report(drawn.document, drawn.make_json, FormatName.HTML, ask.html)
        print(f"report: {ask.html}", file=sys.stderr)
    put_report(drawn.document, drawn.make_json, FormatName.JSON if ask.as_json else None, None)
    return drawn.exit_code
