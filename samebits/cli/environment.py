"""The one place that reads environment variables.

A library user sets nothing here: every value also has an argument. An empty variable counts as
unset. A SAMEBITS_ variable nobody reads is refused, since a misspelt cap would be no cap.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import ConfigError

ISA_LEVELS = ("avx512vnni", "avx512", "avx2", "generic")
"""What SAMEBITS_MAX_ISA may name, best first."""
_PREFIX = "SAMEBITS_"
_KNOWN = ("SAMEBITS_CACHE_DIR", "SAMEBITS_MAX_ISA")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the environment asks for."""

    max_isa: str | None
    """Highest instruction-set level the native kernels may use; None: no cap."""
    cache_dir: Path
    """Folder of pulled models; need not exist."""


def read_environment(variables: Mapping[str, str] = os.environ) -> Environment:
    """Resolve the variables that samebits knows.

    Raises:
        ConfigError: An unknown SAMEBITS_ variable, or a value that is not possible.
    """
    _check_names(variables)
    return Environment(max_isa=_read_max_isa(variables), cache_dir=_read_cache_dir(variables))


def read_variables() -> Mapping[str, str]:
    """Give all variables as they are now: what a child process starts from."""
    return dict(os.environ)


def read_key(name: str, variables: Mapping[str, str] = os.environ) -> str | None:
    """Give an API key from the variable of that name; None if it is not set or empty."""
    return variables.get(name) or None


def check_numpy(variables: Mapping[str, str] = os.environ) -> None:
    """Refuse the two variables that together keep NumPy from being imported.

    Raises:
        ConfigError: Both are set.
    """
    names = ("NPY_DISABLE_CPU_FEATURES", "NPY_ENABLE_CPU_FEATURES")
    if all(variables.get(name) for name in names):
        raise ConfigError(
            expected=f"one of {' and '.join(names)}",
            found="both, with which NumPy does not start",
            remedy="Unset one of them.",
        )


def _check_names(variables: Mapping[str, str]) -> None:
    unknown = sorted(x for x in variables if x.startswith(_PREFIX) and x not in _KNOWN)
    if unknown:
        raise ConfigError(
            expected=f"no other {_PREFIX} variables than {' and '.join(_KNOWN)}",
            found=", ".join(unknown),
            remedy=f"Correct the name, or run: unset {' '.join(unknown)}",
        )


def _read_max_isa(variables: Mapping[str, str]) -> str | None:
    level = variables.get("SAMEBITS_MAX_ISA", "")
    if level and level not in ISA_LEVELS:
        raise ConfigError(
            expected=f"SAMEBITS_MAX_ISA to be one of {', '.join(ISA_LEVELS)}",
            found=repr(level),
            remedy="Unset it to use whatever this processor has.",
        )
    return level or None


def _read_cache_dir(variables: Mapping[str, str]) -> Path:
    chosen = variables.get("SAMEBITS_CACHE_DIR", "")
    folder = _expand(chosen) if chosen else _find_user_cache(variables)
    try:
        is_other = not stat.S_ISDIR(folder.stat().st_mode)
    except FileNotFoundError:
        return folder
    except OSError as error:
        raise _refuse_cache(f"{folder}: {error.strerror or error}") from error
    if is_other:
        raise _refuse_cache(f"a file at {folder}")
    return folder


def _expand(chosen: str) -> Path:
    try:
        return Path(chosen).expanduser().absolute()
    except RuntimeError as error:
        raise _refuse_cache(f"{chosen}, a home folder that does not exist") from error


def _refuse_cache(found: str) -> ConfigError:
    return ConfigError(
        expected="the cache to be a folder",
        found=found,
        remedy="Set SAMEBITS_CACHE_DIR to a folder you can write to.",
    )


def _find_user_cache(variables: Mapping[str, str]) -> Path:
    # The XDG specification says to ignore a relative path.
    xdg = Path(variables.get("XDG_CACHE_HOME", ""))
    return (xdg if xdg.is_absolute() else _find_home() / ".cache") / "samebits"


def _find_home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigError(
            expected="a home folder to keep models in",
            found="none",
            remedy="Set SAMEBITS_CACHE_DIR to a folder you can write to.",
        ) from None
