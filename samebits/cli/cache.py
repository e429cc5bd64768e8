"""samebits cache: list, verify and purge a store of answers."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from samebits.cache.store import SqliteStore
    from samebits.cache.upkeep import Choice

FORMAT = "samebits/cache/v1"
EXIT_DAMAGED = 1
DEFAULT_NAME = "outputs.sqlite3"
AGE = re.compile(r"([0-9]{1,9})([smhdw])\Z", re.ASCII)

StoreOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help=f"The store; {DEFAULT_NAME} in the cache folder if not given."
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        metavar="DIGEST", help="Of these weights: the digest, or 8 or more of its first digits."
    ),
]
KeyOption = Annotated[
    str | None, typer.Option(metavar="DIGEST", help="Of this key, or of keys that begin so.")
]
NamespaceOption = Annotated[str | None, typer.Option(help="Of this namespace.")]
AgeOption = Annotated[
    str | None, typer.Option(metavar="AGE", help="Computed longer ago: 90s, 15m, 12h, 30d or 8w.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one canonical JSON object.")]

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, context_settings={"max_content_width": 100}
)


@app.callback()
def cache() -> None:
    """List, verify or purge the answers that an output cache keeps."""


@app.command("list")
def list_entries(
    store: StoreOption = None,
    model: ModelOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
    older_than: AgeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the answers, the oldest first, as they say of themselves."""
    from samebits.cli.cache_table import print_table

    choice = make_choice(model, key, namespace, older_than)
    with open_store(store) as opened:
        entries = opened.entries(choice)
        if as_json:
            print_json("list", opened, {"entries": [entry._asdict() for entry in entries]})
        else:
            print_table(entries)


@app.command()
def verify(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Check every answer against its checksum and its key, and the file itself.

    Exit code 0: all are what was written; 1: some are not, named. They are never served.
    """
    from samebits.cli.cache_table import count

    with open_store(store) as opened:
        verdict = opened.verify()
        if as_json:
            found = {
                "num_entries": verdict.num_entries,
                "damaged": list(verdict.damaged),
                "structure": list(verdict.structure),
            }
            print_json("verify", opened, found)
        else:
            print(f"{count(verdict.num_entries)} checked, {len(verdict.damaged)} damaged")
            print_all("damaged  ", verdict.damaged)
            print_all("file     ", verdict.structure)
    if not verdict.is_whole:
        raise typer.Exit(EXIT_DAMAGED)


@app.command()
def purge(
    store: StoreOption = None,
    model: ModelOption = None,
    key: KeyOption = None,
    namespace: NamespaceOption = None,
    older_than: AgeOption = None,
    damaged: Annotated[bool, typer.Option("--damaged", help="That verify finds damaged.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Every answer.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove answers that fit all that is given, their bytes included.

    Asks nothing, and says how many went.
    """
    from samebits.cli.cache_table import count

    choice = make_choice(model, key, namespace, older_than)
    check_purge(choice, damaged=damaged, everything=everything)
    with open_store(store) as opened:
        removed = opened.purge_damaged() if damaged else opened.purge(choice)
        if as_json:
            print_json("purge", opened, {"removed": removed})
        else:
            print(f"removed {count(removed)} from {opened.path}")


def check_purge(choice: "Choice", *, damaged: bool, everything: bool) -> None:
    """Refuse a purge that says too little, or two things."""
    from samebits.errors import ConfigError

    kinds = [everything, damaged, not choice.is_all]
    if sum(kinds) != 1:
        given = ["--all", "--damaged", "a choice"]
        found = [name for name, is_given in zip(given, kinds, strict=True) if is_given]
        raise ConfigError(
            expected="--all, --damaged, or some of --key, --model, --namespace, --older-than",
            found=" and ".join(found) or "none of them",
        )


def make_choice(
    model: str | None, key: str | None, namespace: str | None, older_than: str | None
) -> "Choice":
    """Read which entries are meant.

    Raises:
        ConfigError: No digest, or no age.
    """
    from samebits.cache.upkeep import Choice, check_digits
    from samebits.cli.cache_table import SECONDS
    from samebits.errors import ConfigError

    check_digits("--model", model)
    check_digits("--key", key)
    before_ms = None
    if older_than is not None:
        age = AGE.match(older_than)
        if not age:
            raise ConfigError(expected="--older-than: such as 12h or 30d", found=repr(older_than))
        before_ms = int((time.time() - int(age[1]) * SECONDS[age[2]]) * 1000)
    return Choice(key=key, weights=model, namespace=namespace, before_ms=before_ms)


def open_store(path: Path | None) -> "SqliteStore":
    """Open a store that is there; looking makes none.

    Raises:
        ConfigError: There is none, or it is something else.
    """
    from samebits.cache.store import SqliteStore
    from samebits.cli.environment import read_environment
    from samebits.errors import ConfigError

    found = path or read_environment().cache_dir / DEFAULT_NAME
    if not found.exists():
        raise ConfigError(
            expected=f"an output cache at {found}",
            found="nothing there",
            remedy="Name one by --store.",
        )
    return SqliteStore(found)


def print_json(action: str, store: "SqliteStore", found: dict[str, Any]) -> None:
    """Print one canonical JSON object."""
    from samebits.record.canonical import canonical_bytes

    whole = {"format": FORMAT, "action": action, "store": str(store.path), **found}
    print(canonical_bytes(whole).decode())


def print_all(name: str, lines: Iterable[str]) -> None:
    """Print a line for each finding."""
    for line in lines:
        print(f"{name}{line}")
