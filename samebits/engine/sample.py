"""From a row of logits to a token: by integers, and by nothing outside the request.

A draw depends on (seed, sample index, position of the token in its sequence) and the logits: not
on the slot, the step or the neighbours. Normative: docs/numerics.md, "Sampling".
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from samebits.engine.request import SamplingParams
from samebits.errors import UnsupportedInput
from samebits.numerics.philox import draw_u64

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

LOG2_E = 1.4426950408889634
FIRST_LOOK = 64
"""Tokens that top-p ranks before it looks at more; does not reach the result."""


class SamplerKernels(Protocol):
    """The operations of a kernel set that sampling needs; reference.py says what they return."""

    def argmax(self, logits: F32) -> I64:
        """(R, V) to (R,)."""
        ...

    def softmax_weights(self, logits: F32, factor: np.float32) -> I64:
        """(V,) to (V,)."""
        ...

    def log_probabilities(self, logits: F32) -> F32:
        """(R, V) to (R, V)."""
        ...


class TokenLogprobs(NamedTuple):
    """Natural log-probabilities at one position, of the raw logits: before bias and penalties."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """(id, log-probability) of the best tokens, best first, ties to the lowest id."""


def check_logits(logits: F32) -> None:
    """Refuse NaN and infinity: they are an error, never a token.

    Raises:
        UnsupportedInput: There is one.
    """
    if not np.isfinite(logits).all():
        raise UnsupportedInput(
            expected="finite logits",
            found="NaN or infinity",
            remedy="The weights or the arithmetic overflow; no token was chosen.",
        )


def adjust(
    logits: F32, params: SamplingParams, prompt: Sequence[int], output: Sequence[int]
) -> F32:
    """Apply bias and penalties to (V,) logits, each step one rounded binary32 operation.

    1. z += bias. 2. Tokens in prompt or output: z / r if z > 0, else z * r (Keskar et al. 2019).
    3. Tokens in the output: z -= presence; then z -= fl(frequency * count) (the OpenAI formula).
    """
    z = logits.copy()
    if params.logit_bias:
        z[list(params.logit_bias)] += np.array(list(params.logit_bias.values()), np.float32)
    if params.repetition_penalty != 1.0:
        seen = np.unique(np.array([*prompt, *output], np.int64))
        r = np.float32(params.repetition_penalty)
        z[seen] = np.where(z[seen] > 0, z[seen] / r, z[seen] * r)
    if output and (params.presence_penalty or params.frequency_penalty):
        made, counts = np.unique(np.array(output, np.int64), return_counts=True)
        z[made] -= np.float32(params.presence_penalty)
        z[made] -= np.float32(params.frequency_penalty) * counts.astype(np.float32)
    return z


def needs_adjusting(params: SamplingParams) -> bool:
    """Answer whether `adjust` would change anything."""
    return bool(
        params.logit_bias
        or params.repetition_penalty != 1.0
        or params.presence_penalty
        or params.frequency_penalty
    )


def leaders(logits: F32, ids: I64, count: int) -> I64:
    """Keep the ids whose logit is not below the count-th largest: a whole beginning of the rank.

    Ties of the last are all in, so it may be more than `count`; the order of ids is kept.
    """
    if count >= len(ids):
        return ids
    values = logits[ids]
    head: I64 = ids[values >= np.partition(values, -count)[-count]]
    return head


def by_rank(logits: F32, ids: I64, count: int) -> I64:
    """Give the first `count` of ascending ids by falling logit, ties to the lowest id."""
    head = leaders(logits, ids, count)
    return head[np.argsort(-logits[head], kind="stable")][:count]


def keep_top_k(logits: F32, ids: I64, k: int) -> I64:
    """Keep the k best of ascending ids, ascending; all if there are no more than k."""
    if k == 0 or k >= len(ids):
        return ids
    return np.sort(by_rank(logits, ids, k))


def keep_top_p(logits: F32, weights: I64, ids: I64, p: float) -> I64:
    """Keep the shortest prefix of the ranking whose weight is at least p of the total, exactly."""
    if p == 1.0:
        return ids
    needed = ceil(Fraction(p) * int(weights[ids].sum()))
    count = FIRST_LOOK
    # Sorting a whole vocabulary costs more than the model's step; the head nearly always does.
    while int(weights[head := leaders(logits, ids, count)].sum()) < needed:
        count *= FIRST_LOOK
    ranked = by_rank(logits, head, len(head))
    sums = np.cumsum(weights[ranked])
    return np.sort(ranked[: int(np.searchsorted(sums, needed)) + 1])


def keep_min_p(weights: I64, ids: I64, p: float) -> I64:
    """Keep ids with at least p of the largest weight, exactly."""
    if p == 0:
        return ids
    return ids[weights[ids] >= ceil(Fraction(p) * int(weights[ids].max()))]


def candidates(logits: F32, weights: I64, params: SamplingParams) -> I64:
    """Give the ids that may be drawn, ascending: top-k, then top-p, then min-p of what is left."""
    ids = np.flatnonzero(weights)
    ids = keep_top_k(logits, ids, params.top_k)
    ids = keep_top_p(logits, weights, ids, params.top_p)
    return keep_min_p(weights, ids, params.min_p)


def pick(weights: I64, ids: I64, u: int) -> int:
    """Pick the first id, ascending, at which the running sum of weights exceeds u * total / 2**64.

    Args:
        u: in [0, 2**64).
    """
    sums = np.cumsum(weights[ids])
    return int(ids[np.searchsorted(sums, u * int(sums[-1]) >> 64, side="right")])


def draw(logits: F32, params: SamplingParams, u: int, kernels: SamplerKernels) -> int:
    """Draw a token from adjusted (V,) logits with 64 random bits; temperature above 0."""
    factor = np.float32(LOG2_E / params.temperature)
    with np.errstate(over="ignore"):
        weights = kernels.softmax_weights(logits, factor)
    return pick(weights, candidates(logits, weights, params), u)


def choose(
    logits: F32,
    params: SamplingParams,
    kernels: SamplerKernels,
    *,
    prompt: Sequence[int],
    output: Sequence[int],
    sample_index: int,
) -> int:
    """Choose the next token of one sample.

    Args:
        logits: (V,), raw and finite. params: in force, so a seed is there if one is needed.
    """
    z = adjust(logits, params, prompt, output) if needs_adjusting(params) else logits
    check_logits(z)
    if params.temperature == 0:
        return int(kernels.argmax(z[None])[0])
    assert params.seed is not None
    u = draw_u64(params.seed, sample_index, len(prompt) + len(output))
    return draw(z, params, u, kernels)


def best_ids(logits: F32, count: int) -> I64:
    """Give the ids of the `count` largest of (V,) logits, best first, ties to the lowest id."""
    if count == 0:
        return np.empty(0, np.int64)
    return by_rank(logits, np.arange(len(logits)), count)


def measure(logits: F32, token_id: int, count: int, kernels: SamplerKernels) -> TokenLogprobs:
    """Report the log-probabilities of a token and of the `count` best ones."""
    values = kernels.log_probabilities(logits[None])[0]
    best = best_ids(logits, count)
    return TokenLogprobs(
        token_id=token_id,
        logprob=float(values[token_id]),
        top=tuple((int(i), float(values[i])) for i in best),
    )
