"""The command line: one short file for each verb.

Parses, builds, calls and prints; it alone reads environment variables.
Exit codes: 0 done; 1 verify found other bits; 2 bad input, or an output that takes nothing; 70 a
bug of ours; 130 interrupted; 141 the reader of our output went away.
"""

import sys
from collections.abc import Sequence
from typing import NoReturn

from samebits.errors import ConfigError, InvariantBroken, SamebitsError

EXIT_BAD_INPUT = 2
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
EXIT_PIPE_CLOSED = 141


def main() -> NoReturn:
    """Run the command line of this process and exit with its code."""
    try:
        from samebits.cli.streams import prepare_streams

        prepare_streams()
        code = run_line(sys.argv[1:])
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    sys.exit(code)


def run_line(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; nothing but exit codes leaves here."""
    if sys.stdout is None:
        return _refuse("cannot write the output: standard output is closed")
    try:
        from samebits.cli.app import app

        app(args=list(arguments), prog_name="samebits")
    except SystemExit as end:
        # typer turns a closed pipe into exit code 1, which here means "other bits".
        closed = isinstance(end.__context__, BrokenPipeError)
        code = EXIT_PIPE_CLOSED if closed else _as_code(end.code)
    except KeyboardInterrupt:
        # Where typer does not see it: while modules are imported.
        code = EXIT_INTERRUPTED
    except InvariantBroken as error:
        code = _report_bug(error, debug="--debug" in arguments)
    except SamebitsError as error:
        code = _refuse(str(error))
    except OSError as error:
        code = _report_system(error, debug="--debug" in arguments)
    except ImportError as error:
        code = _report_import(error, debug="--debug" in arguments)
    except BaseException as error:
        # Not Exception alone: a panic in the tokenizer's Rust code is no Exception.
        code = _report_bug(error, debug="--debug" in arguments)
    else:
        code = 0
    return _flush(code)


def _as_code(code: object) -> int:
    return code if isinstance(code, int) else int(code is not None)


def _refuse(text: str) -> int:
    print(f"samebits: {_show(text)}", file=sys.stderr)
    return EXIT_BAD_INPUT


def _show(text: str) -> str:
    """Spell out what would steer a terminal: servers and files have their say in an error."""
    from samebits.report.visible import show_character

    return "".join(c if c == "\n" else show_character(c) for c in text)


def _report_system(error: OSError, *, debug: bool) -> int:
    """Tell a file or an output that the system refuses from a bug."""
    import errno

    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
    if error.filename is not None:
        return _refuse(f"{error.filename}: {error.strerror}")
    if error.errno in full:
        return _refuse_output(error)
    return _report_bug(error, debug=debug)


def _report_import(error: ImportError, *, debug: bool) -> int:
    """Tell an environment in which NumPy does not start from a bug."""
    from samebits.cli.environment import check_numpy

    try:
        check_numpy()
    except ConfigError as refusal:
        return _refuse(str(refusal))
    return _report_bug(error, debug=debug)


def _refuse_output(error: OSError) -> int:
    from samebits.cli.streams import discard_output

    discard_output()
    return _refuse(f"cannot write the output: {error.strerror or error}")


def _report_bug(error: BaseException, *, debug: bool) -> int:
    text = " ".join(str(error).split()) or "no message"
    print(f"samebits: unexpected {type(error).__name__}: {_show(text)}", file=sys.stderr)
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
    except OSError as error:
        return _refuse_output(error)
    if code == EXIT_PIPE_CLOSED:
        from samebits.cli.streams import discard_output

        discard_output()
    return code
