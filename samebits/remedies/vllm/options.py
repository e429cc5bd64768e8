"""What the operator of a server sets: `vllm serve --additional-config '{"samebits": {...}}'`."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from samebits.errors import ConfigError

KEY = "samebits"
MAX_THREADS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Settings of the guard in one worker; no request reaches them."""

    report: Path | None = None
    """File that gets a JSON line for each guarded request; None: only vLLM's log has one."""
    threads: int = 1
    """Of our engine, which shares the worker's processors."""


def read_options(additional: Any) -> Options:
    """Read our part of vLLM's additional_config.

    Raises:
        ConfigError: An option nobody reads, or a value that is none.
    """
    given = additional.get(KEY, {}) if isinstance(additional, Mapping) else {}
    if not isinstance(given, Mapping):
        raise ConfigError(expected=f"additional_config[{KEY!r}]: an object", found=repr(given))
    known = [f.name for f in fields(Options)]
    if unknown := sorted(set(given) - set(known)):
        raise ConfigError(expected=f"{KEY} options {', '.join(known)}", found=", ".join(unknown))
    return Options(
        report=read_report(given.get("report")), threads=read_threads(given.get("threads", 1))
    )


def read_report(value: Any) -> Path | None:
    """Read the path of the report, and make sure that it can be appended to."""
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise ConfigError(expected=f"{KEY} report: a path", found=repr(value))
    try:
        Path(value).open("a").close()
    except OSError as error:
        found = f"{value}: {error.strerror}"
        raise ConfigError(expected=f"{KEY} report: a file to append to", found=found) from error
    return Path(value)


def read_threads(value: Any) -> int:
    """Read a number of threads."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_THREADS:
        raise ConfigError(expected=f"{KEY} threads from 1 to {MAX_THREADS}", found=repr(value))
    return value
