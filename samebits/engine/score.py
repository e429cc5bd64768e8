"""The logits of a given text at every position: what quality measurements and tests compare."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from samebits.engine.in_force import check_token_ids
from samebits.engine.limits import Limits
from samebits.engine.loop import Loop
from samebits.engine.runner import run_step
from samebits.engine.scheduler import Lane, Run
from samebits.errors import RequestTooLong


def chunks(num_tokens: int, limits: Limits) -> Iterator[Run]:
    """Cut a text into runs as a lone request would be."""
    size = min(limits.chunk_tokens, limits.max_rows)
    for start in range(0, num_tokens, size):
        yield Run(lane=0, start=start, stop=min(start + size, num_tokens))


def score_chunks(loop: Loop, token_ids: Sequence[int]) -> Iterator[NDArray[np.float32]]:
    """Give the raw logits after every token, float32 (rows, V), a chunk at a time.

    Raises:
        RequestError: Empty, unknown ids, longer than the context or than the free pages.
    """
    ids = check_token_ids(token_ids, loop.decoder.config)
    if len(ids) > loop.decoder.config.context_len:
        raise RequestTooLong(
            expected=f"at most {loop.decoder.config.context_len} tokens", found=str(len(ids))
        )
    pages, limits = loop.queues.pages, loop.limits
    needed = -(-len(ids) // limits.page_tokens)
    if needed > pages.num_free:
        raise RequestTooLong(
            expected=f"at most {pages.num_free * limits.page_tokens} tokens in the free pages",
            found=str(len(ids)),
            remedy="Load the engine with a larger kv_tokens, or let its requests finish first.",
        )
    lane = Lane(number=0, request=0, prompt_len=len(ids), tokens=list(ids))
    lane.pages = pages.take(needed)
    try:
        for run in chunks(len(ids), limits):
            yield run_step(
                [run],
                {0: lane},
                loop.decoder,
                loop.cache,
                page_tokens=limits.page_tokens,
                all_rows=True,
            )[1]
    finally:
        if pages is loop.queues.pages:
            pages.give_back(lane.pages)
