"""What `samebits advise` does: make or resume a record, run the ladder, print what came out."""

import sys
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import typer

from samebits.advise.bench import HfBench, ServerBench
from samebits.advise.record import AdviceRecord
from samebits.advise.run import Bench, Options, Told, run_ladder
from samebits.advise.weigh import weigh
from samebits.audit.targets.hf import HfSettings, check_folder
from samebits.cli.advice_file import AdviceFile
from samebits.cli.advise_ask import AdviseAsk, begin, check_same, make_options
from samebits.cli.audit_target import TargetAsk, find_kind, make_target
from samebits.cli.environment import read_variables
from samebits.cli.names import FormatName
from samebits.cli.output_file import check_writable
from samebits.cli.progress import show_progress
from samebits.cli.reporting import draw_advice, put_report
from samebits.errors import ConfigError, SamebitsError

EXIT_INTERRUPTED = 130


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
