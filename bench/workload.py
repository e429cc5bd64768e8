"""Steps of a decoder without an engine around it: what the benchmarks time and compare.

A text lies alone in consecutive pages; a batch has one run of pages for each sequence.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.model.decoder import Decoder
from samebits.model.files import open_model
from samebits.numerics.select import select_arithmetic
from samebits.numerics.values import Rows

PAGE_TOKENS = 64
MIXED_TEXT = Path(__file__).with_name("mixed_text.txt")


def load_decoder(model: Path, arithmetic: str, *, bits: int = 16, threads: int = 2) -> Decoder:
    """Load a model under sb1 with native kernels, or plain-f64, plain-f32 or plain-bf16.

    Raises:
        ConfigError: There are no native kernels; a slower set would be measured unseen.
    """
    files = open_model(model)
    chosen = select_arithmetic(arithmetic, bits=bits, threads=threads, kernels="native")
    return Decoder(files.config, files.tensors, chosen)


def read_token_ids(model: Path, num_tokens: int) -> NDArray[np.int64]:
    """Give the first tokens of mixed_text.txt."""
    ids = open_model(model).tokenizer.encode(MIXED_TEXT.read_text(encoding="utf-8"))
    if len(ids) < num_tokens:
        raise SystemExit(f"expected at most {len(ids)} tokens (mixed_text.txt); found {num_tokens}")
    return np.array(ids[:num_tokens], np.int64)


class Context:
    """The caches of a batch of sequences that grow in step.

    Attributes:
        decoder: The model. num_sequences: S. capacity: most tokens of each sequence.
        length: Tokens that each sequence holds.
    """

    def __init__(self, decoder: Decoder, *, capacity: int, num_sequences: int = 1) -> None:
        self.decoder = decoder
        self.num_sequences = num_sequences
        pages = -(-capacity // PAGE_TOKENS)
        self.capacity = pages * PAGE_TOKENS
        self.length = 0
        self.pages = np.arange(pages * num_sequences, dtype=np.int32).reshape(num_sequences, pages)
        self.cache: Sequence[Any] = decoder.make_cache(
            num_pages=pages * num_sequences, page_tokens=PAGE_TOKENS
        )

    def append(
        self, token_ids: NDArray[np.int64], *, all_rows: bool = False
    ) -> NDArray[np.float32]:
        """Run one step of (S, T) tokens; give the logits of the last rows, or of all.

        Returns:
            float32 (S, V), or (S * T, V).
        """
        s, t = token_ids.shape
        positions = np.tile(np.arange(self.length, self.length + t), s)
        first = np.repeat(np.arange(s) * self.capacity, t)
        rows = Rows(
            positions=positions.astype(np.int32),
            slots=(first + positions).astype(np.int64),
            starts=np.arange(0, s * t + 1, t, dtype=np.int32),
            pages=self.pages,
        )
        picked = np.arange(s * t) if all_rows else np.arange(t - 1, s * t, t)
        self.length += t
        return self.decoder.forward(token_ids.reshape(-1), rows, self.cache, picked)
