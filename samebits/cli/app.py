"""The verbs and what all of them share.

Imports nothing heavy: each verb imports what it needs when it runs, so that help is quick.
"""

from typing import Annotated

import typer

from samebits.cli.advise import advise
from samebits.cli.audit import audit
from samebits.cli.cache import app as cache_app
from samebits.cli.compare import compare
from samebits.cli.demo import demo
from samebits.cli.flags import flags
from samebits.cli.generate import generate
from samebits.cli.lock import app as lock_app
from samebits.cli.pull import pull
from samebits.cli.report import report
from samebits.cli.run import run
from samebits.cli.verify import verify

VERBS = (demo, audit, compare, report, advise, generate, verify, pull, flags, run)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"samebits {version('samebits')}")
        raise typer.Exit


def share_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Print the trace of an unexpected error.")
    ] = False,
) -> None:
    """Run language models so that the same prompt gives the same bits. First: samebits demo."""


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    # Plain help needs no rich: it comes in half the time, and is the same everywhere.
    rich_markup_mode=None,
)
app.callback()(share_options)
for _verb in VERBS:
    # What follows the command that samebits run is given belongs to that command.
    app.command(context_settings={"allow_interspersed_args": _verb is not run})(_verb)
app.add_typer(lock_app, name="lock")
app.add_typer(cache_app, name="cache")
