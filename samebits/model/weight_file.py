"""A file read at stated positions, never mapped.

Positioned reads keep weights out of the resident set and turn a file that shrinks while it is read
into an error instead of a signal: docs/decisions/0002-positioned-reads.md.
"""

import hashlib
import os
import stat
import weakref
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ModelFileError

_CHUNK_BYTES = 1 << 20
# Linux moves at most 0x7ffff000 bytes in one call.
_READ_BYTES = 1 << 30


class WeightFile:
    """Read ranges of one regular file.

    Attributes:
        path: Where it lies.
        size: Length in bytes when it was opened.
    """

    __slots__ = ("__weakref__", "_digest", "_fd", "path", "size")

    def __init__(self, path: Path) -> None:
        """Open the file; it closes when the object goes.

        Raises:
            ModelFileError: There is no regular file, or it may not be read.
        """
        self.path = path
        self._digest: str | None = None
        try:
            info = path.stat()
            if not stat.S_ISREG(info.st_mode):
                raise ModelFileError(expected=f"a regular file at {path}", found="something else")
            self._fd = os.open(path, os.O_RDONLY)
        except OSError as error:
            reason = error.strerror or "an error of the system"
            raise ModelFileError(expected=f"a readable file at {path}", found=reason) from error
        weakref.finalize(self, os.close, self._fd)
        self.size = os.fstat(self._fd).st_size

    def read(self, start: int, num_bytes: int) -> NDArray[np.uint8]:
        """Read exactly num_bytes bytes from start on, shape (num_bytes,), read-only.

        Raises:
            ModelFileError: The file ends before, or the disk fails.
        """
        parts: list[bytes] = []
        done = 0
        while done < num_bytes:
            part = self._read_once(start + done, min(num_bytes - done, _READ_BYTES))
            if not part:
                raise ModelFileError(
                    expected=f"{num_bytes} bytes at {start} of {self.path}",
                    found=f"{done}: the file is cut off",
                    remedy="Fetch the file again.",
                )
            parts.append(part)
            done += len(part)
        return np.frombuffer(parts[0] if len(parts) == 1 else b"".join(parts), dtype=np.uint8)

    def sha256(self) -> str:
        """Digest the whole file once: "sha256:" and 64 hexadecimal digits."""
        if self._digest is None:
            digest = hashlib.sha256()
            for start in range(0, self.size, _CHUNK_BYTES):
                digest.update(self.read(start, min(_CHUNK_BYTES, self.size - start)).data)
            self._digest = f"sha256:{digest.hexdigest()}"
        return self._digest

    def _read_once(self, start: int, num_bytes: int) -> bytes:
        try:
            return os.pread(self._fd, num_bytes, start)
        except OSError as error:
            reason = error.strerror or "an error of the system"
            raise ModelFileError(expected=f"readable bytes in {self.path}", found=reason) from error
