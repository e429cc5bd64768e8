"""The command line: one short file for each verb.

Parses, builds, calls and prints; it alone reads environment variables.
Exit codes: 0 done; 1 verify found other bits; 2 bad input; 70 a bug of ours; 130 interrupted;
141 the reader of our output went away.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from samebits.errors import InvariantBroken, SamebitsError

EXIT_BAD_INPUT = 2
EXIT_BUG = 70
EXIT_PIPE_CLOSED = 141


def main() -> NoReturn:
    """Run the command line of this process and exit with its code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing but exit codes leaves here."""
    from samebits.cli.app import app

    try:
        app(args=list(arguments), prog_name="samebits")
    except SystemExit as end:
        # typer turns a closed pipe into exit code 1, which here means "other bits".
        closed = isinstance(end.__context__, BrokenPipeError)
        code = EXIT_PIPE_CLOSED if closed else _as_code(end.code)
    except InvariantBroken as error:
        code = _report_bug(error, debug="--debug" in arguments)
    except SamebitsError as error:
        print(f"samebits: {error}", file=sys.stderr)
        code = EXIT_BAD_INPUT
    except Exception as error:
        code = _report_bug(error, debug="--debug" in arguments)
    else:
        code = 0
    return _flush(code)


def _as_code(code: object) -> int:
    return code if isinstance(code, int) else int(code is not None)


def _report_bug(error: Exception, *, debug: bool) -> int:
    text = " ".join(str(error).split()) or "no message"
    print(f"samebits: unexpected {type(error).__name__}: {text}", file=sys.stderr)
    if debug:
        import traceback

        traceback.print_exception(error)
    else:
        print(
            "This is a bug, please report it. For the trace: samebits --debug VERB ...",
            file=sys.stderr,
        )
    return EXIT_BUG


def _flush(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = EXIT_PIPE_CLOSED
    if code == EXIT_PIPE_CLOSED:
        # Python flushes once more at exit and would complain about the same pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code
