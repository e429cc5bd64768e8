"""Where the time of a step goes: each operation's share of decode steps and of prefill chunks.

    python -m bench.profile_decode MODEL.gguf [--weights w8] [--arithmetic plain-f32] [--cpu-time]

Run by a person; prints tables. Linears and attention come with the bytes they must move and their
multiplications, to hold against the machine's memory and arithmetic. Operations are called one by
one to be timed; the heading has also the time of steps as they really run. On a busy machine use
--threads 1 --cpu-time: it counts processor time, which neighbours disturb less.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from bench.workload import Context, load_decoder
from samebits.model.decoder import Decoder
from samebits.numerics.arithmetic import Arithmetic, Array, Walk
from samebits.numerics.values import Rows

Ids = NDArray[np.int64]
Clock = Callable[[], float]
Work = Mapping[str, tuple[float, float]]
"""By label: bytes and multiplications of one call."""
LINEARS = ("qkv", "o", "gate_up", "down")
OPERATIONS = ("embed", "linear", "rms_norm", "rope_append", "attention", "gate", "add", "logits")


class Measured(NamedTuple):
    """Times of some steps."""

    watch: "Stopwatch"
    total_s: float
    """Of all steps under the stopwatch."""
    whole_s: float
    """Of as many steps as they really run."""


class Stopwatch:
    """Stand in for an Arithmetic, timing each operation by its label.

    Attributes:
        inner: The arithmetic. names: Labels of weights by identity. clock: Gives seconds.
        seconds, calls: Of each label, since the start.
    """

    def __init__(self, inner: Arithmetic, names: Mapping[int, str], clock: Clock) -> None:
        self.inner = inner
        self.names = names
        self.clock = clock
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)
        for name in OPERATIONS:
            setattr(self, name, self.watch(name, getattr(inner, name)))

    def watch(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Time every call; a linear goes by the name of its weight."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            start = self.clock()
            result = function(*args, **kwargs)
            label = self.names.get(id(args[1]), name) if len(args) > 1 else name
            self.seconds[label] += self.clock() - start
            self.calls[label] += 1
            return result

        return timed

    def run(self, walk: Walk, x: Array, rows: Rows, cache: Sequence[Any]) -> Array:
        """Walk operation by operation."""
        result: Array = walk(self, x, rows, cache)
        return result


def name_weights(decoder: Decoder) -> dict[int, str]:
    """Name each linear's weight by its identity."""
    names = {id(decoder.head): "linear head"}
    for layer in decoder.layers:
        names |= {id(getattr(layer, name)): f"linear {name}" for name in LINEARS}
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is done in each step."""

    batch: int
    tokens: int
    """Tokens of each sequence in a step."""
    before: int
    """Tokens of each sequence before the first timed step."""
    rounds: int


def count_work(decoder: Decoder, shape: Shape) -> dict[str, tuple[float, float]]:
    """Give, by label, the bytes that one call must read and the multiplications it makes."""
    work: dict[str, tuple[float, float]] = {}
    weights = {f"linear {name}": getattr(decoder.layers[0], name) for name in LINEARS}
    for name, weight in {**weights, "linear head": decoder.head}.items():
        arrays = decoder.arithmetic.weight_arrays(weight)
        rows = shape.batch * (1 if weight is decoder.head else shape.tokens)
        work[name] = (sum(a.nbytes for a in arrays), rows * arrays[0].size)
    c = decoder.config
    mean_context = shape.before + shape.tokens * shape.rounds / 2
    pairs = shape.batch * mean_context * 2 * c.head_dim
    element_bytes = 2 if decoder.arithmetic.name == "sb1" else 4
    work["attention"] = (
        element_bytes * pairs * c.num_kv_heads,
        pairs * shape.tokens * c.num_heads,
    )
    return work


def measure(context: Context, ids: Ids, shape: Shape, clock: Clock) -> Measured:
    """Run steps as they are, then under a stopwatch."""
    decoder = context.decoder
    whole = time_steps(context, ids, shape, clock)
    watch = Stopwatch(decoder.arithmetic, name_weights(decoder), clock)
    decoder.arithmetic = cast(Arithmetic, watch)
    total = time_steps(context, ids, shape, clock)
    decoder.arithmetic = watch.inner
    return Measured(watch, total, whole)


def time_steps(context: Context, ids: Ids, shape: Shape, clock: Clock) -> float:
    """Give the seconds of all steps."""
    context.length = shape.before
    start = clock()
    for _ in range(shape.rounds):
        context.append(ids)
    return clock() - start


def print_shares(title: str, measured: Measured, work: Work, rounds: int) -> None:
    """Print one table, largest share first."""
    watch, total, whole = measured
    each = f"{whole / rounds * 1e3:.2f} ms a step; one by one {total / rounds * 1e3:.2f} ms"
    print(f"\n### {title}: {each}\n")
    print("| operation | calls a step | ms a step | share | GB/s | GMAC/s |")
    print("|---|--:|--:|--:|--:|--:|")
    for label, seconds in sorted(watch.seconds.items(), key=lambda item: -item[1]):
        calls = watch.calls[label]
        rates = " | "
        if label in work:
            rates = " | ".join(f"{each * calls / seconds / 1e9:.1f}" for each in work[label])
        print(f"| {label} | {calls / rounds:.0f} | {share(seconds, total, rounds)} | {rates} |")
    rest = total - sum(watch.seconds.values())
    print(f"| rest: Python, embedding rows | | {share(rest, total, rounds)} | | |")


def share(seconds: float, total: float, rounds: int) -> str:
    """Write a time as milliseconds a step and as a share."""
    return f"{seconds / rounds * 1e3:.3f} | {seconds / total:.1%}"


def profile(decoder: Decoder, title: str, shape: Shape, clock: Clock) -> None:
    """Measure and print, after one step to warm up.

    Pages of zeros stand for the tokens before: a step's time does not depend on their values.
    """
    context = Context(
        decoder,
        capacity=shape.before + shape.tokens * shape.rounds,
        num_sequences=shape.batch,
    )
    size = (shape.batch, shape.tokens)
    ids = np.random.default_rng(0).integers(0, decoder.config.vocab_size, size)
    context.length = shape.before
    context.append(ids)
    measured = measure(context, ids, shape, clock)
    print_shares(title, measured, count_work(decoder, shape), shape.rounds)


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--arithmetic", default="sb1")
    parser.add_argument("--weights", choices=("w16", "w8"), default="w16")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=256, help="tokens before the decode steps")
    parser.add_argument("--prompt", type=int, default=512, help="tokens to prefill")
    parser.add_argument("--chunk", type=int, default=256, help="tokens of a prefill chunk")
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 32])
    parser.add_argument("--rounds", type=int, default=20, help="decode steps")
    parser.add_argument("--cpu-time", action="store_true", help="count processor time")
    return parser.parse_args()


def main() -> None:
    """Print a table for each batch, and one for the prefill."""
    args = read_arguments()
    clock = time.process_time if args.cpu_time else time.perf_counter
    bits = int(args.weights[1:])
    decoder = load_decoder(args.model, args.arithmetic, bits=bits, threads=args.threads)
    print(f"{args.arithmetic} {args.weights}, {decoder.arithmetic.threads} threads")
    for batch in args.batch:
        shape = Shape(batch=batch, tokens=1, before=args.context, rounds=args.rounds)
        profile(decoder, f"decode, batch {batch}, context {args.context}", shape, clock)
    chunks = -(-args.prompt // args.chunk)
    shape = Shape(batch=1, tokens=args.chunk, before=0, rounds=chunks)
    profile(decoder, f"prefill, {chunks} chunks of {args.chunk}", shape, clock)


if __name__ == "__main__":
    main()
