"""Whether the rows of one shape are computed alike: found by running it, before it is relied on.

At one shape a kernel may still treat a row by its place: in float32 on AVX2 row 7 of 8 was found to
have other bits than row 0. Two contents are read, one as long as the bucket and one of a single
token, in four batches: everywhere the one, everywhere the other, and both mixed, either way round.
A row is usable if each content has there, in each company, the bits it has in row 0. What is found:

- A row's place, for either content: the mixed batches are complements, so that each row has both.
- Company: a content stands beside its like, beside few of the other, beside many of the other.
- A mask dropped where it hides nothing: in the batch of full rows alone.
- The longest row's length reaching the others: in the batch of short rows alone, which is also the
  company that fillers are.

A prompt pass costs as much as forty steps (docs/lab.md), so that one alone is whole: that of full
rows, whose every layer is compared. The other three end once each kind of layer was met, by weights
and type, since layers of one kind run the same kernels, in four layers at least: a kernel that
rounds otherwise shows in the last bit of some value, and there is one for each of a row's
positions. Steps have one position and therefore go through all layers. They follow the first row's
cache, copied to every row: what a row is given is equal by construction, whatever the prompt pass
did. Both mixed batches take so many steps that the cache's length takes every residue of a cache
line of float32 values; the others two, since there the mask or the length counts, not the residue.
Where rows differ in steps the others take as many, to tell a row's place from its company. Not
found: the longest row's length reaching others at one later length alone.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from samebits.errors import ConfigError
from samebits.numerics.philox import draw_u64
from samebits.remedies.reader import Ids
from samebits.remedies.selftest_passes import Plan, PromptPasses, Reading, read_steps

STEPS = 16
"""Decoding steps of the mixed batches."""
FEW_STEPS = 2
"""Decoding steps of the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """What the test of one shape found."""

    rows: int
    bucket: int
    usable: tuple[int, ...]
    """Rows that have the bits of row 0, whatever stands beside them; 0 among them."""
    batches: int
    """Batches read; the prompts of the first through all layers."""
    steps: int
    """Decoding steps of the two batches that have most."""
    elapsed_s: float

    @property
    def moved(self) -> tuple[int, ...]:
        """Rows where other bits were found."""
        return tuple(row for row in range(self.rows) if row not in self.usable)


def find_usable(model: Any, rows: int, bucket: int) -> SelfTest:
    """Find the usable rows of a shape; none if not even row 0 keeps its bits."""
    start = time.perf_counter()
    full = make_content(find_length(model, bucket), 0, model)
    plans = make_plans(full, make_content(1, 1, model), rows)
    passes = PromptPasses(model, bucket)
    whole, cache = passes.read_whole(plans[0])
    prompts = [whole, *(passes.read(plan) for plan in plans[1:])]
    steps = list(read_all_steps(model, plans, bucket, cache, is_brief=rows > 2))
    if len(find_alike(steps)) < rows:
        steps = list(read_all_steps(model, plans, bucket, cache, is_brief=False))
    usable = find_alike(prompts) & find_alike(steps)
    return SelfTest(
        rows=rows,
        bucket=bucket,
        usable=tuple(sorted(usable)) if 0 in usable else (),
        batches=len(plans),
        steps=STEPS,
        elapsed_s=time.perf_counter() - start,
    )


def read_all_steps(
    model: Any, plans: Sequence[Plan], bucket: int, cache: Any, *, is_brief: bool
) -> Iterator[Reading]:
    """Decode in each batch after a cache of one row; only two steps in the first two if brief.

    Of two rows, mixed ones have one company either way: brevity would hide what it does.
    """
    for place, plan in enumerate(plans):
        stops = (FEW_STEPS,) if is_brief and place < 2 else (FEW_STEPS, STEPS)
        yield read_steps(model, plan, bucket, cache, stops)


def find_alike(readings: Sequence[Reading]) -> set[int]:
    """Find the rows that have, in each batch, what row 0 has where it holds the same content."""
    truth: dict[Ids, list[str]] = {}
    for reading in readings:
        content, digests = reading.plan[0], reading.rows[0]
        truth[content] = max(truth.get(content, []), digests, key=len)
    return {
        row
        for row in range(len(readings[0].rows))
        if all(
            reading.rows[row] == truth[reading.plan[row]][: len(reading.rows[row])]
            for reading in readings
        )
    }


def make_plans(full: Ids, short: Ids, rows: int) -> list[Plan]:
    """Make the batches: all full, all short, and both mixed, one the other's complement.

    Mixed in turn but for the last row of an even number, so that each content has another number
    of its like beside it in either batch; of two rows one is full.
    """
    plans: list[Plan] = [[full] * rows, [short] * rows]
    if rows > 1:
        is_full = [row % 2 == 0 for row in range(rows)]
        is_full[-1] = rows > 2
        plans += [[full if x else short for x in is_full], [short if x else full for x in is_full]]
    return plans


def find_length(model: Any, bucket: int) -> int:
    """Give the length of a full row: the steps after it must have positions in the model, too."""
    context = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    return bucket if context is None else max(1, min(bucket, context - STEPS))


def make_content(length: int, index: int, model: Any) -> Ids:
    """Make a row of tokens, the same ones in every process."""
    size = model.get_input_embeddings().weight.shape[0]
    return tuple(draw_u64(0, index, place) % size for place in range(length))


def check_usable(found: SelfTest, try_rows: Callable[[int], SelfTest]) -> None:
    """Refuse a shape in which prompts would stand alone among fillers.

    Raises:
        ConfigError: Fewer than two rows are usable; the message says which number of rows serves.
    """
    if len(found.usable) < min(2, found.rows):
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
