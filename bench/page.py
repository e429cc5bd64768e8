"""What benchmarks print: where they ran, Markdown tables, and their place in a page of docs/."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from samebits.lock.processor import read_processor

ROOT = Path(__file__).resolve().parent.parent


def make_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a Markdown table; all columns but the first are numbers."""
    lines = [header, ["---", *["--:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_between(page: Path, name: str, text: str) -> None:
    """Replace what stands between `<!-- NAME -->` and `<!-- /NAME -->`."""
    old = page.read_text(encoding="utf-8")
    start, stop = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    if old.count(start) != 1 or old.count(stop) != 1:
        raise SystemExit(f"expected one pair of the markers {start.strip()} {stop} in {page}")
    before, rest = old.split(start)
    page.write_text(
        f"{before}{start}{text.rstrip()}\n{stop}{rest.split(stop)[1]}", encoding="utf-8"
    )


def describe_machine() -> str:
    """Name processor, cores, memory and system, with the load of others at this moment."""
    one, _, _ = os.getloadavg()
    return (
        f"{read_processor().name}, {os.cpu_count()} cores, {read_memory_gb():.0f} GB, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, "
        f"load {one:.1f} at the start"
    )


def read_memory_gb() -> float:
    """Give the machine's memory in 10**9 bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def describe_commit() -> str:
    """Name the commit, and say so if tracked files differ from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    if commit.returncode:
        return "no commit"
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "samebits", "bench"])
    return f"commit {commit.stdout.strip()}" + (" with changes" if changed.returncode else "")


def describe_packages(*names: str) -> str:
    """Name the versions of installed packages."""
    return ", ".join(f"{name} {find_version(name)}" for name in names)


def find_version(name: str) -> str:
    """Give a package's version, or say that it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def describe_command(module: str) -> str:
    """Write the command line as it was given, the model by its file name only."""
    words = [Path(word).name if os.sep in word else word for word in sys.argv[1:]]
    return shlex.join(["python", "-m", module, *words])
