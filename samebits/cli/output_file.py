"""Files that a verb writes: checked before the work starts, complete or not there at all."""

import os
import tempfile
from pathlib import Path

from samebits.errors import ConfigError


def check_writable(path: Path, option: str) -> None:
    """Refuse a path that cannot become a file, before anything is computed.

    Raises:
        ConfigError: It is a folder, or its folder is missing or closed to us.
    """
    folder = path.absolute().parent
    if path.is_dir():
        found = f"{path} is a folder"
    elif not folder.is_dir():
        found = f"no folder {folder}"
    elif not os.access(folder, os.W_OK | os.X_OK):
        found = f"no right to write in {folder}"
    else:
        return
    raise ConfigError(
        expected=f"{option} to name a file that can be written",
        found=found,
        remedy="Name another file.",
    )


def write_atomically(path: Path, text: str) -> None:
    """Write UTF-8 text so that a reader finds the old file or the whole new one.

    Raises:
        ConfigError: The file system refuses.
    """
    try:
        handle, scratch = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            # mkstemp gives 0600; a receipt is for showing.
            os.chmod(scratch, 0o666 & ~_read_umask())
            os.replace(scratch, path)
        except BaseException:
            os.unlink(scratch)
            raise
    except OSError as error:
        raise ConfigError(
            expected=f"{path} to be written", found=error.strerror or str(error)
        ) from error


def _read_umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
