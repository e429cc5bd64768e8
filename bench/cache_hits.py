"""Hits a second of an output cache: one process, one core, entries in SQLite's page cache.

    PYTHONPATH=. python -m bench.cache_hits [--entries 1000] [--answer-bytes 2000] [--seconds 3]

Seconds are those of the process's own processor time. A fetch is a whole hit: the key is made from
the request, the row is read, its checksum is made anew, the answer is given as bytes. Entries are
asked in random order.
"""

import argparse
import os
import platform
import random
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from samebits.cache import Answer, Identity, OutputCache, Request
from samebits.cache.key import make_key
from samebits.lock.processor import read_processor

BLOCK = 100
"""Calls timed at once."""
DIGEST = "sha256:" + "0123456789abcdef" * 4


def make_request(number: int, identity: Identity) -> Request:
    """Make a chat request of about 700 bytes."""
    return Request(
        surface="openai/chat.completions",
        body={
            "model": "smollm2",
            "messages": [
                {"role": "system", "content": "You answer briefly and name your sources. " * 4},
                {"role": "user", "content": f"Question {number}: what changed in it? " * 8},
            ],
            "temperature": 0,
            "max_tokens": 512,
            "top_p": 1.0,
            "stop": ["\n\n"],
        },
        identity=identity,
    )


def time_calls(call: Callable[[int], object], num_entries: int, seconds: float) -> float:
    """Give calls a second of processor time, each for a number drawn beforehand.

    The best block counts: what else runs on the machine only makes blocks slower. Blocks are short,
    a few milliseconds, so that some run from end to end before another process has its turn and
    leaves the processor's caches full of its own; each asks other entries than the one before.
    """
    draw = random.Random(1)
    best, end = 0.0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        order = draw.choices(range(num_entries), k=BLOCK)
        start = time.process_time()
        for number in order:
            call(number)
        best = max(best, BLOCK / (time.process_time() - start))
    return best


def refuse() -> Answer:
    """Fail: every call must be a hit."""
    raise AssertionError("a miss")


def main() -> None:
    """Fill a store, then hit it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--entries", type=int, default=1000)
    parser.add_argument("--answer-bytes", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=3.0)
    args = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    identity = Identity(weights=DIGEST, tokenizer=DIGEST, template=DIGEST, setting={"lock": DIGEST})
    requests = [make_request(number, identity) for number in range(args.entries)]
    keys = [make_key(request).digest for request in requests]
    body = random.Random(0).randbytes(args.answer_bytes // 2).hex().encode()
    with (
        tempfile.TemporaryDirectory() as folder,
        OutputCache.open(Path(folder) / "outputs.sqlite3") as cache,
    ):
        start = time.perf_counter()
        for request in requests:
            cache.fetch(request, lambda: Answer(body=body))
        stored = args.entries / (time.perf_counter() - start)
        rates = {
            "fetch: key, row, checksum, answer": lambda n: cache.fetch(requests[n], refuse),
            "look: the same without sharing": lambda n: cache.look(requests[n]),
            "store.get: row and checksum": lambda n: cache.store.get(keys[n]),
            "make_key": lambda n: make_key(requests[n]),
        }
        print(f"processor  {read_processor().name}, one core")
        print(f"python     {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
        print(f"entries    {args.entries}, answers of {len(body)} bytes")
        print(f"stored     {stored:9,.0f} a second")
        for name, call in rates.items():
            print(f"{time_calls(call, args.entries, args.seconds):9,.0f} a second  {name}")


if __name__ == "__main__":
    main()
