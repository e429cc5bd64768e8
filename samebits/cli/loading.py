"""From a model's name on the command line to an engine, with progress where a person watches."""

from pathlib import Path

from samebits.cli.environment import Environment
from samebits.cli.progress import show_progress
from samebits.engine import Engine
from samebits.model.source import resolve_model


def find_model(name: str, environment: Environment) -> Path:
    """Give a model's path, fetching it first if it is not there yet.

    Raises:
        ConfigError: No such path or name.
        ModelFileError: It cannot be fetched.
    """
    with show_progress(f"fetching {name}") as tell:
        return resolve_model(
            name,
            environment.cache_dir,
            lambda done, total: tell(done / total if total else 0.0, ""),
        )


def load_engine(
    name: str,
    environment: Environment,
    *,
    weights: str = "w16",
    arithmetic: str = "sb1",
    threads: int | None = None,
) -> Engine:
    """Load a model by name.

    Raises:
        SamebitsError: It cannot be found, fetched, read, or computed with here.
    """
    path = find_model(name, environment)
    with show_progress(f"loading {name}") as tell:
        return Engine.load(
            path,
            weights=weights,
            arithmetic=arithmetic,
            threads=threads,
            max_isa=environment.max_isa,
            progress=lambda fraction: tell(fraction, ""),
        )
