"""samebits cache: list, verify and purge a store of answers."""

import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from samebits.cache.store import SqliteStore
    from samebits.cache.upkeep import Choice, Listed

FORMAT = "samebits/cache/v1"
EXIT_DAMAGED = 1
DEFAULT_NAME = "outputs.sqlite3"
AGE = re.compile(r"([0-9]{1,9})([smhdw])\Z", re.ASCII)
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
SHOWN_DIGITS = 12
SURFACE_CHARS = 20
NAMESPACE_CHARS = 10

StoreOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help=f"The store; {DEFAULT_NAME} in the cache folder if not given."
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(metavar="DIGEST", help="Of these weights: the digest, or 8 of its first digits."),
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


def print_table(entries: "Iterable[Listed]") -> None:
    """Print one line an entry, at most 80 columns."""
    num_entries = size_bytes = 0
    for entry in entries:
        if not num_entries:
            print(spell_row("key", "age", "bytes", "weights", "surface", "namespace"))
        num_entries += 1
        size_bytes += entry.size_bytes
        print(
            spell_row(
                digits_of(entry.key),
                spell_age(time.time() - entry.created_ms / 1000),
                str(entry.size_bytes),
                digits_of(entry.weights),
                entry.surface,
                entry.namespace,
            )
        )
    print(f"{count(num_entries)}, {size_bytes} bytes of answers")


def spell_row(key: str, age: str, size: str, weights: str, surface: str, namespace: str) -> str:
    """Lay a line out; the namespace stands last, since most have none."""
    cells = (
        key.ljust(SHOWN_DIGITS),
        age.rjust(5),
        size.rjust(9),
        weights.ljust(SHOWN_DIGITS),
        show(surface, SURFACE_CHARS).ljust(SURFACE_CHARS),
        show(namespace, NAMESPACE_CHARS),
    )
    return "  ".join(cells).rstrip()


def digits_of(digest: str) -> str:
    """Give the first digits of a digest."""
    return show(digest.removeprefix("sha256:"), SHOWN_DIGITS, dots="")


def show(text: str, most: int, dots: str = "…") -> str:
    """Cut a text that comes from a file, and spell out what would steer a terminal."""
    from samebits.report.visible import show_character

    safe = "".join(map(show_character, text))
    return safe if len(safe) <= most else safe[: most - len(dots)] + dots


def spell_age(seconds: float) -> str:
    """Give an age in the largest unit that it fills twice."""
    if seconds < 0:
        return "ahead"
    size = next((u for u in ("w", "d", "h", "m") if seconds >= 2 * SECONDS[u]), "s")
    return f"{int(seconds // SECONDS[size])}{size}"


def count(number: int) -> str:
    """Count answers in words."""
    return f"{number} {'answer' if number == 1 else 'answers'}"


def print_all(name: str, lines: Iterable[str]) -> None:
    """Print a line for each finding."""
    for line in lines:
        print(f"{name}{line}")
