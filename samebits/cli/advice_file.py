"""The file of an advice while a run holds it: no other process goes on with it meanwhile.

The file is replaced whole, so that the hold goes over to each new one before it takes the name.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Self

from samebits.advise.record import AdviceRecord, read_advice, write_advice
from samebits.cli.output_file import write_atomically
from samebits.record.own_file import create_file, hold, open_file, refuse_held


class AdviceFile:
    """A record that is replaced by later ones. Close it, or use it as a context manager."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self.file = file

    @classmethod
    def create(cls, path: Path, record: AdviceRecord) -> Self:
        """Begin a file with a record.

        Raises:
            ConfigError: Something of that name exists, or the file system refuses; nothing is left.
        """
        opened = cls(path, create_file(path))
        try:
            hold(opened.file, path)
            opened.write(record)
        except BaseException:
            opened.close()
            path.unlink(missing_ok=True)
            raise
        return opened

    @classmethod
    def resume(cls, path: Path) -> Self:
        """Take a file that is there, before it is read.

        Raises:
            ConfigError: Another process is writing it, or it cannot be opened.
        """
        opened = cls(path, open_file(path))
        try:
            hold(opened.file, path)
            # Who held it may have put another file in its place since it was opened.
            if not os.path.samestat(os.fstat(opened.file), path.stat()):
                raise refuse_held(path)
        except BaseException:
            opened.close()
            raise
        return opened

    def read(self) -> AdviceRecord:
        """Read the record.

        Raises:
            RecordCorrupt: It is damaged, or none.
        """
        return read_advice(self.path.read_bytes(), str(self.path))

    def write(self, record: AdviceRecord) -> None:
        """Put a record in the place of the one before.

        Raises:
            ConfigError: The file system refuses; the one before is kept.
        """
        held: list[int] = []

        def take(file: int) -> None:
            hold(file, self.path)
            # A hold ends with the last descriptor of what was opened; the writer closes its own.
            held.append(os.dup(file))

        try:
            write_atomically(self.path, write_advice(record), take)
        except BaseException:
            for file in held:
                os.close(file)
            raise
        before, [self.file] = self.file, held
        os.close(before)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
