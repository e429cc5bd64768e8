"""The one refusal where PyTorch or transformers is missing."""

from importlib import import_module
from types import ModuleType

from samebits.errors import ConfigError


def need(*names: str) -> tuple[ModuleType, ...]:
    """Import modules of the extra named torch.

    Raises:
        ConfigError: One is not installed.
    """
    return tuple(need_one(name) for name in names or ("torch", "transformers"))


def need_one(name: str) -> ModuleType:
    """Import one module of the extra.

    Raises:
        ConfigError: It is not installed; what fails inside an installed one is not hidden.
    """
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.partition(".")[0]:
            raise
        raise ConfigError(
            expected=f"{error.name} to be installed",
            found="it is not",
            remedy='Install it with: pip install "samebits[torch]"',
        ) from error
