"""From a model's name on the command line to an engine, with progress where a person watches."""

from pathlib import Path

import typer

from samebits.cli.environment import Environment
from samebits.cli.progress import show_progress
from samebits.engine import Engine
from samebits.model.source import resolve_model
from samebits.numerics.choice import Choice
from samebits.numerics.select import describe_choice


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
        engine = Engine.load(
            path,
            weights=weights,
            arithmetic=arithmetic,
            threads=threads,
            max_isa=environment.max_isa,
            progress=lambda fraction: tell(fraction, ""),
        )
    for line in explain_choice(describe_choice(engine.decoder.arithmetic)):
        typer.echo(line, err=True)
    return engine


def explain_choice(choice: Choice) -> list[str]:
    """Say what keeps the fast kernels from being used; nothing if they are in use."""
    failed = [c for c in choice.candidates if c.failures]
    lines = [f"note: kernels {c.name} not used; self-test {c.outcome}" for c in failed]
    if choice.kernels == "portable" and not choice.has_library:
        lines.append(
            "note: no compiled kernels in this installation; NumPy computes the same bits, slowly. "
            "Install gcc or clang and reinstall."
        )
    return lines
