"""Speed side by side: samebits, llama.cpp and transformers on the same file, in turns.

    python -m bench.speed MODEL.gguf --peers-python PEERS/bin/python [--rounds 7] [--write]

Each engine lives in a process of its own and takes its turns between those of the others, so that
a machine that warms up or is disturbed hits all alike; every other round runs backwards. What
counts are the ratios of turns of the same round. Same tokens, same context, greedy, the logits of
the last position only; loading and the prompts before a decode are not timed. Run it on a quiet
machine: some 15 minutes. The peers' environment takes 20 minutes to build on two cores:

    python -m venv PEERS && PEERS/bin/pip install llama-cpp-python==0.3.36

transformers, torch and accelerate are those of this Python (the extra `bench`). --write puts the
tables into docs/speed.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any, NamedTuple

from bench.page import (
    ROOT,
    describe_command,
    describe_commit,
    describe_machine,
    describe_packages,
    make_table,
    write_between,
)
from bench.workload import read_token_ids

REST_S = 0.2
"""Pause before a turn: threads of the engine before may still spin."""
LOG_CHARACTERS = 2000
"""Of a process that failed, to show."""
NUMPY_KNOBS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


class Task(NamedTuple):
    """What each engine does in a turn."""

    name: str
    batch: int
    prompt: int
    """Tokens of each sequence's prompt."""
    steps: int
    """Greedy steps after it; 0 times the prompt itself."""

    @property
    def num_tokens(self) -> int:
        """Tokens of a turn, for tokens/s."""
        return self.batch * (self.steps or self.prompt)


TASKS = {
    "prefill": Task("prefill, 512 tokens", 1, 512, 0),
    "decode1": Task("decode, batch 1, after 256 tokens", 1, 256, 48),
    "decode32": Task("decode, batch 32, after 128 tokens each", 32, 128, 12),
}


class Wanted(NamedTuple):
    """A ratio to show: of ours to the best variant of a peer."""

    task: str
    ours: str
    peers: tuple[str, ...]
    at_least: float | None
    """None: for information."""


F16 = ("llama.cpp F16", "llama.cpp F16 fa")
Q8 = ("llama.cpp Q8_0", "llama.cpp Q8_0 fa")
WANTED = (
    Wanted("decode1", "sb1 w16", F16, 1.0),
    Wanted("decode1", "sb1 w8", Q8, 1.0),
    Wanted("prefill", "sb1 w16", ("transformers float32",), 1.0),
    Wanted("decode32", "sb1 w16", ("transformers float32",), 2.0),
    Wanted("prefill", "sb1 w8", ("transformers float32",), None),
    Wanted("prefill", "sb1 w16", F16, None),
    Wanted("prefill", "sb1 w8", Q8, None),
    Wanted("decode1", "sb1 w16", ("transformers float32",), None),
    Wanted("decode32", "sb1 w8", ("transformers float32",), None),
    Wanted("decode32", "sb1 w16", F16, None),
    Wanted("decode32", "sb1 w8", Q8, None),
)


def list_commands(args: argparse.Namespace) -> dict[str, list[str]]:
    """Give the command of each contender's process."""
    shared = [str(args.model.resolve()), "--threads", str(args.threads)]
    ours = [sys.executable, "-m", "bench.speed_samebits", *shared]
    commands = {"sb1 w16": ours, "sb1 w8": [*ours, "--bits", "8"]}
    if args.peers_python is not None:
        llama = [args.peers_python, "-m", "bench.speed_llama", *shared]
        llama += ["--folder", str(args.folder.resolve())]
        for kind in ("F16", "Q8_0"):
            commands[f"llama.cpp {kind}"] = [*llama, "--kind", kind]
            commands[f"llama.cpp {kind} fa"] = [*llama, "--kind", kind, "--flash-attention"]
    commands["transformers float32"] = [sys.executable, "-m", "bench.speed_transformers", *shared]
    return commands


class Worker:
    """One contender's process."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        """Start it and wait until its model is loaded."""
        self.name = name
        numpy_too = name.startswith("sb1")
        self.log = TemporaryFile()  # noqa: SIM115 (closed with the worker)
        env = {k: v for k, v in os.environ.items() if not (numpy_too and k in NUMPY_KNOBS)}
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        self.description = str(self.read()["ready"])

    def __enter__(self) -> "Worker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        self.log.close()

    def read(self) -> dict[str, Any]:
        """Read an answer."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.log.seek(0)
            said = self.log.read().decode(errors="replace")[-LOG_CHARACTERS:]
            raise SystemExit(
                f"{said}\nexpected an answer from {self.name}; found its process ended"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def turn(self, task: Task, prompts: list[list[int]]) -> float:
        """Give the tokens/s of one turn."""
        order = {"task": "decode" if task.steps else "prefill", "steps": task.steps}
        assert self.process.stdin is not None
        print(json.dumps({**order, "prompts": prompts}), file=self.process.stdin, flush=True)
        return task.num_tokens / float(self.read()["seconds"])


Rates = dict[tuple[str, str], list[float]]
"""By task and contender: tokens/s of each round."""


def race(
    workers: Sequence[Worker], tasks: Sequence[str], token_ids: list[int], rounds: int
) -> Rates:
    """Let all take turns; the first round of each task only warms up."""
    rates: Rates = {(task, worker.name): [] for task in tasks for worker in workers}
    for task in tasks:
        prompts = cut_prompts(TASKS[task], token_ids)
        for number in range(rounds + 1):
            for worker in workers if number % 2 else reversed(workers):
                time.sleep(REST_S)
                rate = worker.turn(TASKS[task], prompts)
                if number:
                    rates[task, worker.name].append(rate)
                print(
                    f"{task} {number}/{rounds} {worker.name}: {rate:.1f} tokens/s", file=sys.stderr
                )
    return rates


def cut_prompts(task: Task, token_ids: list[int]) -> list[list[int]]:
    """Take a window of the text for each sequence."""
    shift = (len(token_ids) - task.prompt) // task.batch
    return [token_ids[i * shift : i * shift + task.prompt] for i in range(task.batch)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One comparison, done."""

    wanted: Wanted
    peer: str
    """The variant that was faster."""
    ours: float
    """Median tokens/s."""
    theirs: float
    ratios: list[float]

    @property
    def verdict(self) -> str:
        """Say whether the wanted ratio is reached."""
        if self.wanted.at_least is None:
            return ""
        reached = median(self.ratios) >= self.wanted.at_least
        return f"≥ {self.wanted.at_least:.1f} {'reached' if reached else 'not reached'}"


def compare(rates: Rates) -> Iterator[Ratio]:
    """Give every comparison whose contenders ran."""
    for wanted in WANTED:
        variants = [peer for peer in wanted.peers if (wanted.task, peer) in rates]
        if not variants or (wanted.task, wanted.ours) not in rates:
            continue
        peer = max(variants, key=lambda name: median(rates[wanted.task, name]))
        ours, theirs = rates[wanted.task, wanted.ours], rates[wanted.task, peer]
        yield Ratio(
            wanted=wanted,
            peer=peer,
            ours=median(ours),
            theirs=median(theirs),
            ratios=[a / b for a, b in zip(ours, theirs, strict=True)],
        )


def make_ratio_table(rates: Rates) -> str:
    """Write the comparisons."""
    header = ["task", "ours", "peer", "ours tok/s", "peer tok/s", "ratio", "min", "max", "wanted"]
    rows = [
        [
            TASKS[r.wanted.task].name,
            r.wanted.ours,
            r.peer,
            f"{r.ours:.1f}",
            f"{r.theirs:.1f}",
            f"{median(r.ratios):.2f}",
            f"{min(r.ratios):.2f}",
            f"{max(r.ratios):.2f}",
            r.verdict,
        ]
        for r in compare(rates)
    ]
    return make_table(header, rows)


def make_rate_table(rates: Rates, workers: Sequence[Worker], tasks: Sequence[str]) -> str:
    """Write everybody's tokens/s: median, then least and most."""
    rows = []
    for worker in workers:
        each = [rates[task, worker.name] for task in tasks]
        cells = [f"{median(r):.1f} ({min(r):.1f} to {max(r):.1f})" for r in each]
        rows.append([worker.name, *cells])
    return make_table(["tokens/s", *(TASKS[task].name for task in tasks)], rows)


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--peers-python", help="a Python with llama-cpp-python; none: left out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tasks", nargs="+", choices=tuple(TASKS), default=list(TASKS))
    parser.add_argument("--only", nargs="+", metavar="NAME", help="contenders; default: all")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "bench", help="for the F16 and Q8_0 files"
    )
    parser.add_argument("--write", action="store_true", help="put the tables into docs/speed.md")
    return parser.parse_args()


def main() -> None:
    """Race, print, and write if asked."""
    args = read_arguments()
    place = (describe_machine(), describe_packages("samebits", "numpy"), describe_commit())
    commands = list_commands(args)
    if args.peers_python is None:
        print("llama.cpp is left out: no --peers-python", file=sys.stderr)
    unknown = set(args.only or ()) - set(commands)
    if unknown:
        raise SystemExit(f"expected some of {', '.join(commands)}; found {', '.join(unknown)}")
    token_ids = [int(token_id) for token_id in read_token_ids(args.model, 2500)]
    with ExitStack() as stack:
        workers = [
            stack.enter_context(Worker(name, command))
            for name, command in commands.items()
            if args.only is None or name in args.only
        ]
        rates = race(workers, args.tasks, token_ids, args.rounds)
        settings = "\n".join(f"- {worker.name}: {worker.description}" for worker in workers)
        rate_table = make_rate_table(rates, workers, args.tasks)
    command = f"{args.rounds} rounds, `{describe_command('bench.speed')}`"
    text = "\n\n".join(
        [make_ratio_table(rates), rate_table, settings, f"{'; '.join(place)}; {command}"]
    )
    print(text)
    if args.write:
        write_between(ROOT / "docs" / "speed.md", "speed", text)


if __name__ == "__main__":
    main()
