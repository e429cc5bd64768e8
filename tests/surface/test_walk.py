"""docs/walk.md names files of this tree, so it is wrong as soon as one of them moves."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
QUOTED_PATH = re.compile(r"`((?:samebits|docs|tests|scripts)/[\w./-]*)`")


def paths_named_in_the_walk() -> list[str]:
    return QUOTED_PATH.findall((ROOT / "docs/walk.md").read_text(encoding="utf-8"))


def test_every_path_named_in_the_walk_exists() -> None:
    missing = sorted({path for path in paths_named_in_the_walk() if not (ROOT / path).exists()})
    assert missing == []


def test_the_walk_passes_through_every_rank() -> None:
    named = {
        path.split("/")[1] for path in paths_named_in_the_walk() if path.startswith("samebits")
    }
    layers = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    ranks = re.findall(r'"(\w+)"', layers.partition("layers = [")[2].partition("]")[0])
    assert len(ranks) > 10 and {rank for rank in ranks if rank != "errors"} | {"errors.py"} <= named
