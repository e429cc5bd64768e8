"""Fetches the files of a model repository over HTTPS, the way the Hugging Face hub serves them.

Every file belongs to one commit. A file that was cut off is continued where it ended; a finished
one has its final name in the folder. No account and no token: gated models are refused by the hub.
"""

import hashlib
import http.client
import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from samebits.errors import ModelFileError
from samebits.model.json_file import parse_json

HUB_URL = "https://huggingface.co"

Progress = Callable[[int, int | None], None]
"""Told bytes done and bytes in all; None while that is unknown."""

_TIMEOUT_S = 60.0
_COPY_BYTES = 1 << 20
_LISTING_LIMIT_BYTES = 64 << 20
_SMALL_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
_COMMIT_FILE = ".commit"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """One file of a repository, as its listing describes it."""

    name: str
    size: int
    """Bytes."""
    sha256: str | None
    """Hexadecimal; only large files have one."""


def fetch_repository(
    repository: str, folder: Path, progress: Progress | None, *, base_url: str = HUB_URL
) -> None:
    """Fetch what a model needs of a repository into a folder, continuing what lies there.

    Raises:
        ModelFileError: No network, no such repository, no safetensors, or a file that is not
            what the listing says.
    """
    listing = _read_listing(f"{base_url}/api/models/{repository}?blobs=true")
    commit, files = _choose_files(listing, repository)
    try:
        _begin_commit(folder, commit)
        total = sum(file.size for file in files)
        done = 0
        for file in files:
            url = f"{base_url}/{repository}/resolve/{commit}/{urllib.parse.quote(file.name)}"
            done = _fetch_file(url, file, folder, _shifted(progress, done, total))
        (folder / _COMMIT_FILE).rename(folder / "commit")
    except (urllib.error.URLError, http.client.HTTPException, TimeoutError) as error:
        raise _unreachable(base_url, error) from error
    except OSError as error:
        reason = error.strerror or "an error of the system"
        raise ModelFileError(expected=f"to write to {folder}", found=reason) from error


def _shifted(progress: Progress | None, done_before: int, total: int) -> Callable[[int], int]:
    """Count a file's bytes on top of those of the files before it."""

    def tell(done: int) -> int:
        if progress is not None:
            progress(done_before + done, total)
        return done_before + done

    return tell


def _read_listing(url: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return parse_json(answer.read(_LISTING_LIMIT_BYTES), url)
    except (http.client.HTTPException, OSError) as error:
        raise _unreachable(url, error) from error


def _choose_files(listing: dict[str, Any], repository: str) -> tuple[str, list[RemoteFile]]:
    """Pick the files needed, and the commit they belong to."""
    commit, siblings = listing.get("sha"), listing.get("siblings")
    if not isinstance(commit, str) or not commit.isalnum() or not isinstance(siblings, list):
        raise ModelFileError(
            expected=f"a commit and a list of files for {repository}", found=f"{listing!r:.200}"
        )
    remote = [_remote_file(entry) for entry in siblings if isinstance(entry, dict)]
    is_single = any(file.name == "model.safetensors" for file in remote)
    chosen = [file for file in remote if _is_needed(file.name, is_single)]
    if not any(file.name.endswith(".safetensors") for file in chosen):
        raise ModelFileError(
            expected=f"safetensors files in {repository}",
            found=f"{len(remote)} files of other kinds",
        )
    return commit, sorted(chosen, key=lambda file: file.name)


def _remote_file(entry: dict[str, Any]) -> RemoteFile:
    size, large = entry.get("size"), entry.get("lfs")
    name = str(entry.get("rfilename"))
    if type(size) is not int or size < 0:
        raise ModelFileError(expected=f"a size for {name!r} in the listing", found=repr(size))
    sha256 = large.get("sha256") if isinstance(large, dict) else None
    return RemoteFile(
        name=name,
        size=size,
        sha256=sha256 if isinstance(sha256, str) else None,
    )


def _is_needed(name: str, is_single: bool) -> bool:
    if name in _SMALL_FILES:
        return True
    if is_single:
        return name == "model.safetensors"
    is_plain = name == Path(name).name and name.startswith("model")
    return is_plain and name.endswith((".safetensors", ".safetensors.index.json"))


def _begin_commit(folder: Path, commit: str) -> None:
    """Forget files of another commit that an earlier try left."""
    marker = folder / _COMMIT_FILE
    if not marker.exists() or marker.read_text() != commit:
        for old in folder.iterdir():
            old.unlink()
        marker.write_text(commit)


def _fetch_file(url: str, file: RemoteFile, folder: Path, tell: Callable[[int], int]) -> int:
    final, part = folder / file.name, folder / f"{file.name}.part"
    if not final.exists():
        _continue_part(url, file, part, tell)
        _check_part(file, part)
        part.rename(final)
    return tell(final.stat().st_size)


def _continue_part(url: str, file: RemoteFile, part: Path, tell: Callable[[int], int]) -> None:
    """Append what is missing; begin anew where the server does not continue."""
    have = part.stat().st_size if part.exists() else 0
    if have and have == file.size:
        return
    headers = {"Range": f"bytes={have}-"} if have else {}
    try:
        answer = urllib.request.urlopen(
            urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S
        )
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        part.unlink()
        _continue_part(url, file, part, tell)
        return
    with answer:
        continues = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        with part.open("ab" if continues else "wb") as out:
            _copy(answer, out, tell)


def _copy(source: IO[bytes], out: IO[bytes], tell: Callable[[int], int]) -> None:
    while chunk := source.read(_COPY_BYTES):
        out.write(chunk)
        tell(out.tell())
    out.flush()
    os.fsync(out.fileno())


def _check_part(file: RemoteFile, part: Path) -> None:
    """Check size and digest; a part that is too short stays, to be continued."""
    size = part.stat().st_size
    if size < file.size:
        raise ModelFileError(
            expected=f"{file.size} bytes of {file.name}",
            found=f"{size}: the connection broke",
            remedy="Pull again: it goes on where it ended.",
        )
    found = _sha256(part) if file.sha256 else None
    if size != file.size or found != file.sha256:
        part.unlink()
        raise ModelFileError(
            expected=f"{file.name} of {file.size} bytes with SHA-256 {file.sha256}",
            found=f"{size} bytes with {found}",
            remedy="Pull again.",
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _unreachable(url: str, error: Exception) -> ModelFileError:
    if isinstance(error, urllib.error.HTTPError):
        hint = {401: " (it may be gated)", 403: " (it may be gated)", 404: " (no such model)"}
        found = f"HTTP status {error.code}{hint.get(error.code, '')}"
    else:
        found = str(getattr(error, "reason", error)) or type(error).__name__
    return ModelFileError(
        expected=f"an answer from {url}",
        found=found,
        remedy="Is there a network? A path to files of your own works without one.",
    )
