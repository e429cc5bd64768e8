"""The three standard streams, any of which may be closed or full."""

import io
import os
import sys
from collections.abc import Iterable


class LossyFile(io.FileIO):
    """A file whose writes never fail: what it cannot take is lost."""

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # type: ignore[override]
        """Write what can be written and report all of it as written."""
        try:
            written = super().write(data)
        except OSError:
            written = None
        return len(data) if written is None else written


def prepare_streams() -> None:
    """Make notes on standard error unable to end the run, and keep closed descriptors taken.

    A verdict is an exit code; it must not change because nobody can read the notes.
    """
    # A file opened later would get the free number, and receive what is meant for the stream.
    _occupy(n for n, stream in enumerate((sys.stdin, sys.stdout, sys.stderr)) if stream is None)
    raw = LossyFile(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=getattr(sys.stderr, "encoding", "utf-8"),
        errors="backslashreplace",
        line_buffering=True,
    )


def discard_output() -> None:
    """Send what standard output still holds nowhere; Python flushes once more at exit."""
    _occupy([1])


def _occupy(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        nowhere = os.open(os.devnull, os.O_RDWR)
        if nowhere != descriptor:
            os.dup2(nowhere, descriptor)
            os.close(nowhere)
