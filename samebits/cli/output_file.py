"""Files that a verb writes: checked before the work starts, complete or not there at all."""

import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from samebits.errors import ConfigError


def check_writable(path: Path, option: str) -> None:
    """Refuse a path that cannot become a file, before anything is computed.

    Raises:
        ConfigError: Something other than a file is there, or its folder is missing or closed to us.
    """
    found = _find_obstacle(path)
    if found:
        raise ConfigError(
            expected=f"{option} to name a file that can be written",
            found=found,
            remedy="Name another file.",
        )


def _find_obstacle(path: Path) -> str:
    folder = _follow_links(path).parent
    try:
        # Renaming a file over a device or a pipe would destroy it for everybody.
        if not stat.S_ISREG(path.stat().st_mode):
            return f"{path} is a folder" if path.is_dir() else f"{path} is no regular file"
    except FileNotFoundError:
        pass
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if not folder.is_dir():
        return f"no folder {folder}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"no right to write in {folder}"


def _follow_links(path: Path) -> Path:
    # Not Path.resolve, which raises on a loop of links under Python 3.11 alone.
    return Path(os.path.realpath(path))


def write_atomically(path: Path, text: str, take: Callable[[int], None] | None = None) -> None:
    """Write UTF-8 text so that a reader finds the old file or the whole new one.

    A link stays a link: its target is written.

    Args:
        take: Called with the descriptor of the new file before it takes the name.
    Raises:
        ConfigError: The file system refuses.
    """
    target = _follow_links(path)
    try:
        # Not named after the file: its name may be as long as names can be.
        handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=".samebits.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                if take is not None:
                    take(file.fileno())
            # mkstemp gives 0600; a receipt is for showing.
            os.chmod(scratch, 0o666 & ~_read_umask())
            os.replace(scratch, target)
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
