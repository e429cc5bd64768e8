"""What `samebits audit` does: make or resume a record, run, print what came out."""

import math
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from samebits.audit.answers import compile_pattern
from samebits.audit.budget import Budget, parse_budget
from samebits.audit.fit import Estimate, estimate
from samebits.audit.plan import AuditOptions, Plan
from samebits.audit.progress import Progress
from samebits.audit.prompts import PromptSet, load_built_in, load_prompts_file
from samebits.audit.record import AuditRecord, End, Header, Why
from samebits.audit.record_reader import read_record
from samebits.audit.record_writer import RecordWriter
from samebits.audit.run import run_audit
from samebits.cli.audit_target import TargetAsk, make_target
from samebits.cli.environment import read_variables
from samebits.cli.names import FormatName
from samebits.cli.output_file import check_writable
from samebits.cli.progress import show_progress
from samebits.errors import ConfigError, TargetError
from samebits.lock.capture import capture_machine

if TYPE_CHECKING:
    from samebits.audit.results import Analysis
    from samebits.audit.target import Target

EXIT_CANNOT_TELL = 3
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAsk:
    """What the user wants of an audit."""

    target: TargetAsk
    prompts: Path | None
    answer_pattern: str | None
    axes: str | None
    max_tokens: int
    budget: str | None
    need: str
    detect: float
    out: Path | None
    resume: bool
    record_only: bool
    html: Path | None
    language: str
    as_json: bool
    price: float | None
    dry_run: bool

    def asked(self) -> dict[str, Any]:
        """Give what is part of the question, as options by name."""
        return {
            **self.target.asked(),
            "prompts": self.prompts.name if self.prompts else None,
            "answer_pattern": self.answer_pattern,
            "axes": self.axis_keys,
            "max_tokens": self.max_tokens,
            "budget": self.budget,
            "need": self.need,
            "detect": self.detect,
            "record": self.record_only,
        }

    @property
    def axis_keys(self) -> tuple[str, ...] | None:
        """Keys of the axes asked for; None: all."""
        if self.axes is None:
            return None
        return tuple(key.strip() for key in self.axes.split(","))


FREE = ("budget", "need", "detect", "prompts")
"""Options that may be others when a record is resumed; its prompts are in the record."""


class NothingAsked(Exception):
    """End a dry run before the first call."""


def run(ask: AuditAsk) -> None:
    """Audit and print; the exit code is the verdict.

    Raises:
        SamebitsError: There is no audit; what was seen before is in the record.
    """
    check_files(ask)
    past = read_past(ask)
    options = make_options(ask, past)
    options.check()
    if ask.answer_pattern is not None:
        compile_pattern(ask.answer_pattern)
    target = make_target(ask.target)
    out = ask.out or find_name()
    try:
        end = carry_out(ask, options, target, out, past)
    except NothingAsked:
        return
    show(ask, out)
    if end.why is Why.INTERRUPTED:
        print("interrupted; the same command with --resume and --out goes on", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED)
    code = report(ask, out).exit_code
    # What is recorded for a comparison has to show no rate by itself.
    raise typer.Exit(0 if ask.record_only and code == EXIT_CANNOT_TELL else code)


def check_files(ask: AuditAsk) -> None:
    """Refuse a price that is none and outputs that cannot be written, before anything is asked."""
    if ask.resume and ask.out is None:
        raise ConfigError(expected="--out RECORD with --resume", found="--resume alone")
    if ask.price is not None and not 0 <= ask.price < math.inf:
        raise ConfigError(expected="--price from 0, and finite", found=str(ask.price))
    if ask.html is not None:
        check_writable(ask.html, "--html")
    if ask.out is not None and not ask.resume:
        check_writable(ask.out, "--out")
        if ask.out.exists():
            raise ConfigError(
                expected="a new file for the record",
                found=f"{ask.out}, which exists",
                remedy="Add --resume to go on with it, or name another file.",
            )


def read_past(ask: AuditAsk) -> AuditRecord | None:
    """Read the record to go on with; None if a new one is begun.

    Raises:
        ConfigError: It was asked something else; names the options.
    """
    if not ask.resume or ask.out is None:
        return None
    past = read_record(ask.out)
    now, then = ask.asked(), dict(past.header.asked)
    now["axes"] = None if now["axes"] is None else list(now["axes"])
    for name in sorted(now.keys() | then.keys()):
        if name not in FREE and now.get(name) != then.get(name):
            raise ConfigError(
                expected=f"--{name.replace('_', '-')} as in {ask.out}: {then.get(name)!r}",
                found=repr(now.get(name)),
                remedy="Ask the same, or begin another record.",
            )
    return past


def make_options(ask: AuditAsk, past: AuditRecord | None) -> AuditOptions:
    """Resolve what is asked of the audit.

    Raises:
        ConfigError: The budget or the prompts cannot be read.
    """
    chosen = load_prompts_file(ask.prompts) if ask.prompts else load_built_in()
    if past is not None:
        chosen = PromptSet(past.header.prompts, chosen.companions)
    return AuditOptions(
        prompts=chosen.prompts,
        companions=chosen.companions,
        nonce=past.header.nonce if past else secrets.token_hex(8),
        axes=ask.axis_keys,
        max_tokens=ask.max_tokens,
        budget=parse_budget(ask.budget) if ask.budget else Budget(),
        detect=ask.detect,
        record_only=ask.record_only,
    )


def find_name() -> Path:
    """Find a name for a new record: audit-1.jsonl, audit-2.jsonl and so on."""
    names = (Path(f"audit-{number}.jsonl") for number in count(1))
    path = next(path for path in names if not path.exists())
    check_writable(path, "--out")
    return path


def carry_out(
    ask: AuditAsk, options: AuditOptions, target: "Target", out: Path, past: AuditRecord | None
) -> End:
    """Run the audit with the record open and progress shown."""
    opened: list[RecordWriter] = []

    def begin(plan: Plan) -> RecordWriter:
        print(f"target: {plan.facts.kind}, {plan.facts.name}", file=sys.stderr)
        tell_estimate(estimate(plan, options), plan, ask.price)
        if len(plan.prompts) < options.fewest_prompts and not ask.record_only:
            print(
                f"note: fewer than {options.fewest_prompts} prompts cannot rule out an effect on "
                f"{options.detect:.0%} of them; without a difference the end is: cannot tell",
                file=sys.stderr,
            )
        if ask.dry_run:
            raise NothingAsked
        machine, now = (
            capture_machine(read_variables()),
            datetime.now(UTC).isoformat("T", "seconds"),
        )
        if past is not None:
            writer = RecordWriter.resume(out, machine=machine, started_at=now)
        else:
            writer = RecordWriter.create(out, make_header(ask, options, plan, machine, now))
        opened.append(writer)
        return writer

    try:
        with show_audit_progress() as tell:
            return run_audit(options, target, begin, tell=tell, past=past)
    except TargetError as error:
        if opened:
            raise TargetError(
                expected=error.expected,
                found=error.found,
                remedy=f"{error.remedy} What was seen is in {out}; --resume goes on.".lstrip(),
            ) from error
        raise
    finally:
        for writer in opened:
            writer.close()


def make_header(ask: AuditAsk, options: AuditOptions, plan: Plan, machine: Any, now: str) -> Header:
    """Make the first line of a record."""
    from importlib.metadata import version

    return Header(
        version=version("samebits"),
        nonce=options.nonce,
        asked=ask.asked(),
        target=plan.facts,
        machine=machine,
        prompts=options.prompts,
        axes=options.axis_keys,
        started_at=now,
    )


def tell_estimate(needs: Estimate, plan: Plan, price: float | None) -> None:
    """Say what the audit takes before it starts."""
    text = (
        f"{needs.axes} axes, {needs.prompts} prompts: {needs.calls} calls, at most "
        f"{needs.tokens} tokens, {needs.sessions} sessions; more where something differs"
    )
    if price is not None:
        text += f". At {price:g} a million tokens: at most {price * needs.tokens / 1e6:.2f}"
    print(text, file=sys.stderr)
    left_out = sorted({item.axis for item in plan.not_tested} - {c.axis for c in plan.contrasts})
    if left_out:
        print(f"not tested here: {', '.join(left_out)}", file=sys.stderr)


@contextmanager
def show_audit_progress() -> Iterator[Callable[[Progress], None]]:
    """Show how far an audit is, where a person watches."""
    with show_progress("opening the target", has_clock=True) as show_share:

        def tell(progress: Progress) -> None:
            left = spell_left(progress.seconds_left)
            label = f"{progress.done}/{progress.total} {progress.label}{left}"
            show_share(progress.done / max(1, progress.total), label)

        yield tell


def spell_left(seconds: float | None) -> str:
    """Spell the time left."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return f", {minutes}:{rest:02d} left"


def show(ask: AuditAsk, out: Path) -> None:
    """Say where the record is."""
    print(f"record: {out}", file=sys.stderr)
    if ask.html is not None:
        print(f"report: {ask.html}", file=sys.stderr)


def report(ask: AuditAsk, out: Path) -> "Analysis":
    """Analyse the record and print what it says."""
    from samebits.audit.analyse import analyse
    from samebits.cli.reporting import put_report
    from samebits.report.audit_document import make_document
    from samebits.report.in_json import report_json

    analysis = analyse(read_record(out), need=ask.need)
    document = make_document(analysis, ask.language)

    def make_json() -> str:
        return report_json(analysis)

    if ask.html is not None:
        put_report(document, make_json, FormatName.HTML, ask.html)
    put_report(document, make_json, FormatName.JSON if ask.as_json else None, None)
    return analysis
