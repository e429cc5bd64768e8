"""Writes records in children and kills each at some point; prints how often a line was torn.

A program of its own: only a process without threads may fork safely.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from samebits.audit.observation import Answer
from samebits.audit.record_reader import read_record
from samebits.audit.record_writer import RecordWriter
from tests.audit.audit_records import make_header, make_observation

LONG = "a long answer " * 40_000
"""Half a megabyte, so that a kill can come in the middle of a write."""


def write_until_killed(path: Path, ready: int) -> None:
    """Write a record; say so after the first line."""
    with RecordWriter.create(path, make_header()) as writer:
        os.write(ready, b".")
        repeat = 0
        while True:
            writer.append(make_observation(Answer(text=LONG), repeat=repeat))
            repeat += 1


def kill_one(path: Path, delay_s: float) -> bool:
    """Kill a writer after a time, check what it left, go on with it; answer whether it is torn."""
    ready, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        write_until_killed(path, write_end)
    os.close(write_end)
    os.read(ready, 1)
    os.close(ready)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    before = read_record(path)
    with RecordWriter.resume(path) as writer:
        answer = make_observation(Answer(text="after"), attempt=1)
        writer.append(answer)
    after = read_record(path)
    assert after.observations[:-1] == before.observations
    assert [seen.repeat for seen in before.observations] == list(range(len(before.observations)))
    assert (after.is_torn, after.attempt) == (False, 1)
    path.unlink()
    return before.is_torn


if __name__ == "__main__":
    chosen = random.Random(int(sys.argv[2]))
    torn = [
        kill_one(Path(sys.argv[1]) / "record", chosen.uniform(0, 0.02))
        for _ in range(int(sys.argv[3]))
    ]
    print(f"{sum(torn)} torn of {len(torn)}")
