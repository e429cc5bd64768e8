"""One sample as an output cache keeps it: its request, and its tokens with the text of each.

Normative: docs/formats.md, "Output cache".
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.cache import Answer, Ending, Identity, Request
from samebits.engine.generation import Generation
from samebits.engine.identity import spell
from samebits.engine.output import Output, TokenEvent
from samebits.engine.sample import TokenLogprobs
from samebits.numerics.arithmetic import Arithmetic
from samebits.numerics.order_free import OrderFree
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.receipt import CONTRACT

SURFACE = "samebits/engine/v1"
NUMBERS = frozenset({"n", "first_index"})
"""Parameters that only number the samples."""


def make_identity(
    arithmetic: Arithmetic, *, weights: str, tokenizer: str, template: str | None
) -> Identity:
    """Describe what computes, by digests; under sb1 nothing else reaches the bits.

    The weight file stays out: two files of the same numbers give the same bits.
    """
    return Identity(
        weights=weights,
        tokenizer=tokenizer,
        template=template,
        setting={
            "contract": CONTRACT,
            "arithmetic": arithmetic.name,
            "weight_bits": arithmetic.bits if isinstance(arithmetic, OrderFree) else None,
        },
    )


def make_request(generation: Generation, index: int, identity: Identity) -> Request:
    """Make the request for one sample.

    The prompt is its token ids: they are all of it that reaches the bits. A seed that was drawn was
    not asked for, so it makes no request repeatable.
    """
    settings = generation.settings
    params = {
        name: spell(setting.value) for name, setting in settings.items() if name not in NUMBERS
    }
    if settings["seed"].origin == "drawn":
        params["seed"] = None
    arithmetic = identity.setting["arithmetic"]
    return Request(
        surface=SURFACE,
        body={"prompt_ids": list(generation.prompt_ids), **params},
        identity=identity,
        index=index,
        doubt="" if arithmetic == "sb1" else f"under {arithmetic} bits depend on the company",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """One sample as it was drawn."""

    output: Output
    pieces: tuple[str, ...]
    """The text that each token made certain."""

    def events(self, prompt: int) -> Iterator[TokenEvent]:
        """Give the events of its tokens again, for a prompt's place in the call."""
        output = self.output
        last = len(output.token_ids) - 1
        for place, (token, text) in enumerate(zip(output.token_ids, self.pieces, strict=True)):
            yield TokenEvent(
                prompt=prompt,
                index=output.index,
                token_id=token,
                text=text,
                finish_reason=output.finish_reason if place == last else None,
                logprobs=output.logprobs[place] if output.logprobs else None,
            )


def spell_kept(kept: Kept) -> Answer:
    """Spell a sample as an answer; log-probabilities by their bits, since JSON has no -0."""
    output = kept.output
    value: dict[str, Any] = {
        "index": output.index,
        "token_ids": list(output.token_ids),
        "pieces": list(kept.pieces),
        "finish_reason": output.finish_reason,
    }
    if output.logprobs is not None:
        value["logprobs"] = [
            {
                "logprob": to_bits([entry.logprob])[0],
                "ids": [token for token, _ in entry.top],
                "values": to_bits([logprob for _, logprob in entry.top]),
            }
            for entry in output.logprobs
        ]
    ending = Ending(finish_reasons=(output.finish_reason,), is_empty=not output.text)
    return Answer(body=canonical_bytes(value), ending=ending)


def read_kept(answer: Answer) -> Kept:
    """Read a sample back, equal in every field."""
    value = parse_json(answer.body)
    ids, pieces = tuple(value["token_ids"]), tuple(value["pieces"])
    logprobs = value.get("logprobs")
    output = Output(
        index=value["index"],
        token_ids=ids,
        text="".join(pieces),
        finish_reason=value["finish_reason"],
        logprobs=None if logprobs is None else tuple(map(read_logprobs, ids, logprobs)),
    )
    return Kept(output=output, pieces=pieces)


def read_logprobs(token_id: int, value: dict[str, Any]) -> TokenLogprobs:
    """Read the log-probabilities of one token."""
    top = tuple(zip(value["ids"], from_bits(value["values"]), strict=True))
    return TokenLogprobs(token_id=token_id, logprob=from_bits([value["logprob"]])[0], top=top)


def to_bits(values: Sequence[float]) -> list[int]:
    """Give the bits of binary32 numbers as integers."""
    bits: list[int] = np.array(values, np.float32).view(np.uint32).tolist()
    return bits


def from_bits(bits: Sequence[int]) -> list[float]:
    """Give binary32 numbers by their bits."""
    values: list[float] = np.array(bits, np.uint32).view(np.float32).tolist()
    return values
