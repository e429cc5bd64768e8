"""Requests and answers to put into caches, and a clock to turn."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits.cache import Answer, Ending, Identity, OutputCache, Request
from samebits.cache.store import SqliteStore
from samebits.record.digest import tagged_digest

SURFACE = "test/chat/v1"


def digest(name: str) -> str:
    return tagged_digest("test", name.encode())


def make_identity(**changed: Any) -> Identity:
    named = {
        "weights": digest("weights"),
        "tokenizer": digest("tokenizer"),
        "template": digest("template"),
        "setting": {"lock": digest("lock")},
    }
    return Identity(**{**named, **changed})


def make_request(*, identity: Identity | None = None, **body: Any) -> Request:
    """A greedy chat request; further fields replace its own."""
    whole = {
        "model": "tiny",
        "temperature": 0,
        "messages": [{"role": "user", "content": "Why?"}],
        **body,
    }
    return Request(surface=SURFACE, body=whole, identity=identity or make_identity())


def make_answer(body: str = "Because.", **ending: Any) -> Answer:
    return Answer(body=body.encode(), ending=Ending(**ending))


class Computing:
    """Answers with a number that counts its calls."""

    def __init__(self, make: Callable[[str], Answer] = make_answer) -> None:
        self.num_calls = 0
        self.make = make

    def __call__(self) -> Answer:
        self.num_calls += 1
        return self.make(f"answer {self.num_calls}")


def open_cache(folder: Path, **options: Any) -> OutputCache:
    return OutputCache.open(folder / "outputs.sqlite3", **options)


class Clock:
    """A clock that stands until it is turned."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


def open_with_clock(folder: Path, clock: Clock, **options: Any) -> OutputCache:
    return OutputCache(SqliteStore(folder / "outputs.sqlite3"), clock=clock, **options)
