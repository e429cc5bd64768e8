"""Logits, tokens and text keep their bits whatever else the engine does; plain arithmetic does not.

Equal step digests are equal bits of every logit that a token was drawn from. Inverse controls: of
chunks below; of rows, pages, threads, order, neighbours and processor in test_inverse_controls.py
and tests/numerics/test_plain.py.
"""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samebits.engine import Completion, Engine, FinishedEvent, SamplingParams
from samebits.model.decoder import Decoder
from samebits.numerics import portable, reference
from samebits.numerics.order_free import OrderFree
from samebits.numerics.plain import Plain
from tests.engine.tiny import SHARED, make_decoder, make_engine, make_prompts

PROMPTS = make_prompts(7)
SAMPLED = SamplingParams(max_tokens=16, temperature=0.9, top_p=0.95, seed=11, n=2, logprobs=3)
SHORT = SamplingParams(max_tokens=4)
PLAIN = {name: make_decoder(Plain(name)) for name in ("plain-f32", "plain-bf16")}

Bits = list[tuple[object, ...]]


def bits_of(completions: list[Completion]) -> Bits:
    """Give everything a user sees, and the digests of all logits."""
    return [
        (c.outputs, *(sample.steps for sample in c.receipt.samples))
        for c in completions
        if c.receipt is not None
    ]


def run(engine: Engine, prompts: list[list[int]], params: SamplingParams = SAMPLED) -> Bits:
    completions = engine.generate(prompts, params, receipt=True)
    engine.check_integrity()
    assert engine.loop.queues.pages.num_free == engine.limits.num_pages
    return bits_of(completions)


def alone(decoder: Decoder) -> Bits:
    """Serve each prompt by itself, whole, in a fresh engine."""
    return [run(make_engine(decoder), [prompt])[0] for prompt in PROMPTS]


ALONE = alone(SHARED)

Change = Callable[[Decoder], Bits]


def with_limits(**limits: int) -> Change:
    return lambda decoder: run(make_engine(decoder, **limits), PROMPTS)


def in_reverse(decoder: Decoder) -> Bits:
    return run(make_engine(decoder), PROMPTS[::-1])[::-1]


def with_other_neighbours(decoder: Decoder) -> Bits:
    others = make_prompts(5, seed=99)
    return run(make_engine(decoder), [*others, *PROMPTS])[5:]


def in_used_slots(decoder: Decoder) -> Bits:
    engine = make_engine(decoder)
    run(engine, make_prompts(7, seed=98))
    return run(engine, PROMPTS)


CHANGES: dict[str, Change] = {
    "all in one batch": with_limits(),
    "in reverse": in_reverse,
    "with other neighbours": with_other_neighbours,
    "in used slots": in_used_slots,
    "chunks of 1": with_limits(chunk_tokens=1),
    "chunks of 7": with_limits(chunk_tokens=7),
    "chunks of 16": with_limits(chunk_tokens=16),
    "chunks of 64": with_limits(chunk_tokens=64),
    "1 row a step": with_limits(max_rows=1),
    "17 rows a step": with_limits(max_rows=17),
    "batches of 2": with_limits(max_batch=2),
    "pages of 32": with_limits(page_tokens=32),
    "pages of 64": with_limits(page_tokens=64),
    "preemption": with_limits(kv_tokens=112),
}


@pytest.mark.parametrize("change", CHANGES)
def test_bits_are_invariant_to_what_the_engine_does_besides(change: str) -> None:
    assert CHANGES[change](SHARED) == ALONE


@pytest.mark.parametrize("arithmetic", PLAIN)
def test_plain_arithmetic_fails_the_same_claim(arithmetic: str) -> None:
    decoder = PLAIN[arithmetic]
    whole = run(make_engine(decoder), PROMPTS[:3], SHORT)
    assert run(make_engine(decoder), PROMPTS[:3], SHORT) == whole
    assert run(make_engine(decoder, chunk_tokens=7), PROMPTS[:3], SHORT) != whole


def test_preemption_does_happen_in_its_case() -> None:
    engine = make_engine(SHARED, kv_tokens=112)
    run(engine, PROMPTS)
    assert engine.loop.queues.num_preempted > 0


def test_the_pages_of_a_prompt_are_shared_in_these_cases() -> None:
    engine = make_engine(SHARED)
    stream = engine.stream([PROMPTS[0] * 3], SAMPLED)
    for _ in range(4):
        next(stream)
    assert max(engine.loop.queues.pages.holders) == 2
    assert bits_of([e.completion for e in stream if isinstance(e, FinishedEvent)]) == bits_of(
        make_engine(SHARED, page_tokens=1024).generate([PROMPTS[0] * 3], SAMPLED)
    )


def test_every_kernel_set_gives_the_same_bits() -> None:
    few = SamplingParams(max_tokens=4, temperature=0.9, top_p=0.95, seed=11, n=2, logprobs=3)
    expected = run(make_engine(SHARED), PROMPTS[:3], few)
    decoder = make_decoder(OrderFree(reference))
    assert isinstance(decoder.arithmetic, OrderFree)
    for kernels in (reference, portable):
        decoder.arithmetic.kernels = kernels
        assert run(make_engine(decoder), PROMPTS[:3], few) == expected


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.permutations(range(len(PROMPTS))),
    st.integers(1, len(PROMPTS)),
    st.sampled_from([1, 3, 16, 50, 256]),
    st.sampled_from([1, 5, 40, 256]),
    st.sampled_from([112, 160, 4096]),
    st.sampled_from([1, 3, 32]),
)
def test_bits_are_invariant_to_any_mix_of_these(
    order: list[int], count: int, chunk: int, rows: int, kv_tokens: int, batch: int
) -> None:
    engine = make_engine(
        SHARED, chunk_tokens=chunk, max_rows=rows, kv_tokens=kv_tokens, max_batch=batch
    )
    chosen = order[:count]
    assert run(engine, [PROMPTS[i] for i in chosen]) == [ALONE[i] for i in chosen]
