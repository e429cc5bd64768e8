"""Files that one process writes at a time: made or opened, and held until they are closed.

The hold is the system's: it ends with the process that has it, however that ends.
"""

import errno
import fcntl
import os
import stat
from pathlib import Path

from samebits.errors import ConfigError

MODE = 0o666
"""Less the umask: a record is for showing."""


def create_file(path: Path) -> int:
    """Make a new file.

    Raises:
        ConfigError: The name is taken, or the file system refuses.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, MODE)
    except FileExistsError as error:
        raise ConfigError(
            expected="a new file for the record",
            found=f"{path}, which exists",
            remedy="Resume it, or name another file.",
        ) from error
    except (OSError, ValueError) as error:
        raise ConfigError(expected=f"{path} to be written", found=spell_error(error)) from error


def open_file(path: Path) -> int:
    """Open a record to go on with it.

    Raises:
        ConfigError: It is no regular file, or the file system refuses.
    """
    try:
        file = os.open(path, os.O_RDWR)
    except (OSError, ValueError) as error:
        raise ConfigError(
            expected="a record to resume", found=f"{path}: {spell_error(error)}"
        ) from error
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise ConfigError(expected="a record to resume", found=f"{path}, no regular file")
    return file


def spell_error(error: OSError | ValueError) -> str:
    """Say what the file system said."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def hold(file: int, path: Path) -> None:
    """Keep other processes from holding the file until it is closed.

    Raises:
        ConfigError: One holds it, or the file system has no locks.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN):
            raise refuse_held(path) from error
        raise refuse(path, spell_error(error)) from error


def refuse_held(path: Path) -> ConfigError:
    """Make the error for a file that another process holds."""
    return refuse(path, "another process that is writing it")


def refuse(path: Path, found: str) -> ConfigError:
    """Make the error for a file that cannot be held."""
    return ConfigError(
        expected=f"{path} to be ours to write",
        found=found,
        remedy="Wait for it, or name another file.",
    )
