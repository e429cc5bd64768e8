"""A store keeps to its size, drops what was used least recently, and forgets what is purged."""

import os
import sqlite3
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from samebits.cache import OutputCache, connections
from samebits.cache.entry import Entry, Labels, digest_entry
from samebits.cache.fault import StoreFault, Trouble
from samebits.cache.key import Key, frame, make_key
from samebits.cache.store import MIN_BYTES, SqliteStore
from samebits.cache.upkeep import Choice
from samebits.errors import ConfigError
from samebits.record.digest import tagged_digest
from tests.cache.requests import SURFACE, Computing, digest, make_identity, make_request, open_cache

SMALL = 2**18
LABELS = Labels("", SURFACE, digest("weights"))


def make_pair(number: int, size: int = 2000) -> tuple[Key, Entry]:
    key = make_key(make_request(x=number))
    return key, Entry(1000 + number, b"{}", b"%d " % number * (size // 4), b"")


def fill(store: SqliteStore, numbers: range, size: int = 2000) -> int:
    return sum(store.put(*make_pair(number, size), LABELS) for number in numbers)


def held(store: SqliteStore, numbers: Iterable[int]) -> list[int]:
    return [number for number in numbers if store.get(make_pair(number)[0].digest)]


def test_an_entry_comes_back_as_it_was_put(tmp_path: Path) -> None:
    key, _ = make_pair(0)
    entry = Entry(5, b"{}", bytes(range(256)), frame(b"", b"a"))
    with SqliteStore(tmp_path / "s") as store:
        assert store.get(key.digest) is None
        store.put(key, entry, LABELS)
        assert store.get(key.digest) == entry


def test_a_later_entry_replaces_the_one_of_its_key(tmp_path: Path) -> None:
    key, entry = make_pair(0)
    with SqliteStore(tmp_path / "s") as store:
        for answer in (b"old", b"new"):
            store.put(key, entry._replace(answer=answer), LABELS)
        found = store.get(key.digest)
        assert found and found.answer == b"new"
        assert len(list(store.entries())) == 1


@pytest.mark.parametrize("size", [200, 2000, 20_000])
def test_the_file_keeps_to_its_size_and_the_newest_stay(size: int, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with SqliteStore(path, max_bytes=SMALL) as store:
        dropped = fill(store, range(600), size)
        entries = list(store.entries())
        assert store.verify().is_whole
    assert dropped == 600 - len(entries) > 0
    assert path.stat().st_size <= SMALL + 2**16
    assert [entry.created_ms for entry in entries] == list(range(1600 - len(entries), 1600))


def test_what_was_used_last_is_dropped_last(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s", max_bytes=SMALL) as store:
        for number in range(200):
            fill(store, range(number, number + 1))
            if number >= 3:
                assert held(store, range(3)) == [0, 1, 2]
        assert held(store, range(3, 20)) == []


def test_reading_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with SqliteStore(path) as store:
        fill(store, range(5))
        before = [file.read_bytes() for file in (path, Path(f"{path}-wal"))]
        assert held(store, range(5)) == [0, 1, 2, 3, 4]
        assert [file.read_bytes() for file in (path, Path(f"{path}-wal"))] == before


def test_two_stores_on_one_file_see_each_others_entries_and_uses(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with SqliteStore(path, max_bytes=SMALL) as a, SqliteStore(path, max_bytes=SMALL) as b:
        fill(a, range(1))
        for number in range(1, 200):
            assert held(b, range(1)) == [0]
            fill(b, range(number, number + 1))
        assert held(a, range(1)) == [0]


def test_threads_share_a_store(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s") as store:

        def work(first: int) -> list[int]:
            fill(store, range(first, first + 20))
            return held(store, range(first, first + 20))

        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(work, range(0, 160, 20)))
        assert found == [list(range(first, first + 20)) for first in range(0, 160, 20)]
        assert len(store.connections.all) <= 8
        assert store.verify().num_entries == 160


def test_a_writer_that_waits_too_long_is_told_and_a_reader_never_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_S", 0.05)
    path = tmp_path / "s"
    with SqliteStore(path) as store:
        fill(store, range(1))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFault) as caught:
            fill(store, range(1, 2))
        assert caught.value.trouble is Trouble.BUSY
        assert held(store, range(2)) == [0]
        other.execute("ROLLBACK")
        other.close()
        fill(store, range(1, 2))
        assert held(store, range(2)) == [0, 1]


def test_a_failed_write_changes_nothing_and_the_next_one_works(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s") as store:
        fill(store, range(2))
        with store.connections.lend() as connection:
            connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StoreFault) as caught:
            fill(store, range(2, 3), 50_000)
        assert caught.value.trouble is Trouble.FULL
        assert held(store, range(3)) == [0, 1]
        with store.connections.lend() as connection:
            connection.execute("PRAGMA max_page_count = 100000")
        fill(store, range(2, 3))
        assert held(store, range(3)) == [0, 1, 2]


CHOICES = {
    "a key": (Choice(key=f"sha256:{make_pair(4)[0].digest.hex()}"), [4]),
    "the first digits of a key": (Choice(key=make_pair(4)[0].digest.hex()[:10].upper()), [4]),
    "weights": (Choice(weights=digest("other")), [0, 2, 4]),
    "the first digits of weights": (Choice(weights=digest("other")[7:17].upper()), [0, 2, 4]),
    "a namespace": (Choice(namespace="b"), [3, 4, 5]),
    "an age": (Choice(before_ms=1002), [0, 1]),
    "two at once": (Choice(namespace="b", weights=digest("other")), [4]),
    "all": (Choice(), [0, 1, 2, 3, 4, 5]),
    "none": (Choice(namespace="c"), []),
}


@pytest.mark.parametrize("name", CHOICES)
def test_B16_purge_removes_what_fits_and_nothing_else(name: str, tmp_path: Path) -> None:
    choice, expected = CHOICES[name]
    with SqliteStore(tmp_path / "s") as store:
        for number in range(6):
            weights = digest("weights" if number % 2 else "other")
            store.put(*make_pair(number), Labels("ab"[number // 3], SURFACE, weights))
        assert [entry.created_ms - 1000 for entry in store.entries(choice)] == expected
        assert store.purge(choice) == len(expected)
        assert held(store, range(6)) == [x for x in range(6) if x not in expected]


@pytest.mark.parametrize(
    "given", [{"key": ""}, {"key": "*" * 8}, {"weights": "0" * 7}, {"namespace": "\udcff"}]
)
def test_a_choice_that_no_entry_could_fit_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Choice(**given)


def test_a_purge_beside_a_reader_says_that_the_log_still_holds_what_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "BUSY_S", 0.1)
    with SqliteStore(tmp_path / "s") as store:
        fill(store, range(3))
        with closing(sqlite3.connect(tmp_path / "s", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM entry").fetchone()
            with pytest.raises(StoreFault, match="3 removed"):
                store.purge(Choice())
            reader.execute("COMMIT")
        assert store.purge(Choice()) == 0
        assert (tmp_path / "s-wal").stat().st_size == 0


def test_what_is_used_again_is_used_last(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s", max_bytes=MIN_BYTES) as store:
        fill(store, range(2))
        assert held(store, (0, 1, 0)) == [0, 1, 0]
        store.put(*make_pair(2), LABELS)
        with store.connections.lend() as connection:
            order = connection.execute("SELECT id FROM recency ORDER BY tick").fetchall()
        assert [number for (number,) in order] == [2, 1, 3]


@pytest.mark.parametrize("path", ["~nobody-has-this-name/s", "a\0b"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="a store at"):
        SqliteStore(path)


def test_what_is_purged_is_in_no_file_and_the_file_shrinks(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with SqliteStore(path) as store:
        key, entry = make_pair(0)
        store.put(key, entry._replace(answer=b"SECRET" * 9999), LABELS)
        store.put(*make_pair(1), LABELS)
        assert store.purge(Choice(key=key.digest.hex())) == 1
        assert all(b"SECRET" not in file.read_bytes() for file in tmp_path.iterdir())
        assert path.stat().st_size < 40_000
        assert held(store, range(2)) == [1]


def test_eviction_and_listing_look_at_a_store_larger_than_a_block(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "s") as store:
        fill(store, range(600), 100)
        assert [entry.created_ms for entry in store.entries()] == list(range(1000, 1600))
        assert store.verify().num_entries == 600


def test_the_checksum_is_the_tagged_digest_of_the_entry() -> None:
    key, entry = make_pair(3)
    time = entry.created_ms.to_bytes(8, "little", signed=True)
    expected = tagged_digest(
        "samebits/cache-entry/v1", key.digest, time, entry.ending, entry.answer, entry.events
    )
    assert f"sha256:{digest_entry(key.digest, entry).hex()}" == expected


def test_a_size_in_which_nothing_fits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_bytes"):
        open_cache(tmp_path, max_bytes=1000)
    assert list(tmp_path.iterdir()) == []


def test_evictions_are_counted(tmp_path: Path) -> None:
    with open_cache(tmp_path, max_bytes=2**17) as cache:
        for number in range(100):
            cache.fetch(make_request(x="y" * 2000, number=number), Computing())
        kept = len(list(cache.store.entries()))
        assert cache.tally().evicted == 100 - kept > 0


def test_a_store_that_another_thread_closes_is_closed_when_it_comes_back(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s")
    inside, closed = threading.Event(), threading.Event()

    def look() -> int:
        with store.connections.lend() as connection:
            inside.set()
            assert closed.wait(10)
            return int(connection.execute("SELECT count(*) FROM entry").fetchone()[0])

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        assert inside.wait(10)
        store.close()
        closed.set()
        assert looking.result(10) == 0
    assert store.connections.all == {}
    assert [file.name for file in tmp_path.iterdir()] == ["s"]


def test_B19_weights_of_a_request_stand_beside_its_entry(tmp_path: Path) -> None:
    with open_cache(tmp_path, namespace="n") as cache:
        cache.fetch(make_request(identity=make_identity()), Computing())
        entry = next(cache.store.entries())
    assert (entry.namespace, entry.weights) == ("n", digest("weights"))


def test_a_store_whose_name_is_no_unicode_is_a_file_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"x\xff.sqlite3")
    with OutputCache.open(path) as cache:
        cache.fetch(make_request(), Computing())
        assert cache.look(make_request()) is not None
    assert path.exists()
