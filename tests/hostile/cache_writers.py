"""Programs that use a store of answers as a test process cannot: killed, forked, on a full disk.

Only a process without threads may fork safely, and a mount belongs to a process of its own.
"""

import os
import random
import signal
import sys
import time
from itertools import count
from pathlib import Path

from samebits.cache import Answer, OutputCache
from samebits.cache.store import MAX_BYTES
from tests.cache.requests import Computing, make_answer, make_request

PIECES = (10, 3000, 60_000)
"""Sizes of answers: within a page, over some, over many."""


def body_of(number: int) -> str:
    """The only right answer to a number."""
    return f"{number} " * (PIECES[number % len(PIECES)] // (len(str(number)) + 1) + 1)


def write(cache: OutputCache, number: int) -> None:
    cache.fetch(make_request(x=number), lambda: make_answer(body_of(number)))


def check(path: Path, numbers: range, max_bytes: int) -> list[int]:
    """Open what a killed process left: all is whole; give the numbers that are there."""
    with OutputCache.open(path, max_bytes=max_bytes) as cache:
        verdict = cache.store.verify()
        assert verdict.is_whole, verdict
        found = {number: cache.look(make_request(x=number)) for number in numbers}
        kept = [number for number, one in found.items() if one]
        assert all(one.answer.body.decode() == body_of(n) for n, one in found.items() if one)
        assert verdict.num_entries >= len(kept)
    return kept


def kill_one(path: Path, delay_s: float, first: int, max_bytes: int, *, waits: bool) -> int:
    """Let a child write from a number on, kill it; give the number after the last it finished.

    Args:
        waits: until it has written once, so that the kill comes in the middle of writes; else it
            may come while the file is made or opened.
    """
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        with OutputCache.open(path, max_bytes=max_bytes) as cache:
            for number in count(first):
                write(cache, number)
                os.write(done, b".")
    os.close(done)
    finished = first + (len(os.read(ready, 1)) if waits else 0)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    finished += len(os.read(ready, 2**16))
    os.close(ready)
    return finished


def kill_many(folder: Path, seed: int, times: int, max_bytes: int = MAX_BYTES) -> None:
    """Kill writers at random points, those while the file is made included."""
    chosen, number, num_kept = random.Random(seed), 0, 0
    for turn in range(times):
        path = folder / f"store {turn // 20}"
        first, delay_s = number, chosen.uniform(0, 0.02)
        number = kill_one(path, delay_s, first, max_bytes, waits=turn % 5 > 0)
        kept = check(path, range(first, number + 1), max_bytes)
        if max_bytes == MAX_BYTES:
            # A kill loses nothing that was finished; one more may be in.
            assert kept[: number - first] == list(range(first, number)), (kept, first, number)
        num_kept += len(kept)
        number += 1
    litter = [name for name in os.listdir(folder) if not name.startswith(("store", ".samebits."))]
    assert litter == []
    print(f"{times} kills, {num_kept} kept")


def race(folder: Path, num_processes: int, num_writes: int) -> None:
    """Let processes make and fill one store at once, each with the same and with own numbers."""
    path, children = folder / "store", []
    for which in range(num_processes):
        child = os.fork()
        if child == 0:
            with OutputCache.open(path) as cache:
                for number in range(num_writes):
                    write(cache, number)
                    write(cache, (which + 1) * 10_000 + number)
                tally = cache.tally()
            os._exit(1 if tally.unstored or tally.unread or tally.damaged else 0)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert codes == [0] * num_processes, codes
    starts = [0, *((which + 1) * 10_000 for which in range(num_processes))]
    for start in starts:
        kept = check(path, range(start, start + num_writes), MAX_BYTES)
        assert kept == list(range(start, start + num_writes))
    print("raced")


def fork(folder: Path) -> None:
    """Go on in parent and child after a fork."""
    with OutputCache.open(folder / "store") as cache:
        write(cache, 0)
        child = os.fork()
        mine = 1 if child else 2
        for turn in range(20):
            assert cache.fetch(make_request(x=0), Computing()).outcome == "hit"
            write(cache, mine * 100 + turn)
        if child == 0:
            os._exit(0 if not cache.tally().unstored else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not cache.tally().unstored
    for start in (100, 200):
        assert len(check(folder / "store", range(start, start + 20), MAX_BYTES)) == 20
    print("forked")


def fork_inside(folder: Path) -> None:
    """Fork while a connection is in use: the child answers and leaves the file alone."""
    with OutputCache.open(folder / "store") as cache:
        write(cache, 0)
        with cache.store.connections.lend():
            child = os.fork()
            if child == 0:
                found = cache.fetch(make_request(x=0), Computing())
                os._exit(0 if (found.outcome, found.trouble) == ("miss", "forked") else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert cache.fetch(make_request(x=0), Computing()).outcome == "hit"
    print("forked inside")


def fork_leading(folder: Path) -> None:
    """Fork in the middle of a computation: the child waits for no thread that it has not."""
    with OutputCache.open(folder / "store") as cache:

        def compute() -> Answer:
            child = os.fork()
            if child == 0:
                del cache.sharing.nesting.depth
                found = cache.fetch(make_request(x=0), Computing())
                os._exit(0 if found.outcome == "miss" else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            return make_answer("of the parent")

        assert cache.fetch(make_request(x=0), compute).answer.body == b"of the parent"
    print("forked leading")


def fill_disk(folder: Path) -> None:
    """Write until the disk takes no more: answers are given, what was kept stays."""
    path, number = folder / "store", 0
    with OutputCache.open(path) as cache:
        while not cache.tally().unstored:
            found = cache.fetch(make_request(x=number), lambda: make_answer("x" * 20_000))
            assert found.answer.body == b"x" * 20_000
            number += 1
            assert number < 10_000
        trouble = found.trouble
        kept = [cache.look(make_request(x=x)) for x in range(number)]
        assert all(one and one.answer.body == b"x" * 20_000 for one in kept[: number - 1])
        assert cache.store.verify().is_whole
    with OutputCache.open(path) as cache:
        assert cache.store.verify().is_whole
        assert cache.look(make_request(x=0))
    print(f"{trouble} after {number - 1}")


def read_only(folder: Path) -> None:
    """Use a store that takes no writes."""
    with OutputCache.open(folder / "store") as cache:
        assert cache.fetch(make_request(x=0), Computing()).outcome == "hit"
        found = cache.fetch(make_request(x=1), Computing())
        assert (found.outcome, found.answer.body) == ("miss", b"answer 1")
        assert cache.store.verify().is_whole
        print(found.trouble)


def limit_file(folder: Path, size: str) -> None:
    """Write until a file may grow no further, which is how a quota looks."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
    fill_disk(folder)


if __name__ == "__main__":
    program, place, *numbers = sys.argv[1:]
    programs = {
        "kill": lambda: kill_many(Path(place), *map(int, numbers)),
        "race": lambda: race(Path(place), *map(int, numbers)),
        "fork": lambda: fork(Path(place)),
        "fork-inside": lambda: fork_inside(Path(place)),
        "fork-leading": lambda: fork_leading(Path(place)),
        "fill": lambda: fill_disk(Path(place)),
        "read": lambda: read_only(Path(place)),
        "limit": lambda: limit_file(Path(place), *numbers),
    }
    programs[program]()
