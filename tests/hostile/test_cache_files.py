"""Whatever befalls the file of a store: an answer is given, and never a partial or foreign one."""

import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from samebits.cache import OutputCache, StoreFault
from samebits.cache.entry import Entry, digest_entry
from samebits.cache.key import make_key
from samebits.cache.schema import APPLICATION_ID, VERSION, make_file
from samebits.errors import ConfigError, RecordCorrupt, SamebitsError
from tests.cache.requests import Computing, make_answer, make_request, open_cache

ROOT = Path(__file__).parents[2]
NUM_ENTRIES = 12
SIZES = (10, 1500, 9000)
"""Within a page, about one, over several."""


def run_program(*arguments: object, before: str = "") -> str:
    """Run one of cache_writers.py; after shell commands, if given, with mounts of its own."""
    command = [sys.executable, "-m", "tests.hostile.cache_writers", *map(str, arguments)]
    if before:
        command = ["unshare", "--mount", "sh", "-ec", f"{before}; exec {shlex.join(command)}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def may_mount() -> bool:
    """Whether this process may mount in a namespace of its own."""
    if not shutil.which("unshare"):
        return False
    tried = subprocess.run(
        ["unshare", "--mount", "sh", "-ec", "mount -t tmpfs tmpfs /mnt"], capture_output=True
    )
    return tried.returncode == 0


needs_mount = pytest.mark.skipif(not may_mount(), reason="mounting needs root on Linux")


def body_of(number: int) -> str:
    return f"{number}," * (SIZES[number % 3] // 3)


def fill(path: Path) -> Path:
    with OutputCache.open(path) as cache:
        for number in range(NUM_ENTRIES):
            cache.fetch(make_request(x=number), lambda: make_answer(body_of(number)))  # noqa: B023
    return path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a closed store."""
    return fill(tmp_path_factory.mktemp("whole") / "store").read_bytes()


@pytest.mark.parametrize(("seed", "max_bytes"), [(1, ""), (2, 2**20)])
def test_a_kill_at_100_random_points_leaves_a_whole_store(
    seed: int, max_bytes: object, tmp_path: Path
) -> None:
    numbers = [str(x) for x in (seed, 100, max_bytes) if x]
    assert run_program("kill", tmp_path, *numbers).startswith("100 kills")


def test_processes_may_make_and_fill_one_store_at_once(tmp_path: Path) -> None:
    assert run_program("race", tmp_path, 3, 40) == "raced"


def test_parent_and_child_go_on_after_a_fork(tmp_path: Path) -> None:
    assert run_program("fork", tmp_path) == "forked"


def test_a_child_forked_in_the_middle_of_a_look_leaves_the_file_alone(tmp_path: Path) -> None:
    assert run_program("fork-inside", tmp_path) == "forked inside"


def test_a_child_forked_in_the_middle_of_a_computation_waits_for_nobody(tmp_path: Path) -> None:
    assert run_program("fork-leading", tmp_path) == "forked leading"


@needs_mount
@pytest.mark.parametrize("size", ["400k", "1m"])
def test_a_full_disk_costs_no_answer_and_nothing_that_was_kept(size: str, tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size={size} tmpfs {tmp_path}"
    said = run_program("fill", tmp_path, before=mount)
    assert said.startswith("disk-full after ") and int(said.split()[-1]) > 3


def test_a_file_that_may_not_grow_costs_no_answer(tmp_path: Path) -> None:
    said = run_program("limit", tmp_path, 400_000)
    assert int(said.split()[-1]) > 3


@needs_mount
def test_a_read_only_disk_replays_and_costs_no_answer(tmp_path: Path) -> None:
    with open_named(tmp_path / "store") as cache:
        cache.fetch(make_request(x=0), Computing())
    mount = f"mount --bind {tmp_path} {tmp_path}; mount -o remount,ro,bind {tmp_path}"
    assert run_program("read", tmp_path, before=mount) == "read-only"
    assert sorted(os.listdir(tmp_path)) == ["store"]


@needs_mount
def test_a_read_only_disk_with_a_log_left_by_a_kill_replays_what_it_can(tmp_path: Path) -> None:
    cache = open_named(tmp_path / "store")
    cache.fetch(make_request(x=0), Computing())
    with cache.store.connections.lend() as connection:
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    copy = tmp_path / "copy"
    copy.mkdir()
    for ending in ("", "-wal"):
        shutil.copy(f"{tmp_path / 'store'}{ending}", f"{copy / 'store'}{ending}")
    cache.close()
    mount = f"mount --bind {copy} {copy}; mount -o remount,ro,bind {copy}"
    assert run_program("read", copy, before=mount) == "read-only"


def open_named(path: Path) -> OutputCache:
    return OutputCache.open(path)


def assert_serves_only_what_is_right(path: Path) -> int:
    """Ask for every entry of a damaged store; give the number of hits."""
    hits = 0
    try:
        cache = OutputCache.open(path)
    except (ConfigError, RecordCorrupt, StoreFault):
        return 0
    with cache:
        for number in range(NUM_ENTRIES):
            found = cache.fetch(make_request(x=number), lambda: make_answer("computed"))
            if found.outcome == "hit":
                hits += 1
                assert found.answer == make_answer(body_of(number))
            else:
                assert found.answer == make_answer("computed")
        try:
            cache.store.verify()
        except StoreFault as fault:
            assert fault.trouble == "damaged"
    return hits


def test_any_flipped_byte_serves_what_was_written_or_nothing(whole: bytes, tmp_path: Path) -> None:
    path, hits = tmp_path / "store", []
    # A stride that meets every kind of byte: headers, cell pointers, keys, checksums, answers.
    places = [*range(100), *range(100, 4096, 41), *range(4096, len(whole), 509)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        hits.append(assert_serves_only_what_is_right(path))
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)
    assert max(hits) == NUM_ENTRIES
    assert sum(hits) > len(places) * NUM_ENTRIES // 2


def test_any_flipped_byte_of_the_log_serves_what_was_written_or_nothing(tmp_path: Path) -> None:
    cache = open_named(tmp_path / "store")
    for number in range(NUM_ENTRIES):
        cache.fetch(make_request(x=number), lambda: make_answer(body_of(number)))  # noqa: B023
    main, log = ((tmp_path / f"store{ending}").read_bytes() for ending in ("", "-wal"))
    copy = tmp_path / "copy"
    for place in range(0, len(log), 4001):
        copy.write_bytes(main)
        damaged = bytearray(log)
        damaged[place] ^= 1
        Path(f"{copy}-wal").write_bytes(damaged)
        assert_serves_only_what_is_right(copy)
        for ending in ("-wal", "-shm"):
            Path(f"{copy}{ending}").unlink(missing_ok=True)
    cache.close()


def test_a_store_cut_off_anywhere_serves_what_was_written_or_nothing(
    whole: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "store"
    for size in [*range(1, 200, 20), *range(200, len(whole), 1511)]:
        path.write_bytes(whole[:size])
        assert_serves_only_what_is_right(path)
        for ending in ("-wal", "-shm"):
            Path(f"{path}{ending}").unlink(missing_ok=True)


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


EDITS = {
    "an answer": "UPDATE entry SET answer = CAST('forged' AS BLOB) WHERE id = 4",
    "a time": "UPDATE entry SET created_ms = created_ms + 1 WHERE id = 4",
    "an ending": "UPDATE entry SET ending = CAST('{\"is_empty\":true}' AS BLOB) WHERE id = 4",
    "events": "UPDATE entry SET events = X'00' WHERE id = 4",
    "a checksum": "UPDATE entry SET checksum = zeroblob(32) WHERE id = 4",
    "another's answer": "UPDATE entry SET (answer, checksum, created_ms, ending, events) = "
    "(SELECT answer, checksum, created_ms, ending, events FROM entry WHERE id = 5) WHERE id = 4",
}


@pytest.mark.parametrize("name", EDITS)
def test_B19_a_damaged_entry_is_a_miss_that_is_logged_counted_and_mended(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = fill(tmp_path / "store")
    edit(path, EDITS[name])
    with open_named(path) as cache:
        key = make_key(make_request(x=3)).digest.hex()
        assert cache.store.verify().damaged == (f"sha256:{key}",)
        found = cache.fetch(make_request(x=3), lambda: make_answer("computed"))
        assert (found.outcome, found.answer.body) == ("miss", b"computed")
        assert cache.tally().damaged == 1
        assert key in caplog.text
        assert cache.fetch(make_request(x=3), Computing()).answer.body == b"computed"
        assert cache.fetch(make_request(x=4), Computing()).outcome == "hit"
        assert cache.store.verify().is_whole


@pytest.mark.parametrize("column", ["namespace", "surface", "weights", "preimage"])
def test_an_entry_with_a_label_that_its_key_denies_is_found_by_verify(
    column: str, tmp_path: Path
) -> None:
    path = fill(tmp_path / "store")
    value = "X'00'" if column == "preimage" else "'forged'"
    edit(path, f"UPDATE entry SET {column} = {value} WHERE id = 4")
    with open_named(path) as cache:
        assert len(cache.store.verify().damaged) == 1
        assert cache.store.purge_damaged() == 1
        assert cache.store.verify().is_whole


def test_an_entry_with_a_damaged_key_is_removed_with_the_damaged(tmp_path: Path) -> None:
    path = fill(tmp_path / "store")
    whole, key = path.read_bytes(), make_key(make_request(x=3)).digest
    places = [found.start() for found in re.finditer(re.escape(key), whole)]
    assert len(places) == 2  # in the table and in its index
    removed = []
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with open_named(path) as cache:
            num_damaged = len(cache.store.verify().damaged)
            assert cache.store.purge_damaged() == num_damaged
            assert cache.store.verify().damaged == ()
            assert cache.store.verify().is_whole or not num_damaged
        removed.append(num_damaged)
    assert sorted(removed) == [0, 1]


def test_B19_an_entry_whose_ending_nobody_can_read_is_a_miss(tmp_path: Path) -> None:
    path = fill(tmp_path / "store")
    key = make_key(make_request(x=3)).digest
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for ending, events in ((b'{"new_field":1}', b""), (b"{}", b"\x09")):
            checksum = digest_entry(key, Entry(1, ending, b"answer", events))
            connection.execute(
                "UPDATE entry SET created_ms = 1, ending = ?, answer = ?, events = ?, checksum = ? "
                "WHERE key = ?",
                (ending, b"answer", events, checksum, key),
            )
            with open_named(path) as cache:
                assert cache.look(make_request(x=3)) is None
                assert cache.tally().damaged == 1


def make_database(path: Path, *statements: str) -> None:
    edit(path, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)", *statements)


def make_live_database(path: Path) -> None:
    """A foreign database with a log that its owner has not written back."""
    with closing(sqlite3.connect(path.parent / "live", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE theirs (x)")
        for ending in ("", "-wal"):
            shutil.copy(f"{path.parent / 'live'}{ending}", f"{path}{ending}")


def make_other_version(path: Path) -> None:
    make_file(path)
    edit(path, f"PRAGMA user_version = {VERSION + 1}")


def make_other_tables(path: Path) -> None:
    make_file(path)
    edit(path, "CREATE VIEW more AS SELECT 1")


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a text": (lambda path: path.write_text("hello"), "another kind of file"),
    "an empty file": (lambda path: path.touch(), "an empty file"),
    "a folder": (lambda path: path.mkdir(), "something that is no file"),
    "a pipe": (os.mkfifo, "something that is no file"),
    "another database": (make_database, "another application"),
    "a live database": (make_live_database, "another application"),
    "another application": (
        lambda path: make_database(path, f"PRAGMA application_id = {APPLICATION_ID + 1}"),
        "another application",
    ),
    "our name, their tables": (
        lambda path: make_database(
            path,
            f"PRAGMA application_id = {APPLICATION_ID}",
            f"PRAGMA user_version = {VERSION}",
        ),
        "the tables of an output cache",
    ),
    "other tables besides": (make_other_tables, "the tables of an output cache"),
    "a later version": (make_other_version, f"version {VERSION + 1}"),
}


def contents(folder: Path) -> Iterator[tuple[str, bytes | None]]:
    for file in sorted(folder.iterdir()):
        yield file.name, file.read_bytes() if file.is_file() else None


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_refused_by_name_and_stays_as_it_is(name: str, tmp_path: Path) -> None:
    make, message = FOREIGN[name]
    make(tmp_path / "store")
    before = list(contents(tmp_path))
    with pytest.raises(SamebitsError, match=message):
        OutputCache.open(tmp_path / "store")
    assert list(contents(tmp_path)) == before


def test_a_log_without_its_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store-wal").write_bytes(b"x")
    with pytest.raises(ConfigError, match="store-wal"):
        OutputCache.open(tmp_path / "store")
    assert os.listdir(tmp_path) == ["store-wal"]


def test_a_folder_that_is_missing_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        OutputCache.open(tmp_path / "none" / "store")


def test_a_store_has_a_path_with_any_letters(tmp_path: Path) -> None:
    odd = tmp_path / "a?b#c%20 é"
    odd.mkdir()
    with open_cache(odd) as cache:
        cache.fetch(make_request(), Computing())
        assert cache.fetch(make_request(), Computing()).outcome == "hit"
    assert os.listdir(odd) == ["outputs.sqlite3"]
