"""samebits pull: fetch a model into the cache."""

from typing import Annotated

import typer


def pull(
    name: Annotated[str, typer.Argument(help="smollm2, or hf:OWNER/NAME.", show_default=False)],
) -> None:
    """Fetch a model into the cache, check it, and print where it lies."""
    from samebits.cli.environment import read_environment
    from samebits.cli.progress import show_progress
    from samebits.model.source import pull as fetch

    environment = read_environment()
    with show_progress(f"fetching {name}") as tell:
        path = fetch(
            name,
            environment.cache_dir,
            lambda done, total: tell(done / total if total else 0.0, ""),
        )
    print(path)
