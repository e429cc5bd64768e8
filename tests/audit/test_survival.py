"""After how many tokens answers part."""

import pytest

from samebits.audit.axes import BASE
from samebits.audit.blocks import index_observations
from samebits.audit.evidence import gather
from samebits.audit.observation import Answer
from samebits.audit.survival import measure_survival
from tests.audit.seen import REPEAT, batch, observe


def tokens(*token_ids: int) -> Answer:
    return Answer(token_ids=token_ids)


def test_every_pair_across_counts_once() -> None:
    eight = batch(8)
    seen = [
        observe(condition, prompt, answer, repeat=repeat)
        for prompt, ours, theirs in (
            ("p0", tokens(1, 2, 3), tokens(1, 9, 3)),
            ("p1", tokens(1, 2, 3, 4), tokens(1, 2, 3, 4)),
        )
        for condition, answer in ((BASE, ours), (eight.treated, theirs))
        for repeat in range(2)
    ]
    curve = measure_survival("batch", [gather(eight, index_observations(seen))])
    assert curve is not None and curve.num_pairs == 8
    assert curve.tokens == (0, 2, 4)
    assert curve.alive == pytest.approx((1.0, 0.5, 0.5))


def test_repeats_are_paired_among_themselves() -> None:
    answers = [tokens(1, 2), tokens(1, 2), tokens(8, 2)]
    seen = [observe(BASE, "p0", answer, repeat=i) for i, answer in enumerate(answers)]
    curve = measure_survival("repeat", [gather(REPEAT, index_observations(seen))])
    assert curve is not None and curve.num_pairs == 3
    assert curve.alive == pytest.approx((1.0, 1 / 3, 1 / 3))


def test_texts_alone_give_no_curve() -> None:
    eight = batch(8)
    seen = [observe(BASE, "p0", Answer(text="a")), observe(eight.treated, "p0", Answer(text="b"))]
    assert measure_survival("batch", [gather(eight, index_observations(seen))]) is None
