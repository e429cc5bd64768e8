"""Answers of stable models in a cache of answers: what names them there, and how they are spelt.

The key holds the digest of the weights and of the model's configuration, the stable setting, the
machine (processor, threads, level of the instruction set, versions) and the request; not the
companions, who reach nothing, and not the tokenizer, since token ids are kept and texts made anew.
Environment variables that steer kernels are not read here: who changes them under one store gives
the cache the digest of a lock as its namespace.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from samebits.cache.answer import Answer, Ending
from samebits.cache.control import Control
from samebits.cache.key import Identity, Request
from samebits.cache.sharing import Compute
from samebits.cache.shelf import Fetched
from samebits.lock.processor import read_processor
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.typed import plain_value, read_typed
from samebits.remedies.bits import spell_bits
from samebits.remedies.reader import Ids
from samebits.remedies.stable_answer import Made, StableFacts

SURFACE = "samebits/stable/v1"
SAMPLES = 64


class AnswerCache(Protocol):
    """What a stable model needs of a cache; samebits.cache.OutputCache is one."""

    def fetch_all(
        self, requests: Sequence[Request], compute: Compute, *, control: Control | None = None
    ) -> list[Fetched]:
        """Answer requests; those that are missing are computed in one call."""
        ...


class Weights:
    """The digest of a model's weights, made anew when one of them was written to.

    A write is seen by PyTorch's own count. Writes that it does not count, through `.data` or NumPy,
    are seen where they reach one of SAMPLES values of a tensor: a step of training or a merge does,
    a single value may not. To hash all of them at every call would cost more than the cache saves.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.seen: tuple[tuple[int, int, bytes], ...] = ()
        self.digest = ""

    def read(self) -> str:
        """Give the digest: SHA-256 over names, dtypes, shapes and bytes, in order of name."""
        tensors = dict(sorted(self.model.state_dict(keep_vars=True).items()))
        # Writes to a tensor raise its version, which those made in inference mode lack; another
        # tensor has another address.
        seen = tuple(
            (x.data_ptr(), 0 if x.is_inference() else x._version, spell_samples(x))
            for x in tensors.values()
        )
        if seen != self.seen:
            total = hashlib.sha256()
            for name, values in tensors.items():
                total.update(canonical_bytes([name, str(values.dtype), list(values.shape)]))
                total.update(hashlib.sha256(spell_bits(values)).digest())
            self.seen, self.digest = seen, f"sha256:{total.hexdigest()}"
        return self.digest


def spell_samples(values: Tensor) -> bytes:
    """Give the bytes of SAMPLES values or more, spread evenly; of all, where there are fewer."""
    flat = values.detach().reshape(-1)
    return spell_bits(flat[:: max(1, len(flat) // SAMPLES)])


def find_doubt(model: Any) -> str:
    """Say what of a model no key can name; empty: nothing."""
    changed = [
        name or type(model).__name__
        for name, module in model.named_modules()
        if module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module)
    ]
    return f"a hook on {changed[0]}, or its own forward, may change the answer" if changed else ""


def make_identity(weights: Weights, facts: StableFacts) -> Identity:
    """Say what answers."""
    config = canonical_bytes(weights.model.config.to_json_string(use_diff=False))
    names = ("shape", "rows", "dtype", "precision", "attention", "device", "machine")
    return Identity(
        weights=weights.read(),
        tokenizer="",
        template=None,
        setting={name: plain_value(getattr(facts, name)) for name in names}
        | {
            "configuration": hashlib.sha256(config).hexdigest(),
            "processor": read_processor().name,
            "class": type(weights.model).__qualname__,
        },
    )


def make_request(
    identity: Identity, ids: Ids, bucket: int | None, settings: Mapping[str, Any], doubt: str
) -> Request:
    """Make the request of one prompt.

    Args:
        settings: temperature, seed, max_tokens, stop_ids.
        doubt: as of `find_doubt`; such requests are not kept.
    """
    body = {"prompt_ids": list(ids), "bucket": bucket, **settings}
    return Request(surface=SURFACE, body=body, identity=identity, doubt=doubt)


def spell(made: Made) -> Answer:
    """Spell what was made for one prompt."""
    ending = Ending(finish_reasons=(made.finish_reason,), is_empty=not made.token_ids)
    return Answer(body=canonical_bytes(plain_value(made)), ending=ending)


def read(answer: Answer) -> Made:
    """Read it back.

    Raises:
        RecordCorrupt: It is something else.
    """
    made: Made = read_typed(Made, parse_json(answer.body), "a stable answer")
    return made


def fetch(
    cache: AnswerCache,
    requests: Sequence[Request],
    make: Callable[[Sequence[int]], Sequence[Made]],
) -> list[tuple[Made, bool]]:
    """Answer requests from a cache, or by making those that are missing, in one call.

    Returns:
        For each, what was made, and whether it was made before or by another call.
    """
    own: set[int] = set()

    def compute(places: Sequence[int]) -> list[tuple[int, Answer]]:
        own.update(places)
        return [(place, spell(made)) for place, made in zip(places, make(places), strict=True)]

    fetched = cache.fetch_all(requests, compute)
    # An equal prompt of this call is not computed again, and is none from a cache.
    made_here = {fetched[place].key for place in own}
    return [
        (read(one.answer), place not in own and one.key not in made_here)
        for place, one in enumerate(fetched)
    ]
