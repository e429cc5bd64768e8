"""What one engine does in the race, and the process around it: a line of JSON in, a line out.

The process stays alive between its turns, so that loading is never timed. Runs under any Python
with NumPy: the peers have environments of their own.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Contender(Protocol):
    """One engine with one model in memory. Every step ends with the best token of each sequence."""

    def describe(self) -> str:
        """Give versions and settings in a line."""
        ...

    def clear(self, num_sequences: int, capacity: int) -> None:
        """Forget all tokens; make room for `capacity` tokens in each of so many sequences."""
        ...

    def rewind(self, length: int) -> None:
        """Keep the first tokens of every sequence."""
        ...

    def append(self, token_ids: Ids) -> Ids:
        """Add (S, T) tokens; give the (S,) most likely next ones."""
        ...


class Turns:
    """Take turns with a contender.

    A decode turn starts from the same tokens each time, computed once and kept.
    """

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.held: Ids | None = None
        self.best: Ids | None = None

    def prefill(self, prompts: Ids) -> float:
        """Give the seconds that a new prompt (1, T) takes, to its first token."""
        self.held = None
        self.contender.clear(1, prompts.shape[1])
        start = time.perf_counter()
        self.contender.append(prompts)
        return time.perf_counter() - start

    def decode(self, prompts: Ids, steps: int) -> float:
        """Give the seconds of so many greedy steps after prompts (S, T)."""
        num_sequences, length = prompts.shape
        if self.held is None or not np.array_equal(self.held, prompts):
            self.contender.clear(num_sequences, length + steps)
            self.best = self.contender.append(prompts)
            self.held = prompts
        self.contender.rewind(length)
        best = self.best
        assert best is not None
        start = time.perf_counter()
        for _ in range(steps):
            best = self.contender.append(best[:, None])
        return time.perf_counter() - start


def take_turn(turns: Turns, order: dict[str, Any]) -> float:
    """Do what one line asks for."""
    prompts = np.array(order["prompts"], np.int64)
    if order["task"] == "prefill":
        return turns.prefill(prompts)
    return turns.decode(prompts, order["steps"])


def serve(make: Callable[[], Contender]) -> None:
    """Load, say so, then take turns until the input ends."""
    answers = claim_output()
    contender = make()
    print(json.dumps({"ready": contender.describe()}), file=answers, flush=True)
    turns = Turns(contender)
    for line in sys.stdin:
        seconds = take_turn(turns, json.loads(line))
        print(json.dumps({"seconds": seconds}), file=answers, flush=True)


def claim_output() -> TextIO:
    """Keep standard output for answers; whatever a library prints goes to standard error."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers
