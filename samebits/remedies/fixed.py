"""Batches of one shape: a bucket's length, so many rows, some of them fillers.

What a step computes has shapes that follow from (rows, bucket, step) alone: no prompt, no number
of prompts and no limit of tokens reaches them. Whether the rows of such a batch are computed alike
is for the self-test to find (selftest.py).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.errors import ConfigError, RequestTooLong
from samebits.remedies.reader import Ids, Layout

PAD_ID = 0
"""Stands in the padding and in rows without a prompt; hidden from the rows with one."""
FILLER: Ids = (PAD_ID,)
BUCKETS = (64, 128, 256, 512, 1024, 2048, 4096)
"""Lengths offered unless others are named; what no prompt of a model needs is never tested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Where a prompt is read."""

    request: int
    """Place of the prompt in the call."""
    row: int
    """Row of the batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sitting:
    """One batch and who sits in it."""

    layout: Layout
    seats: tuple[Seat, ...]
    bucket: int | None = None
    """None: a row that is read alone."""


def check_buckets(buckets: Sequence[Any]) -> tuple[int, ...]:
    """Give buckets back in rising order.

    Raises:
        ConfigError: There are none, one twice, or one that is no positive integer.
    """
    is_plain = all(isinstance(x, int) and not isinstance(x, bool) and x > 0 for x in buckets)
    if not buckets or not is_plain or len(set(buckets)) != len(buckets):
        raise ConfigError(expected="buckets: different integers above 0", found=repr(buckets))
    return tuple(sorted(buckets))


def choose_bucket(num_tokens: int, buckets: Sequence[int]) -> int:
    """Choose the smallest bucket that holds a prompt.

    Raises:
        RequestTooLong: None does.
    """
    for bucket in buckets:
        if num_tokens <= bucket:
            return bucket
    raise RequestTooLong(
        expected=f"a prompt of at most {buckets[-1]} tokens, the largest bucket",
        found=f"{num_tokens} tokens",
        remedy="Name larger buckets.",
    )


def seat_alone(prompts: Sequence[Ids]) -> Iterator[Sitting]:
    """Read each prompt alone, in one pass and without padding."""
    for request, ids in enumerate(prompts):
        layout = Layout(rows=(ids,), length=len(ids), pad_id=PAD_ID)
        yield Sitting(layout=layout, seats=(Seat(request=request, row=0),))


def seat_group(
    prompts: Sequence[Ids], requests: Sequence[int], bucket: int, rows: int, usable: Sequence[int]
) -> Iterator[Sitting]:
    """Seat prompts of one bucket in batches of so many rows, at the usable ones alone."""
    for start in range(0, len(requests), len(usable)):
        part = requests[start : start + len(usable)]
        seats = tuple(
            Seat(request=request, row=row) for request, row in zip(part, usable, strict=False)
        )
        seated = {seat.row: prompts[seat.request] for seat in seats}
        contents = tuple(seated.get(row, FILLER) for row in range(rows))
        yield Sitting(layout=lay_out(contents, bucket), seats=seats, bucket=bucket)


def lay_out(contents: tuple[Ids, ...], bucket: int) -> Layout:
    """Lay rows out in a bucket, under a mask in any case."""
    return Layout(rows=contents, length=bucket, pad_id=PAD_ID, always_mask=True)
