"""samebits in the race: its decoder, in chunks of 256 tokens as the engine cuts prompts."""

import argparse
from pathlib import Path

import numpy as np

from bench.contender import Ids, serve
from bench.workload import Context, load_decoder
from samebits.numerics.order_free import OrderFree
from samebits.numerics.select import describe_choice

CHUNK_TOKENS = 256


class Samebits:
    """See contender.py."""

    def __init__(self, model: Path, arithmetic: str, bits: int, threads: int) -> None:
        self.decoder = load_decoder(model, arithmetic, bits=bits, threads=threads)
        self.size = (1, 1)
        self.context = Context(self.decoder, capacity=1)

    def describe(self) -> str:
        """Give the kernels in use."""
        choice = describe_choice(self.decoder.arithmetic)
        return f"kernels {choice.kernels} {choice.level}, {choice.threads} threads"

    def clear(self, num_sequences: int, capacity: int) -> None:
        """Write over the old tokens, as the engine does; make new caches for another size."""
        if self.size != (num_sequences, capacity):
            self.size = (num_sequences, capacity)
            self.context = Context(self.decoder, capacity=capacity, num_sequences=num_sequences)
        self.context.length = 0

    def rewind(self, length: int) -> None:
        """Write over later tokens."""
        self.context.length = length

    def append(self, token_ids: Ids) -> Ids:
        """Run a step, or several for a long prompt."""
        size = max(1, CHUNK_TOKENS // len(token_ids))
        for start in range(0, token_ids.shape[1], size):
            logits = self.context.append(token_ids[:, start : start + size])
        if isinstance(self.decoder.arithmetic, OrderFree):
            return self.decoder.arithmetic.kernels.argmax(logits)
        best: Ids = np.argmax(logits, axis=1)
        return best


def main() -> None:
    """Serve one arithmetic."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--arithmetic", default="sb1")
    parser.add_argument("--bits", type=int, default=16)
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    serve(lambda: Samebits(args.model, args.arithmetic, args.bits, args.threads))


if __name__ == "__main__":
    main()
