"""The rows of a batch, as token ids: the observed prompt and what stands beside it."""

from collections.abc import Sequence

from samebits.audit.condition import Call
from samebits.errors import UnsupportedInput

Ids = tuple[int, ...]


def make_rows(ids: Ids, call: Call, companions: Sequence[Ids]) -> tuple[Ids, ...]:
    """Compose the batch of a call; all rows are of one length.

    Raises:
        UnsupportedInput: Other texts are wanted and there are none.
    """
    num_beside = max(call.batch, call.n) - 1
    beside = list(list_neighbours(ids, call.neighbours, num_beside, companions))
    beside.insert(call.position, ids)
    return tuple(beside)


def list_neighbours(ids: Ids, kind: str, count: int, companions: Sequence[Ids]) -> tuple[Ids, ...]:
    """List what stands beside a prompt: copies, others, or more, which are others again."""
    if kind == "copies":
        return (ids,) * count
    texts = [companion for companion in companions if companion]
    # Reversed texts are other texts too; they double a short supply.
    supply = [*texts, *(text[::-1] for text in texts)]
    if count and not supply:
        raise UnsupportedInput(expected="other texts to fill a batch with", found="none")
    start = count if kind == "more" else 0
    chosen = (supply[(start + place) % len(supply)] for place in range(count))
    return tuple(fit(text, len(ids)) for text in chosen)


def fit(text: Ids, length: int) -> Ids:
    """Trim a text, or repeat it, to a length."""
    return (text * -(-length // len(text)))[:length]


def cut(call: Call, num_prompt_tokens: int) -> tuple[int, ...]:
    """List the lengths of the passes in which a prompt and its padding are read."""
    whole = call.padding + num_prompt_tokens
    if call.prefix == "warm" and num_prompt_tokens > 1:
        half = call.padding + num_prompt_tokens // 2
        return (*split(half, call.chunk_tokens), *split(whole - half, call.chunk_tokens))
    return split(whole, call.chunk_tokens)


def split(length: int, size: int | None) -> tuple[int, ...]:
    """Split a length into parts of one size, the last being what is left."""
    if size is None:
        return (length,)
    return tuple(min(size, length - start) for start in range(0, length, size))
