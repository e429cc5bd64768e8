"""Run a receipt again and name what differs."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from samebits.engine.engine import Engine
from samebits.engine.in_force import PARAMETERS
from samebits.engine.request import SamplingParams
from samebits.errors import RecordCorrupt
from samebits.numerics.order_free import OrderFree
from samebits.record.receipt import Header, LogitChain, Receipt, Sample


class Difference(NamedTuple):
    """One thing that is not as the receipt says."""

    field: str
    expected: str
    """What the receipt says."""
    found: str


DECISIVE = frozenset({"arithmetic", "weight_bits", "model.weights", "model.tokenizer"})
"""Where these differ, other bits are certain to be nobody's fault, and nothing is run."""


def check_receipt(receipt: Receipt, engine: Engine) -> list[Difference]:
    """Run a receipt's request again; an empty list means the same bits at every step.

    The prompt's token ids are replayed; tokenizer and template are only compared. The samebits
    version that wrote the receipt may be another: the contract is what promises the bits.

    Raises:
        RecordCorrupt: The parameters are not those of this format.
        RequestError: The receipt asks for what this engine cannot serve.
    """
    differences = list(compare_headers(receipt.header, engine))
    if any(difference.field in DECISIVE for difference in differences):
        return differences
    params = read_params(receipt.header)
    completion = engine.generate([receipt.header.prompt_ids], params, receipt=True)[0]
    assert completion.receipt is not None
    if len(receipt.samples) != params.n:
        found = str(len(receipt.samples))
        return [*differences, Difference("samples", f"{params.n} by the parameters", found)]
    for kept, made in zip(receipt.samples, completion.receipt.samples, strict=True):
        differences += compare_samples(receipt.header, kept, made)
    return differences


def compare_headers(header: Header, engine: Engine) -> Iterator[Difference]:
    """Name what identifies the computation and is not the same."""
    arithmetic, model = engine.decoder.arithmetic, engine.identity
    bits = arithmetic.bits if isinstance(arithmetic, OrderFree) else None
    pairs: dict[str, tuple[object, object]] = {
        "arithmetic": (header.arithmetic, arithmetic.name),
        "weight_bits": (header.weight_bits, bits),
        "model.weight_file": (header.model.weight_file, model.weight_file),
        "model.weights": (header.model.weights, model.weights),
        "model.tokenizer": (header.model.tokenizer, model.tokenizer),
        "model.template": (header.model.template, model.template),
    }
    for field, (expected, found) in pairs.items():
        if expected != found:
            yield Difference(field, str(expected), str(found))


def compare_samples(header: Header, kept: Sample, made: Sample) -> Iterator[Difference]:
    """Name the first step and the first token that differ, and what follows from them."""
    where = f"samples[{kept.index}]"
    for name in ("steps", "token_ids"):
        before, now = getattr(kept, name), getattr(made, name)
        for place, (expected, found) in enumerate(zip_longest(before, now)):
            if expected != found:
                yield Difference(f"{where}.{name}[{place}]", str(expected), str(found))
                break
    chain = LogitChain(header, kept.index)
    for step in made.steps:
        chain.push_digest(step)
    for name, found in (
        ("index", made.index),
        ("finish_reason", made.finish_reason),
        ("chain", chain.link),
    ):
        if getattr(kept, name) != found:
            yield Difference(f"{where}.{name}", str(getattr(kept, name)), str(found))


def read_params(header: Header) -> SamplingParams:
    """Make the parameters to sample by from a receipt's.

    Raises:
        RecordCorrupt: A parameter is missing, unknown or of another type.
    """
    if set(header.params) != set(PARAMETERS):
        raise RecordCorrupt(
            expected=f"body.header.params: {', '.join(sorted(PARAMETERS))}",
            found=", ".join(sorted(header.params)),
        )
    values: dict[str, Any] = {name: setting["value"] for name, setting in header.params.items()}
    try:
        bias = {int(token): value for token, value in values["logit_bias"].items()}
    except (AttributeError, ValueError) as error:
        raise RecordCorrupt(
            expected="body.header.params.logit_bias: token ids to numbers",
            found=repr(values["logit_bias"])[:200],
        ) from error
    return SamplingParams(**{**values, "logit_bias": bias})
