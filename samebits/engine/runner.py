"""From the runs of a step to the index arrays a decoder takes, and to logits.

Knows no requests and no sampling.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from samebits.engine.scheduler import Lane, Run
from samebits.model.decoder import Decoder
from samebits.numerics.values import Rows


def make_rows(runs: Sequence[Run], lanes: Mapping[int, Lane], page_tokens: int) -> Rows:
    """Build the index arrays of a step (numerics/values.py, Rows)."""
    lengths = [run.stop - run.start for run in runs]
    most = max(len(lanes[run.lane].pages) for run in runs)
    pages = np.zeros((len(runs), most), np.int32)
    for s, run in enumerate(runs):
        held = lanes[run.lane].pages
        pages[s, : len(held)] = held
    positions = np.concatenate([np.arange(run.start, run.stop) for run in runs])
    sequence = np.repeat(np.arange(len(runs)), lengths)
    page, offset = np.divmod(positions, page_tokens)
    return Rows(
        positions=positions.astype(np.int32),
        slots=pages[sequence, page].astype(np.int64) * page_tokens + offset,
        starts=np.cumsum([0, *lengths], dtype=np.int32),
        pages=pages,
    )


def run_step(
    runs: Sequence[Run],
    lanes: Mapping[int, Lane],
    decoder: Decoder,
    cache: Sequence[Any],
    *,
    page_tokens: int,
    all_rows: bool = False,
) -> tuple[list[int], NDArray[np.float32]]:
    """Compute the runs; give the lanes that can choose a token, and their logits.

    Args:
        all_rows: Give the logits of every row instead, for scoring.
    Returns:
        Lane numbers, and float32 (lanes, V), or (rows, V).
    """
    rows = make_rows(runs, lanes, page_tokens)
    ids = [lanes[run.lane].tokens[run.start : run.stop] for run in runs]
    token_ids = np.concatenate([np.array(part, np.int64) for part in ids])
    ready = [s for s, run in enumerate(runs) if run.stop == len(lanes[run.lane].tokens)]
    last = rows.starts[1:].astype(np.int64) - 1
    picked = np.arange(len(token_ids)) if all_rows else last[ready]
    logits = decoder.forward(token_ids, rows, cache, picked)
    return [runs[s].lane for s in ready], logits
