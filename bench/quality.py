"""How far each arithmetic is from float64: KL divergence, perplexity, agreement on the best token.

    python -m bench.quality MODEL.gguf [--only sb1-w16] [--write]

All read the same text in one context, chunk by chunk in lockstep. Weights are those the file
decodes to; `sb1` and the narrow floats then round them. --write puts the table into
docs/quality.md. Exits with 1 if `sb1-w16` misses the limits below. About 4 GB of memory.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.page import (
    ROOT,
    describe_command,
    describe_commit,
    describe_machine,
    describe_packages,
    make_table,
    write_between,
)
from bench.workload import MIXED_TEXT, Context, read_token_ids
from samebits.model.decoder import Decoder
from samebits.model.files import open_model
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.plain import Plain
from samebits.numerics.select import select_arithmetic

F64 = NDArray[np.float64]
Measured = dict[str, "Distances"]

MAX_MEAN_KL = 4e-6
MAX_PERPLEXITY_CHANGE = 0.0005
MAX_GROWTH = 3.0
"""Mean KL over the last tokens, relative to the mean over all: more would be growth."""
LAST = 500
CHUNK_TOKENS = 100


class PlainF16(Plain):
    """float16 for comparison: stored in float16, summed in float32, as plain-bf16 does."""

    def __init__(self, *, threads: int) -> None:
        super().__init__("plain-f32", threads=threads)
        self.name = "plain-f16"

    def store(self, x: NDArray[Any]) -> NDArray[Any]:
        """Round to the nearest float16; overflow becomes infinite, as it would."""
        return x.astype(np.float16).astype(np.float32)


CONTENDERS: dict[str, Callable[[int], Arithmetic]] = {
    "sb1-w16": lambda threads: select_arithmetic("sb1", bits=16, threads=threads),
    "sb1-w8": lambda threads: select_arithmetic("sb1", bits=8, threads=threads),
    "plain-f32": lambda threads: Plain("plain-f32", threads=threads),
    "plain-f16": lambda threads: PlainF16(threads=threads),
    "plain-bf16": lambda threads: Plain("plain-bf16", threads=threads),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """What one arithmetic's logits say, position by position, next to float64."""

    kl: F64
    """(T,), nats: KL(float64 || this)."""
    loss: F64
    """(T - 1,), nats: of the token that follows."""
    agrees: NDArray[np.bool_]
    """(T,): whether the most likely token is the same."""

    @property
    def perplexity(self) -> float:
        """Exp of the mean loss."""
        return float(np.exp(self.loss.mean()))

    @property
    def last_kl(self) -> float:
        """Mean KL over the last tokens."""
        return float(self.kl[-LAST:].mean())


def log_softmax(logits: NDArray[np.float32]) -> F64:
    """(T, V) to float64 (T, V)."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=-1, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return shifted


def compare(exact: F64, other: F64, following: NDArray[np.int64]) -> Distances:
    """Compare log-probabilities of a chunk; `following` may be one shorter, at the text's end."""
    at = np.arange(len(following))
    return Distances(
        kl=(np.exp(exact) * (exact - other)).sum(axis=-1),
        loss=-other[at, following],
        agrees=exact.argmax(axis=-1) == other.argmax(axis=-1),
    )


def join(parts: list[Distances]) -> Distances:
    """Put chunks one after another."""
    return Distances(
        kl=np.concatenate([part.kl for part in parts]),
        loss=np.concatenate([part.loss for part in parts]),
        agrees=np.concatenate([part.agrees for part in parts]),
    )


def walk(decoder: Decoder, token_ids: NDArray[np.int64]) -> Iterator[F64]:
    """Give the log-probabilities after every token, a chunk at a time."""
    context = Context(decoder, capacity=len(token_ids))
    for start in range(0, len(token_ids), CHUNK_TOKENS):
        ids = token_ids[None, start : start + CHUNK_TOKENS]
        yield log_softmax(context.append(ids, all_rows=True))


def measure(model: Path, token_ids: NDArray[np.int64], names: list[str], threads: int) -> Measured:
    """Read the text under float64 and under each of the names, in lockstep."""
    files = open_model(model)
    makers = {"plain-f64": lambda n: Plain("plain-f64", threads=n), **CONTENDERS}
    walks = {
        name: walk(Decoder(files.config, files.tensors, makers[name](threads)), token_ids)
        for name in ("plain-f64", *names)
    }
    parts: dict[str, list[Distances]] = {name: [] for name in walks}
    for start in range(0, len(token_ids), CHUNK_TOKENS):
        following = token_ids[start + 1 : start + 1 + CHUNK_TOKENS]
        exact = next(walks["plain-f64"])
        for name in walks:
            other = exact if name == "plain-f64" else next(walks[name])
            parts[name].append(compare(exact, other, following))
        print(f"\r{start + len(exact)} of {len(token_ids)} tokens", end="", file=sys.stderr)
    print(file=sys.stderr)
    return {name: join(each) for name, each in parts.items()}


def make_page_table(measured: Measured) -> str:
    """Write the table, float64 first."""
    exact = measured["plain-f64"].perplexity
    header = ["arithmetic", "mean KL", f"last {LAST}", "max KL", "perplexity", "change", "top-1"]
    rows = [
        [
            name,
            f"{d.kl.mean():.1e}",
            f"{d.last_kl:.1e}",
            f"{d.kl.max():.1e}",
            f"{d.perplexity:.4f}",
            f"{d.perplexity / exact - 1:+.4%}",
            f"{d.agrees.mean():.4f}",
        ]
        for name, d in measured.items()
    ]
    return make_table(header, rows)


def find_misses(distances: Distances, exact: Distances) -> list[str]:
    """Say which limits an arithmetic misses."""
    change = abs(distances.perplexity / exact.perplexity - 1)
    growth = distances.last_kl / distances.kl.mean()
    found = {
        f"mean KL {distances.kl.mean():.1e} > {MAX_MEAN_KL:.1e}": distances.kl.mean() > MAX_MEAN_KL,
        f"perplexity moved by {change:.3%}": change > MAX_PERPLEXITY_CHANGE,
        f"mean KL of the last {LAST} is {growth:.1f} of the mean": growth > MAX_GROWTH,
    }
    return [text for text, is_missed in found.items() if is_missed]


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=2500)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", nargs="+", choices=tuple(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--write", action="store_true", help="put the table into docs/quality.md")
    return parser.parse_args()


def main() -> int:
    """Measure, print, and say whether the limits hold."""
    args = read_arguments()
    place = (describe_machine(), describe_packages("samebits", "numpy"), describe_commit())
    token_ids = read_token_ids(args.model, args.tokens)
    measured = measure(args.model, token_ids, args.only, args.threads)
    text = "\n\n".join(
        [
            f"{args.model.name}, {len(token_ids)} tokens of {MIXED_TEXT.name} in one context.",
            make_page_table(measured),
            f"{'; '.join(place)}; `{describe_command('bench.quality')}`",
        ]
    )
    print(text)
    if args.write:
        write_between(ROOT / "docs" / "quality.md", "quality", text)
    if "sb1-w16" not in measured:
        return 0
    misses = find_misses(measured["sb1-w16"], measured["plain-f64"])
    print("\nsb1-w16: " + ("; ".join(misses) or "within the limits"))
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
