"""One decoder-only transformer for every family, under any Arithmetic.

Where families differ, ModelConfig says so; how numbers are made, the Arithmetic decides. Knows
nothing of files, requests or pages beyond the index arrays of a step (numerics/values.py, Rows).
The walk of a prompt through it is docs/walk.md.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.model.config import ModelConfig, RopeConfig
from samebits.model.layers import Layer, find_tensor, load_layer, read_vector
from samebits.model.tensor import RowSource
from samebits.numerics.arithmetic import Arithmetic, Array, Operations
from samebits.numerics.rope import Scaling, make_rope_table
from samebits.numerics.values import RopeTable, Rows
from samebits.record.canonical import canonical_bytes

DIGEST_ROWS = 4096
"""Embedding rows decoded at a time for the digest."""


def make_table(config: ModelConfig, rope: RopeConfig, arithmetic: Arithmetic) -> RopeTable:
    """Tabulate one RopeConfig for every position of the context."""
    scaling = Scaling(
        kind=rope.scaling,
        factor=rope.factor,
        low_freq_factor=rope.low_freq_factor,
        high_freq_factor=rope.high_freq_factor,
        original_context=rope.original_context,
    )
    return make_rope_table(
        config.head_dim, rope.theta, config.context_len, scaling, arithmetic.dtype
    )


class Decoder:
    """Turn token ids into logits.

    Invariant to batch, order, chunking, pages and threads exactly as far as its arithmetic is.
    """

    def __init__(
        self,
        config: ModelConfig,
        tensors: Mapping[str, RowSource],
        arithmetic: Arithmetic,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Load every weight.

        Args:
            tensors: by canonical name (model/layers.py). progress: told the fraction done.
        Raises:
            ModelFileError: A tensor is missing, of another shape, or not finite.
        """
        self.config = config
        self.arithmetic = arithmetic
        table_shape = (config.vocab_size, config.width)
        self.embedding = find_tensor(tensors, "embed", table_shape)
        ropes = {config.rope, config.rope_local or config.rope}
        tables = {rope: make_table(config, rope, arithmetic) for rope in ropes}
        tell = progress or (lambda _: None)
        self.layers: list[Layer] = []
        for index in range(config.num_layers):
            self.layers.append(load_layer(config, index, tensors, tables, arithmetic))
            tell((index + 1) / (config.num_layers + 1))
        self.norm = arithmetic.load_vector(read_vector(tensors, "norm", config.width))
        head = "embed" if config.tied_head else "head"
        self.head = arithmetic.load_linear([find_tensor(tensors, head, table_shape)])
        tell(1.0)

    def make_cache(self, *, num_pages: int, page_tokens: int) -> Sequence[Any]:
        """Build an empty key-value cache of pages, one handle a layer."""
        return self.arithmetic.make_cache(
            num_layers=self.config.num_layers,
            num_pages=num_pages,
            page_tokens=page_tokens,
            shape=self.layers[0].shape,
        )

    def forward(
        self,
        token_ids: NDArray[np.int64],
        rows: Rows,
        cache: Sequence[Any],
        picked: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Run one step: append every row to the cache, give the logits of the picked rows.

        Args:
            token_ids: (R,). rows: where each row belongs. picked: indices into the R rows.
        Returns:
            float32 (len(picked), V).
        """
        x = self.arithmetic.embed(
            self.embedding.read_picked(token_ids), self.config.embedding_scale
        )
        x = self.arithmetic.run(self.walk, x, rows, cache)
        x = self.arithmetic.rms_norm(x[picked], self.norm, self.config.norm_eps)
        return self.arithmetic.logits(x, self.head)

    def walk(self, a: Operations, x: Array, rows: Rows, cache: Sequence[Any]) -> Array:
        """Take the residual stream (R, D) through all layers."""
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            x = self.attend(a, x, layer, rows, layer_cache)
            x = self.feed_forward(a, x, layer)
        return x

    def attend(self, a: Operations, x: Array, layer: Layer, rows: Rows, cache: Any) -> Array:
        """Add the attention block to the residual stream (R, D)."""
        qkv = a.linear(a.rms_norm(x, layer.attn_norm, self.config.norm_eps), layer.qkv)
        q = a.rope_append(qkv, layer.shape, layer.head_norms, layer.table, rows, cache)
        mixed = a.attention(q, layer.shape, rows, cache)
        return self.add_block(a, x, mixed, layer.o, layer.attn_post_norm)

    def feed_forward(self, a: Operations, x: Array, layer: Layer) -> Array:
        """Add the gated feed-forward block to the residual stream (R, D)."""
        gu = a.linear(a.rms_norm(x, layer.ffn_norm, self.config.norm_eps), layer.gate_up)
        gated = a.gate(gu, self.config.activation.value)
        return self.add_block(a, x, gated, layer.down, layer.ffn_post_norm)

    def add_block(
        self, a: Operations, x: Array, y: Array, weight: Any, post_norm: Array | None
    ) -> Array:
        """Project y back to the residual width, normalise it if asked, and add it to x."""
        if post_norm is None:
            return a.linear(y, weight, residual=x)
        return a.add(x, a.rms_norm(a.linear(y, weight), post_norm, self.config.norm_eps))

    def weights_digest(self) -> str:
        """Digest the configuration and every number the weights bring in, as "sha256:<hex>".

        Under sb1 the numbers are the integers and scales in the layout of numerics/values.py, the
        norm weights, and the embedding rows as float32; it does not depend on kernels or processor.
        """
        digest = hashlib.sha256(canonical_bytes(self.config.describe()))
        for name, array in self.named_arrays():
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        return f"sha256:{digest.hexdigest()}"

    def named_arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        """Walk all weights in a fixed order."""
        num_rows = self.embedding.shape[0]
        for start in range(0, num_rows, DIGEST_ROWS):
            yield "embed", self.embedding.read_rows(start, min(start + DIGEST_ROWS, num_rows))
        for index, layer in enumerate(self.layers):
            for name, array in layer.named_arrays(self.arithmetic):
                yield f"layers.{index}.{name}", array
        yield "norm", self.norm
        for array in self.arithmetic.weight_arrays(self.head):
            yield "head", array
