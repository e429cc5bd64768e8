"""A receipt is checked by running it again; whatever differs is named."""

from dataclasses import replace
from typing import Any

import pytest

from samebits.engine import Engine, SamplingParams
from samebits.engine.replay import check_receipt
from samebits.errors import RecordCorrupt
from samebits.numerics import portable
from samebits.numerics.order_free import OrderFree
from samebits.numerics.plain import Plain
from samebits.record.digest import tagged_digest
from samebits.record.receipt import Receipt
from tests.engine.tiny import ByteTokenizer, make_decoder, make_engine, make_prompts

PARAMS: dict[str, Any] = {
    "max_tokens": 10,
    "temperature": 1.0,
    "n": 2,
    "seed": 2**64 - 1,
    "stop": ("zz",),
    "logit_bias": {5: 1.0, 4: -1.0},
    "logprobs": 2,
    "presence_penalty": 0.5,
}


def make_receipt(engine: Engine | None = None, **changes: Any) -> Receipt:
    params = SamplingParams(**{**PARAMS, **changes})
    done = (engine or make_engine()).generate(make_prompts(2), params, receipt=True)[1]
    assert done.receipt is not None
    return done.receipt


def test_a_receipt_replays_from_its_file_on_an_engine_of_other_sizes() -> None:
    receipt = Receipt.from_json(make_receipt().to_json())
    assert check_receipt(receipt, make_engine(chunk_tokens=3, kv_tokens=176)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 0},
        {"seed": None},
        {"first_index": 3},
        {"max_tokens": 10**6, "n": 1, "logprobs": None, "presence_penalty": 0, "temperature": 0},
        {"temperature": 1e16},
    ],
)
def test_other_requests_replay_too(changes: dict[str, Any]) -> None:
    receipt = make_receipt(**changes, stop=())
    assert check_receipt(Receipt.from_json(receipt.to_json()), make_engine()) == []


def test_a_receipt_says_nothing_of_clock_host_or_threads_in_its_digest() -> None:
    first, second = make_receipt(), make_receipt(make_engine(max_rows=5))
    assert first.digest == second.digest
    assert set(first.observed) == {"kernels", "level", "threads"}
    assert first.observed["threads"] == 1


def test_other_weights_are_named_and_nothing_is_run() -> None:
    other = make_engine(make_decoder(seed=1))
    assert [d.field for d in check_receipt(make_receipt(), other)] == ["model.weights"]


def test_other_bits_arithmetic_and_tokenizer_are_named() -> None:
    w8 = make_engine(make_decoder(OrderFree(portable, bits=8)))
    fields = {d.field for d in check_receipt(make_receipt(), w8)}
    assert fields == {"weight_bits", "model.weights"}
    plain = make_engine(make_decoder(Plain("plain-f32")))
    fields = {d.field for d in check_receipt(make_receipt(), plain)}
    assert fields == {"arithmetic", "weight_bits", "model.weights"}
    engine = make_engine()
    engine.tokenizer = ByteTokenizer(digest=tagged_digest("other"))
    assert [d.field for d in check_receipt(make_receipt(), engine)] == ["model.tokenizer"]


def test_another_file_of_the_same_weights_is_named_and_still_run() -> None:
    engine = make_engine()
    engine.file_digest = lambda: tagged_digest("other")
    assert [d.field for d in check_receipt(make_receipt(), engine)] == ["model.weight_file"]
    broken = with_step(make_receipt(), 3)
    fields = [d.field for d in check_receipt(broken, engine)]
    assert fields == ["model.weight_file", "samples[1].steps[3]", "samples[1].chain"]


def with_step(receipt: Receipt, place: int) -> Receipt:
    """Forge the logits of one step of the second sample."""
    first, second = receipt.samples
    steps = list(second.steps)
    steps[place] = tagged_digest("forged")
    forged = replace(second, steps=tuple(steps), chain=tagged_digest("forged"))
    return replace(receipt, samples=(first, forged))


def test_the_first_step_and_the_first_token_that_differ_are_named() -> None:
    receipt = make_receipt()
    assert [d.field for d in check_receipt(with_step(receipt, 0), make_engine())] == [
        *("samples[1].steps[0]", "samples[1].chain")
    ]
    first = receipt.samples[0]
    ids = (*first.token_ids[:4], first.token_ids[4] ^ 1, *first.token_ids[5:])
    other = replace(receipt, samples=(replace(first, token_ids=ids), receipt.samples[1]))
    assert [d.field for d in check_receipt(other, make_engine())] == ["samples[0].token_ids[4]"]


def test_a_missing_sample_is_named() -> None:
    receipt = make_receipt()
    fewer = replace(receipt, samples=receipt.samples[:1])
    assert [d.field for d in check_receipt(fewer, make_engine())] == ["samples"]


@pytest.mark.parametrize("change", ["missing", "unknown", "bias"])
def test_parameters_of_another_format_are_refused(change: str) -> None:
    receipt = make_receipt()
    params = dict(receipt.header.params)
    if change == "missing":
        del params["seed"]
    elif change == "unknown":
        params["top_q"] = {"value": 1, "origin": "asked"}
    else:
        params["logit_bias"] = {"value": {"x": 1.0}, "origin": "asked"}
    header = replace(receipt.header, params=params)
    with pytest.raises(RecordCorrupt, match=r"body\.header\.params"):
        check_receipt(replace(receipt, header=header), make_engine())
