"""A receipt reads back as it was, and any change to it is found and named."""

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from samebits.errors import RecordCorrupt
from samebits.record.digest import tagged_digest
from samebits.record.receipt import (
    Header,
    LogitChain,
    ModelIdentity,
    Receipt,
    Sample,
    logits_digest,
)

LOGITS = np.arange(12, dtype=np.float32).reshape(3, 4)


def make_header(**changes: Any) -> Header:
    fields: dict[str, Any] = {
        "version": "0.1",
        "arithmetic": "sb1",
        "weight_bits": 16,
        "model": ModelIdentity(
            weight_file=tagged_digest("f"),
            weights=tagged_digest("w"),
            tokenizer=tagged_digest("t"),
            template=None,
        ),
        "prompt": tagged_digest("p"),
        "prompt_ids": (1, 2),
        "params": {
            "seed": {"value": 2**64 - 1, "origin": "asked"},
            "temperature": {"value": 0.5, "origin": "default"},
        },
    }
    return Header(**{**fields, **changes})


def make_sample(header: Header, index: int) -> Sample:
    chain = LogitChain(header, index)
    for row in LOGITS:
        chain.push(row)
    return Sample(
        index=index,
        token_ids=(3, 2, 1),
        finish_reason="length",
        steps=tuple(chain.steps),
        chain=chain.link,
    )


def make_receipt(**changes: Any) -> Receipt:
    header = make_header(**changes)
    return Receipt(
        header=header,
        samples=(make_sample(header, 0), make_sample(header, 1)),
        observed={"threads": 2},
    )


def test_a_receipt_reads_back_as_it_was() -> None:
    receipt = make_receipt()
    text = receipt.to_json()
    assert Receipt.from_json(text) == receipt
    assert Receipt.from_json(text.encode()).to_json() == text


def test_what_is_observed_is_not_digested_and_everything_else_is() -> None:
    receipt = make_receipt()
    faster = Receipt(header=receipt.header, samples=receipt.samples, observed={"threads": 1})
    assert faster.digest == receipt.digest
    changed: list[dict[str, Any]] = [
        {"version": "0.2"},
        {"arithmetic": "plain-f32"},
        {"weight_bits": 8},
        {"prompt": None},
        {"prompt_ids": (1, 3)},
        {"params": {}},
    ]
    assert len({make_receipt(**c).digest for c in changed} | {receipt.digest}) == 7


def test_a_chain_holds_header_index_steps_and_their_order() -> None:
    header = make_header()

    def link(header: Header, index: int, rows: list[int]) -> str:
        chain = LogitChain(header, index)
        for row in rows:
            chain.push(LOGITS[row])
        return chain.link

    links = [
        link(header, 0, []),
        link(header, 1, []),
        link(make_header(prompt_ids=(1,)), 0, []),
        link(header, 0, [0]),
        link(header, 0, [0, 1]),
        link(header, 0, [1, 0]),
    ]
    assert len(set(links)) == len(links)
    assert link(header, 0, [0, 1]) == links[4]


def test_step_digests_read_the_bits_and_not_the_layout() -> None:
    row = LOGITS[0]
    assert logits_digest(row) == tagged_digest("samebits/logits/v1", row.astype("<f4").tobytes())
    assert logits_digest(row) == logits_digest(np.repeat(row, 2)[::2])
    assert logits_digest(row) == logits_digest(row.astype(">f4"))
    assert logits_digest(np.zeros(1, np.float32)) != logits_digest(-np.zeros(1, np.float32))


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Make a change that sets one place of a receipt's JSON."""

    def change(whole: dict[str, Any]) -> None:
        *way, last = path.split(".")
        place: Any = whole
        for key in way:
            place = place[int(key) if isinstance(place, list) else key]
        if isinstance(place, list):
            place[int(last)] = value
        else:
            place[last] = value

    return change


FORGED = tagged_digest("forged")


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("extra", 1, "receipt"),
        ("body.extra", 1, "body"),
        ("body.header.extra", 1, "body.header"),
        ("body.header.model.extra", 1, "body.header.model"),
        ("body.samples.0.extra", 1, r"body.samples\[0\]"),
        ("body.format", "samebits/receipt/v2", "body.format"),
        ("body.header.contract", "sb2", "body.header.contract"),
        ("body.header.version", 3, "body.header.version"),
        ("body.header.weight_bits", True, "body.header.weight_bits"),
        ("body.header.model.weights", "sha256:00", "body.header.model.weights"),
        ("body.header.prompt", "x", "body.header.prompt"),
        ("body.header.prompt_ids.0", 1.5, r"body.header.prompt_ids\[0\]"),
        ("body.header.params.seed.value", "7", "body.header.params.seed.value"),
        ("body.header.params.seed", 7, "body.header.params.seed"),
        ("body.samples.1.token_ids", "abc", r"body.samples\[1\].token_ids"),
        ("body.samples.1.token_ids", [1], r"body.samples\[1\].steps"),
        ("body.samples.1.token_ids.0", 9, "digest"),
        ("body.samples.1.finish_reason", "stop", "digest"),
        ("body.samples.0.steps.1", FORGED, r"body.samples\[0\].chain"),
        ("body.samples.0.chain", FORGED, r"body.samples\[0\].chain"),
        ("body.header.prompt_ids.0", 7, r"body.samples\[0\].chain"),
        ("digest", FORGED, "digest"),
        ("observed", 7, "observed"),
    ],
)
def test_any_change_is_refused_and_named(path: str, value: Any, named: str) -> None:
    whole = json.loads(make_receipt().to_json())
    put(path, value)(whole)
    with pytest.raises(RecordCorrupt, match=named):
        Receipt.from_json(json.dumps(whole))


def test_every_missing_key_is_refused() -> None:
    whole = json.loads(make_receipt().to_json())
    ways: list[list[str | int]] = [
        [],
        ["body"],
        ["body", "header"],
        ["body", "header", "model"],
        ["body", "samples", 0],
        ["body", "header", "params", "seed"],
    ]
    for way in ways:
        place: Any = whole
        for key in way:
            place = place[key]
        for missing in place:
            broken = copy.deepcopy(whole)
            inner: Any = broken
            for key in way:
                inner = inner[key]
            del inner[missing]
            with pytest.raises(RecordCorrupt):
                Receipt.from_json(json.dumps(broken))


def test_truncation_anywhere_is_refused() -> None:
    text = make_receipt().to_json().strip()
    for length in range(0, len(text), 37):
        with pytest.raises(RecordCorrupt):
            Receipt.from_json(text[:length])
