"""The bits of every operation of our decoder, for the rows of one sequence.

The same code computes; its operations are asked one by one, and what each gives is noted.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.model.decoder import Decoder
from samebits.numerics.arithmetic import Array, Operations
from samebits.numerics.values import AttentionShape, HeadNorms, RopeTable, Rows

DIGEST_BYTES = 8
LINEARS = ("qkv", "o", "gate_up", "down")
NORMS = ("attn_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm")
EMBED, NORM, HEAD = "embed", "norm", "head"


class Tape:
    """What the operations gave for one sequence.

    Attributes:
        digests: By operation, in order of execution, then by position.
        values: By operation, at position `keep`, in float64.
    """

    def __init__(self, *, last: int, keep: int) -> None:
        """Begin; positions after `last` are not noted."""
        self.last = last
        self.keep = keep
        self.digests: dict[str, dict[int, bytes]] = {}
        self.values: dict[str, NDArray[np.float64]] = {}

    def note(self, name: str, positions: Sequence[int], rows: Array) -> None:
        """Take what an operation gave at some positions; the first time at each counts."""
        known = self.digests.setdefault(name, {})
        for position, row in zip(positions, rows, strict=True):
            if position > self.last or position in known:
                continue
            # Exact for every precision: two of them agree where their numbers are the same.
            values = row.astype(np.float64).reshape(-1)
            digest = hashlib.blake2b(values.tobytes(), digest_size=DIGEST_BYTES)
            known[position] = digest.digest()
            if position == self.keep:
                self.values[name] = values


class TapedDecoder(Decoder):
    """A loaded decoder whose operations are noted for one sequence of each step."""

    def __init__(self, decoder: Decoder, tape: Tape) -> None:
        """Share everything with a loaded decoder."""
        vars(self).update(vars(decoder))
        self.tape = tape
        self.names = name_weights(decoder)
        self.locate: Callable[[], int | None] = lambda: None
        """Gives the place of the noted sequence in the step under way."""

    def forward(
        self,
        token_ids: NDArray[np.int64],
        rows: Rows,
        cache: Sequence[Any],
        picked: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Run one step as Decoder.forward does."""
        place = self.locate()
        if place is None:
            return super().forward(token_ids, rows, cache, picked)
        start, stop = (int(at) for at in rows.starts[place : place + 2])
        positions = [int(p) for p in rows.positions[start:stop]]
        scribe = Scribe(self, slice(start, stop), positions, cache)
        a, config = self.arithmetic, self.config
        x = a.embed(self.embedding.read_picked(token_ids), config.embedding_scale)
        scribe.note(EMBED, x)
        x = self.walk(scribe, x, rows, cache)
        x = a.rms_norm(x[picked], self.norm, config.norm_eps)
        logits = a.logits(x, self.head)
        ours = np.flatnonzero((picked >= start) & (picked < stop))
        at = [int(rows.positions[row]) for row in picked[ours]]
        self.tape.note(NORM, at, x[ours])
        self.tape.note(HEAD, at, logits[ours])
        return logits


def name_weights(decoder: Decoder) -> dict[int, str]:
    """Name each linear and norm of the layers, by identity."""
    return {
        id(getattr(layer, name)): f"layers.{index}.{name}"
        for index, layer in enumerate(decoder.layers)
        for name in (*LINEARS, *NORMS)
        if getattr(layer, name) is not None
    }


class Scribe:
    """Operations that note what they give; see numerics/arithmetic.py for what they are."""

    def __init__(
        self,
        decoder: TapedDecoder,
        rows: slice,
        positions: Sequence[int],
        cache: Sequence[Any],
    ) -> None:
        """Begin one step.

        Args:
            rows: The noted sequence's. positions: Theirs.
        """
        self.inner: Operations = decoder.arithmetic
        self.tape = decoder.tape
        self.names: Mapping[int, str] = decoder.names
        self.layers = {id(handle): index for index, handle in enumerate(cache)}
        self.rows = rows
        self.positions = positions
        self.latest = ""

    def note(self, name: str, y: Array) -> Array:
        """Note an operation and hand its result on."""
        self.tape.note(name, self.positions, y[self.rows])
        self.latest = name
        return y

    def linear(self, x: Array, weight: Any, residual: Array | None = None) -> Array:
        """(R, K) to (R, N)."""
        return self.note(self.names[id(weight)], self.inner.linear(x, weight, residual))

    def rms_norm(self, x: Array, weight: Array, eps: float) -> Array:
        """(R, K) to (R, K)."""
        return self.note(self.names[id(weight)], self.inner.rms_norm(x, weight, eps))

    def rope_append(
        self,
        qkv: Array,
        shape: AttentionShape,
        norms: HeadNorms | None,
        table: RopeTable,
        rows: Rows,
        cache: Any,
    ) -> Array:
        """Rotate q and k, cache k and v, return q (R, H, D)."""
        q = self.inner.rope_append(qkv, shape, norms, table, rows, cache)
        return self.note(f"layers.{self.layers[id(cache)]}.rope", q)

    def attention(self, q: Array, shape: AttentionShape, rows: Rows, cache: Any) -> Array:
        """(R, H, D) to (R, H * D)."""
        mixed = self.inner.attention(q, shape, rows, cache)
        return self.note(f"layers.{self.layers[id(cache)]}.attention", mixed)

    def gate(self, gu: Array, activation: str) -> Array:
        """(R, 2F) to (R, F)."""
        name = self.latest.removesuffix("_up")
        return self.note(name, self.inner.gate(gu, activation))

    def add(self, x: Array, y: Array) -> Array:
        """Add elementwise."""
        name = self.latest.removesuffix("_post_norm")
        return self.note(f"{name}_add", self.inner.add(x, y))
