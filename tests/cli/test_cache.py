"""samebits cache: list, verify, purge, as a user sees them."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from samebits.cache.key import make_key
from tests.cache.requests import (
    Clock,
    Computing,
    digest,
    make_answer,
    make_identity,
    make_request,
    open_cache,
    open_with_clock,
)
from tests.cli.command import Ended, assert_refused, call

STORE = "outputs.sqlite3"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three answers, of two models; the first is from 2023, and in a namespace."""
    clock = Clock()
    clock.now = 1_700_000_000.0
    with open_with_clock(tmp_path, clock, namespace="team-with-a-long-name") as cache:
        cache.fetch(make_request(), lambda: make_answer("x" * 1234))
    with open_cache(tmp_path) as cache:
        cache.fetch(make_request(), Computing())
        other = make_identity(weights=digest("other"))
        cache.fetch(make_request(identity=other), Computing())
    return tmp_path / STORE


def ask(capsys: pytest.CaptureFixture[str], *arguments: object) -> Ended:
    return call(capsys, "cache", *map(str, arguments))


def test_list_is_a_table_of_80_columns(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = ask(capsys, "list", "--store", store)
    head, *rows, last = ended.out.splitlines()
    assert ended.code == 0
    assert head.split() == ["key", "age", "bytes", "weights", "surface", "namespace"]
    assert len(rows) == 3
    assert max(map(len, [head, *rows, last])) <= 80
    assert last == f"3 answers, {1234 + 8 + 8} bytes of answers"
    assert rows[0].endswith("team-with…")


def test_an_age_that_the_clock_denies_is_shown_as_ahead(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    clock.now = 4_000_000_000.0
    with open_with_clock(tmp_path, clock) as cache:
        cache.fetch(make_request(), Computing())
    row = ask(capsys, "list", "--store", tmp_path / STORE).out.splitlines()[1]
    assert row.split()[1] == "ahead"


def test_list_as_json_has_whole_digests(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(ask(capsys, "list", "--store", store, "--json").out)
    assert (found["format"], found["action"]) == ("samebits/cache/v1", "list")
    key = make_key(make_request()).digest.hex()
    assert found["entries"][1]["key"] == f"sha256:{key}"
    assert found["entries"][0]["namespace"] == "team-with-a-long-name"
    assert found["entries"][2]["weights"] == digest("other")


def test_a_name_from_the_file_cannot_steer_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_cache(tmp_path, namespace="\x1b[2J\n") as cache:
        cache.fetch(make_request(), Computing())
    out = ask(capsys, "list", "--store", tmp_path / STORE).out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 3


def test_the_store_of_the_cache_folder_is_looked_at_by_default(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(store.parent))
    assert ask(capsys, "list").out.endswith("bytes of answers\n")
    monkeypatch.setenv("SAMEBITS_CACHE_DIR", str(store.parent / "none"))
    assert_refused(ask(capsys, "list"), "nothing there", STORE)
    assert not (store.parent / "none").exists()


def test_verify_passes_and_then_names_what_was_damaged(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = ask(capsys, "verify", "--store", store)
    assert (ended.code, ended.out) == (0, "3 answers checked, 0 damaged\n")
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("UPDATE entry SET answer = X'00' WHERE id = 2")
    key = f"sha256:{make_key(make_request()).digest.hex()}"
    ended = ask(capsys, "verify", "--store", store)
    assert ended.code == 1
    assert ended.out == f"3 answers checked, 1 damaged\ndamaged  {key}\n"
    found = json.loads(ask(capsys, "verify", "--store", store, "--json").out)
    assert (found["num_entries"], found["damaged"]) == (3, [key])
    ended = ask(capsys, "purge", "--store", store, "--damaged")
    assert (ended.code, ended.out) == (0, f"removed 1 answer from {store}\n")
    assert ask(capsys, "verify", "--store", store).code == 0


PURGES = {
    "model": (("--model", digest("other")), 1),
    "namespace": (("--namespace", "team-with-a-long-name"), 1),
    "no namespace": (("--namespace", ""), 2),
    "age": (("--older-than", "0s"), 3),
    "old age": (("--older-than", "1w"), 1),
    "all": (("--all",), 3),
}


@pytest.mark.parametrize("name", PURGES)
def test_purge_removes_what_fits_and_says_so(
    name: str, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, count = PURGES[name]
    ended = ask(capsys, "purge", "--store", store, *options, "--json")
    assert ended.code == 0
    assert json.loads(ended.out)["removed"] == count
    left = json.loads(ask(capsys, "list", "--store", store, "--json").out)["entries"]
    assert len(left) == 3 - count


def test_purge_by_the_digits_that_list_shows(
    store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    digits = ask(capsys, "list", "--store", store).out.splitlines()[2].split()[0]
    ended = ask(capsys, "purge", "--store", store, "--key", digits)
    assert ended.out == f"removed 1 answer from {store}\n"


@pytest.mark.parametrize(
    ("options", "needle"),
    [
        ((), "none of them"),
        (("--all", "--key", "0" * 8), "--all and a choice"),
        (("--all", "--damaged"), "--all and --damaged"),
        (("--key", "xyz"), "--key"),
        (("--key", "0" * 7), "--key"),
        (("--model", "*" * 8), "--model"),
        (("--older-than", "soon"), "--older-than"),
        (("--older-than", "-1d"), "--older-than"),
    ],
)
def test_a_purge_that_says_too_little_or_nonsense_is_refused(
    options: tuple[str, ...],
    needle: str,
    store: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert_refused(ask(capsys, "purge", "--store", store, *options), needle)
    assert ask(capsys, "verify", "--store", store).out.startswith("3 answers")


def test_what_is_no_store_is_refused_and_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.write_text("hello")
    for action in ("list", "verify"):
        assert_refused(ask(capsys, action, "--store", other), "another kind of file")
    assert_refused(ask(capsys, "purge", "--all", "--store", other), "another kind of file")
    assert other.read_text() == "hello"
