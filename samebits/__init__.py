"""The same prompt gives the same bits.

The public names, each imported when first asked for: `import samebits` alone loads no NumPy and
starts nothing. All other names in the package may change between releases.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from samebits.cache import OutputCache
    from samebits.engine import Completion, Engine, SamplingParams
    from samebits.errors import (
        ConfigError,
        ModelFileError,
        RequestError,
        SamebitsError,
        UnsupportedInput,
    )
    from samebits.remedies.guard import Guard
    from samebits.remedies.seeds import seed_everything, seeded
    from samebits.remedies.stabilize import stabilize

    __version__: str

__all__ = [
    "Completion",
    "ConfigError",
    "Engine",
    "Guard",
    "ModelFileError",
    "OutputCache",
    "RequestError",
    "SamebitsError",
    "SamplingParams",
    "UnsupportedInput",
    "__version__",
    "seed_everything",
    "seeded",
    "stabilize",
]

_HOMES = {
    "Completion": "samebits.engine",
    "ConfigError": "samebits.errors",
    "Engine": "samebits.engine",
    "Guard": "samebits.remedies.guard",
    "ModelFileError": "samebits.errors",
    "OutputCache": "samebits.cache",
    "RequestError": "samebits.errors",
    "SamebitsError": "samebits.errors",
    "SamplingParams": "samebits.engine",
    "UnsupportedInput": "samebits.errors",
    "seed_everything": "samebits.remedies.seeds",
    "seeded": "samebits.remedies.seeds",
    "stabilize": "samebits.remedies.stabilize",
}


def __getattr__(name: str) -> object:
    """Import a public name from its home (PEP 562) and keep it for the next time."""
    if name == "__version__":
        value: object = import_module("importlib.metadata").version("samebits")
    elif name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        raise AttributeError(f"module 'samebits' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})
