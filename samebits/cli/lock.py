"""samebits lock: capture an environment, verify it, compare two, ask servers for theirs."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samebits.cli.names import LanguageName, LanguageOption

if TYPE_CHECKING:
    from samebits.lock import Lock
    from samebits.report.blocks import Document

EXIT_OTHER = 1
ModelOption = Annotated[
    Path | None,
    typer.Option(metavar="PATH", help="A GGUF file or a Hugging Face folder to digest as well."),
]
FlagsOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE|FILE",
        help="Engine settings after its defaults; a FILE holds JSON. Once for each.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(min=1, help="Threads the engine is asked to use. Sets nothing: it is checked."),
]
PythonOption = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="The Python that the engine runs in; this one if not given."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LockArgument = Annotated[
    Path, typer.Argument(help="Written by samebits lock --out.", show_default=False)
]

app = typer.Typer(
    invoke_without_command=True, rich_markup_mode=None, context_settings={"max_content_width": 100}
)


@app.callback()
def lock(
    context: typer.Context,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the lock file here.")
    ] = None,
    model: ModelOption = None,
    engine_flags: FlagsOption = None,
    threads: ThreadsOption = None,
    python: PythonOption = None,
    as_json: JsonOption = False,
    language: LanguageOption = LanguageName.EN,
) -> None:
    """Capture the environment: machine, packages, libraries, model, and a numeric probe.

    Exit code 0: captured; 1: captured, but something asked is not in force, named.
    """
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    from samebits.cli.output_file import check_writable, write_atomically
    from samebits.lock import find_ignored, write_lock
    from samebits.report.lock_document import make_lock_report

    if out is not None:
        check_writable(out, "--out")
    captured = capture(model, engine_flags or [], threads, python)
    ignored = find_ignored(captured)
    if out is not None:
        write_atomically(out, write_lock(captured))
    put(
        make_lock_report(captured, ignored, language.value),
        write_lock(captured) if as_json else None,
    )
    raise typer.Exit(EXIT_OTHER if ignored else 0)


def refuse_options(context: typer.Context) -> None:
    """Refuse options before the name of a verb below, where nobody would read them.

    Raises:
        ConfigError: There are some.
    """
    from samebits.errors import ConfigError

    given = [name for name, value in context.params.items() if is_given(context, name, value)]
    if given:
        raise ConfigError(
            expected=f"options after the word {context.invoked_subcommand}",
            found=", ".join(f"--{name.replace('_', '-')}" for name in given),
        )


def is_given(context: typer.Context, name: str, value: object) -> bool:
    """Answer whether an option was given on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE" and value is not None


@app.command()
def verify(
    file: LockArgument,
    model: ModelOption = None,
    engine_flags: FlagsOption = None,
    threads: ThreadsOption = None,
    python: PythonOption = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(
            "--except",
            metavar="FIELD",
            help="A difference that does not count, such as git or kernel. Once for each.",
        ),
    ] = None,
    as_json: JsonOption = False,
    language: LanguageOption = LanguageName.EN,
) -> None:
    """Compare this environment with a lock.

    Exit code 0: the same; 1: differences, each named with what it can change; 2: the file is no
    lock, or was edited.
    """
    from samebits.lock import compare_locks, find_ignored, read_lock
    from samebits.lock.verify import is_excepted
    from samebits.report.in_json import differences_json
    from samebits.report.lock_document import make_lock_comparison

    locked = read_lock(file)
    check_covered(locked, model, engine_flags)
    now = capture(model, engine_flags or [], threads or locked.threads, python)
    names = leave_out or []
    every, ignored = compare_locks(locked, now), find_ignored(now)
    excepted = [item for item in (*ignored, *every) if is_excepted(item, names)]
    found = [item for item in every if not is_excepted(item, names)]
    ignored = tuple(item for item in ignored if not is_excepted(item, names))
    document = make_lock_comparison(
        "verify", found, language.value, ignored=ignored, excepted=excepted
    )
    put(document, differences_json(found, ignored, excepted) if as_json else None)
    raise typer.Exit(EXIT_OTHER if found or ignored else 0)


def check_covered(locked: "Lock", model: Path | None, engine_flags: list[str] | None) -> None:
    """Refuse to verify a part that nothing was given for.

    Raises:
        ConfigError: The lock covers a model or settings, and they are not given.
    """
    from samebits.errors import ConfigError

    parts = (
        ("--model", locked.model is not None and model is None, "digests of a model"),
        ("--engine-flags", locked.flags is not None and not engine_flags, "engine settings"),
    )
    for option, is_missing, what in parts:
        if is_missing:
            raise ConfigError(
                expected=f"{option}, since the lock holds {what}",
                found="none",
                remedy="Without it that part would go unchecked.",
            )


@app.command()
def diff(
    a: LockArgument,
    b: LockArgument,
    as_json: JsonOption = False,
    language: LanguageOption = LanguageName.EN,
) -> None:
    """Compare two lock files. Exit code 0: the same; 1: differences; 2: one is no lock."""
    from samebits.lock import compare_locks, read_lock
    from samebits.report.in_json import differences_json
    from samebits.report.lock_document import make_lock_comparison

    found = compare_locks(read_lock(a), read_lock(b))
    document = make_lock_comparison("diff", found, language.value)
    put(document, differences_json(found) if as_json else None)
    raise typer.Exit(EXIT_OTHER if found else 0)


@app.command()
def fleet(
    urls: Annotated[
        list[str], typer.Argument(metavar="URL URL...", help="Servers.", show_default=False)
    ],
    api_key_env: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Variable that holds the key, sent to each server."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for each answer.")] = 20.0,
    as_json: JsonOption = False,
    language: LanguageOption = LanguageName.EN,
) -> None:
    """Ask servers what they are and name what differs. Generates nothing.

    Exit code 0: alike; 1: differences; 2: one of them cannot be asked.
    """
    from samebits.audit.fleet import ask_fleet, compare_fleet
    from samebits.audit.targets.http_client import Link
    from samebits.report.in_json import differences_json
    from samebits.report.lock_document import make_lock_comparison

    link = Link(api_key=find_key(api_key_env), timeout_s=timeout, retries=1)
    found = compare_fleet(ask_fleet(urls, link))
    document = make_lock_comparison("fleet", found, language.value)
    put(document, differences_json(found) if as_json else None)
    raise typer.Exit(EXIT_OTHER if found else 0)


def find_key(name: str | None) -> str | None:
    """Give the key from the variable named.

    Raises:
        ConfigError: It is not set.
    """
    from samebits.cli.environment import read_key
    from samebits.errors import ConfigError

    key = None if name is None else read_key(name)
    if name is not None and key is None:
        raise ConfigError(expected="--api-key-env to name a variable that is set", found="one not")
    return key


def capture(
    model: Path | None, engine_flags: list[str], threads: int | None, python: str | None
) -> "Lock":
    """Capture the environment, with progress where a person watches."""
    from samebits.cli.environment import read_variables
    from samebits.cli.progress import show_progress
    from samebits.lock import capture_lock, read_flags

    flags = read_flags(engine_flags)
    variables: Mapping[str, str] = read_variables()
    with show_progress("capturing") as tell:
        digests = None
        if model is not None:
            from samebits.model.digests import digest_model

            digests = digest_model(model, tell)
        return capture_lock(
            variables,
            python=python,
            threads=threads,
            model=digests,
            flags=flags,
            progress=tell,
        )


def put(document: "Document", as_json: str | None) -> None:
    """Print a report, or the JSON given."""
    from samebits.cli.reporting import draw_on_terminal
    from samebits.report.in_terminal import write_text

    if as_json is not None:
        sys.stdout.write(as_json)
    elif not draw_on_terminal(document):
        sys.stdout.write(write_text(document))
