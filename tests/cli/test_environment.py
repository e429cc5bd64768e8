"""The environment is read in one place, and strictly."""

import ast
from pathlib import Path

import pytest

from samebits.cli.environment import ISA_LEVELS, read_environment
from samebits.errors import ConfigError
from samebits.numerics.native.kernels import LEVELS
from tests.cli.command import assert_refused, start

SOURCES = Path(__file__).parents[2] / "samebits"
ENVIRONMENT = ("environ", "environb", "getenv", "getenvb")


def test_the_levels_are_those_of_the_kernels() -> None:
    assert ISA_LEVELS == LEVELS


def test_nothing_set_means_no_cap_and_the_users_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    environment = read_environment({})
    assert environment.max_isa is None
    assert environment.cache_dir == Path("/home/somebody/.cache/samebits")


def test_an_empty_variable_counts_as_unset() -> None:
    empty = {"SAMEBITS_MAX_ISA": "", "SAMEBITS_CACHE_DIR": "", "XDG_CACHE_HOME": ""}
    assert read_environment(empty) == read_environment({})


def test_own_variable_wins_over_xdg(tmp_path: Path) -> None:
    variables = {"SAMEBITS_CACHE_DIR": str(tmp_path / "own"), "XDG_CACHE_HOME": str(tmp_path)}
    assert read_environment(variables).cache_dir == tmp_path / "own"
    del variables["SAMEBITS_CACHE_DIR"]
    assert read_environment(variables).cache_dir == tmp_path / "samebits"


def test_a_relative_xdg_path_is_ignored_as_its_specification_says() -> None:
    assert read_environment({"XDG_CACHE_HOME": "cache"}) == read_environment({})


def test_a_file_is_no_cache(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match="folder"):
        read_environment({"SAMEBITS_CACHE_DIR": str(file)})


@pytest.mark.parametrize("folder", ["~no-such-user/x", "/" + "c" * 300])
def test_a_cache_that_cannot_be_is_refused_by_name(folder: str) -> None:
    ended = start("pull", "smollm2", environment={"SAMEBITS_CACHE_DIR": folder})
    assert_refused(ended, folder, "SAMEBITS_CACHE_DIR")


def test_every_unknown_variable_is_named() -> None:
    with pytest.raises(ConfigError, match="SAMEBITS_A, SAMEBITS_B"):
        read_environment({"SAMEBITS_B": "1", "SAMEBITS_A": ""})


def test_no_other_file_reads_the_environment() -> None:
    # The child tells what reached the process under test, which imports nothing of samebits.
    readers = [
        path.relative_to(SOURCES).as_posix()
        for path in sorted(SOURCES.rglob("*.py"))
        if any(map(reads_environment, ast.walk(ast.parse(path.read_text("utf-8")))))
    ]
    assert readers == ["cli/environment.py", "remedies/verify_flags_child.py"]


@pytest.mark.parametrize(
    "source",
    [
        "os.environ['A']",
        "os.environb.get(b'A')",
        "os.getenv('A')",
        "from os import environ",
        "from os import getenv as read",
    ],
)
def test_whoever_reads_the_environment_is_found(source: str) -> None:
    assert any(map(reads_environment, ast.walk(ast.parse(source))))


def reads_environment(node: ast.AST) -> bool:
    """Answer whether a node names the environment of the process."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(name.name in ENVIRONMENT for name in node.names)
    return isinstance(node, ast.Attribute) and node.attr in ENVIRONMENT
