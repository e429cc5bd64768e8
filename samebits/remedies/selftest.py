"""Whether the rows of one shape are computed alike: found by running it, before it is relied on.

At one shape a kernel may still treat a row by its place: in float32 on AVX2 row 7 of 8 was found to
have other bits than row 0. Two contents are read, one as long as the bucket and one of a single
token, in four batches: everywhere the one, everywhere the other, and both in turn, either way
round. A row is usable if each content has there, in each company, the bits it has in row 0 of its
own batch: of all logits at every step, and of the whole KV cache at the end. A kernel that rounds
otherwise at one row moves the last bit of some value among the cache's thousands even where the
logits hide it; in 16 bits a row of SmolLM2 rounds about 100,000 values a step.

The full row leaves no padding in its own batch and much of it beside the short one: a mask that is
dropped where it hides nothing is found too. Steps are so many that the cache's length takes every
residue of a cache line of float32 values.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from samebits.errors import ConfigError
from samebits.numerics.philox import draw_u64
from samebits.remedies.bits import is_same_bits
from samebits.remedies.fixed import lay_out
from samebits.remedies.reader import Ids, Reader

STEPS = 16
"""Decoding steps after the prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """What the test of one shape found."""

    rows: int
    bucket: int
    usable: tuple[int, ...]
    """Rows that have the bits of row 0, whatever stands beside them; 0 among them."""
    batches: int
    """Batches read: the cost, each of one prompt pass and `steps` steps."""
    steps: int
    elapsed_s: float

    @property
    def moved(self) -> tuple[int, ...]:
        """Rows where other bits were found."""
        return tuple(row for row in range(self.rows) if row not in self.usable)


def find_usable(model: Any, rows: int, bucket: int) -> SelfTest:
    """Find the usable rows of a shape; none if not even row 0 keeps its bits."""
    start = time.perf_counter()
    steps = STEPS
    full, short = make_content(bucket, 0, model), make_content(1, 1, model)
    plans = [[full] * rows, [short] * rows]
    if rows > 1:
        plans += [alternate(full, short, rows), alternate(short, full, rows)]
    truth: dict[Ids, list[Tensor]] = {}
    usable = set(range(rows))
    for plan in plans:
        seen = read(model, plan, bucket, steps)
        for row, content in enumerate(plan):
            own = [values[row] for values in seen]
            if content not in truth:
                truth[content] = [values.clone() for values in own]
            if not all(map(is_same_bits, truth[content], own)):
                usable.discard(row)
    return SelfTest(
        rows=rows,
        bucket=bucket,
        usable=tuple(sorted(usable)) if 0 in usable else (),
        batches=len(plans),
        steps=steps,
        elapsed_s=time.perf_counter() - start,
    )


def alternate(one: Ids, other: Ids, rows: int) -> list[Ids]:
    """Put two contents in turn."""
    return [(one, other)[row % 2] for row in range(rows)]


def make_content(length: int, index: int, model: Any) -> Ids:
    """Make a row of tokens, the same ones in every process."""
    size = model.get_input_embeddings().weight.shape[0]
    return tuple(draw_u64(0, index, place) % size for place in range(length))


def read(model: Any, contents: list[Ids], bucket: int, steps: int) -> list[Tensor]:
    """Read rows in a shape; (B, ...) values: the logits of every step, then the whole cache."""
    reader = Reader(model, lay_out(tuple(contents), bucket))
    seen = [reader.read_prompt()]
    for step in range(steps):
        # What follows a row is taken from the row.
        follows = [[row[step % len(row)]] for row in contents]
        seen.append(reader.feed(torch.tensor(follows, device=reader.device)))
    assert reader.cache is not None
    for layer in reader.cache.layers:
        kept = (getattr(layer, name, None) for name in ("keys", "values"))
        seen += [values for values in kept if isinstance(values, Tensor)]
    return [values for values in seen if values.shape[0] == len(contents)]


def check_usable(found: SelfTest, try_rows: Callable[[int], SelfTest]) -> SelfTest:
    """Give a test back, unless prompts would stand alone among fillers.

    Raises:
        ConfigError: Fewer than two rows are usable; the message says which number of rows serves.
    """
    if len(found.usable) >= min(2, found.rows):
        return found
    raise ConfigError(
        expected=f"rows of a batch of {found.rows} x {found.bucket} tokens with the same bits",
        found=f"other bits in {len(found.moved)} of them: {', '.join(map(str, found.moved))}",
        remedy=suggest(found.rows, try_rows),
    )


def suggest(rows: int, try_rows: Callable[[int], SelfTest]) -> str:
    """Say which smaller number of rows passes the test; it is tried."""
    while rows > 2:
        rows //= 2
        if len(try_rows(rows).usable) == rows:
            return f'rows={rows} passes the test; shape="alone" needs none.'
    return 'No smaller number of rows passes it; use shape="alone".'
