"""Which commit a folder holds. Never a difference, a branch or an address."""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from samebits.lock.contents import GitState

# A repository of a stranger must not have its hooks run, nor be written to.
SAFE = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
COMMIT = re.compile("[0-9a-f]{40}([0-9a-f]{24})?")
TIMEOUT_S = 30.0


def read_git(folder: Path, variables: Mapping[str, str]) -> GitState | None:
    """Read the state of the repository that a folder lies in; None if there is none.

    Files that are not tracked count for nothing: the lock itself may be one.
    """
    program = shutil.which("git", path=variables.get("PATH", ""))
    if program is None:
        return None
    commit = ask(program, folder, variables, "rev-parse", "HEAD")
    if commit is None or not COMMIT.fullmatch(commit.strip()):
        return None
    changed = ask(program, folder, variables, "status", "--porcelain", "--untracked-files=no")
    return GitState(commit=commit.strip(), is_dirty=changed != "")


def ask(program: str, folder: Path, variables: Mapping[str, str], *words: str) -> str | None:
    """Ask git; None if it refuses."""
    try:
        done = subprocess.run(
            (program, "-C", str(folder), *SAFE, *words),
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
