"""JSON objects from files of strangers."""

import json
import re
from pathlib import Path
from stat import S_ISREG
from typing import Any

from samebits.errors import ModelFileError

_LIMIT_BYTES = 256 << 20
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object.

    Raises:
        ModelFileError: There is no such file, it is too long, or not an object in UTF-8.
    """
    return parse_json(read_text_bytes(path), str(path))


def read_text_bytes(path: Path) -> bytes:
    """Read a file of at most 256 MB whole.

    Raises:
        ModelFileError: There is no such file, or it is too long.
    """
    try:
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise ModelFileError(expected=f"a regular file at {path}", found="something else")
        size = status.st_size
        if size > _LIMIT_BYTES:
            raise ModelFileError(
                expected=f"at most {_LIMIT_BYTES} bytes in {path}", found=str(size)
            )
        return path.read_bytes()
    except OSError as error:
        reason = error.strerror or "an error of the system"
        raise ModelFileError(expected=f"a readable file at {path}", found=reason) from error


def parse_json(raw: bytes, where: str) -> dict[str, Any]:
    """Parse one JSON object whose keys differ and whose texts UTF-8 can carry.

    Raises:
        ModelFileError: It is something else; says where it goes wrong.
    """
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_as_object)
        if _SURROGATE.search(raw):
            # A half of a pair has no UTF-8: not even an error could print it.
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ModelFileError(expected=f"JSON in {where}", found=f"{error!s:.200}") from error
    if not isinstance(value, dict):
        raise ModelFileError(expected=f"a JSON object in {where}", found=type(value).__name__)
    return value


def _as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} twice in one object")
    return value
