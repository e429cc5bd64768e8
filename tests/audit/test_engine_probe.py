"""The probe names the first operation whose bits part, and only then."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.targets.engine import EngineSettings
from samebits.audit.targets.engine_session import EngineSession
from samebits.engine import Engine
from samebits.model.decoder import Decoder
from samebits.numerics.plain import Plain, PlainCache
from samebits.numerics.select import select_arithmetic
from samebits.numerics.values import AttentionShape, Rows
from tests.audit.tiny_engine import PROMPTS, ask, of_call, open_tiny
from tests.engine.tiny import CONFIG, MatrixInMemory, make_engine, make_tensors

LAYER = (
    "attn_norm",
    "qkv",
    "rope",
    "attention",
    "o",
    "ffn_norm",
    "gate_up",
    "gate",
    "down",
)
LONG = PROMPTS[2]


def probe(session: EngineSession, base: Call, treated: Call, prompt: AuditPrompt = LONG) -> Probe:
    found = session.probe(of_call(base), of_call(treated), prompt)
    assert found is not None
    return found


def parted(found: Probe) -> list[str]:
    return [place.name for place in found.places if not place.is_equal]


def test_the_places_are_the_operations_in_order_of_execution() -> None:
    places = probe(open_tiny("plain-f32"), Call(), Call(stream=True)).places
    layers = [f"layers.{i}.{name}" for i in range(2) for name in LAYER]
    assert [place.name for place in places] == ["embed", *layers, "norm", "head"]
    assert [place.depth for place in places] == [-1, *[0] * 9, *[1] * 9, 2, 2]


@pytest.mark.parametrize(
    "call", [Call(batch=8), Call(chunk_tokens=7), Call(kv_cache=False), Call(concurrency=4)]
)
def test_under_float32_bits_part_in_a_product_or_in_attention(call: Call) -> None:
    found = probe(open_tiny("plain-f32"), Call(), call)
    first = parted(found)[0]
    assert first.endswith((".qkv", ".attention", ".o", ".gate_up", ".down"))
    assert parted(found)[-1] == "head"
    assert found.places[0].is_equal


@pytest.mark.parametrize(
    "call",
    [
        Call(batch=8, neighbours="others", position=3),
        Call(chunk_tokens=7),
        Call(kv_cache=False),
        Call(concurrency=4),
        Call(n=4),
    ],
)
def test_under_the_contract_nothing_parts(call: Call) -> None:
    found = probe(open_tiny("sb1"), Call(), call)
    assert parted(found) == []
    assert found.tie is not None
    assert found.tie.base == found.tie.treated


class Jolted(Plain):
    """Nudges attention in one layer when other rows are in the step."""

    def attention(
        self, q: NDArray[np.float32], shape: AttentionShape, rows: Rows, cache: PlainCache
    ) -> NDArray[np.float32]:
        mixed = super().attention(q, shape, rows, cache)
        self.calls = getattr(self, "calls", 0) + 1
        is_last_layer = self.calls % CONFIG.num_layers == 0
        return mixed + np.float32(is_last_layer and len(rows.starts) > 2)


def test_a_planted_cause_is_found_where_it_was_planted() -> None:
    def load(process: Process) -> Engine:
        arithmetic = select_arithmetic("plain-f64", threads=1) if process.dtype else planted
        return make_engine(Decoder(CONFIG, make_tensors(), arithmetic))

    # Bits of float64 logits survive no companions as float32, hence the jolt alone moves them.
    planted = Jolted("plain-f64")
    settings = EngineSettings(model="tiny", arithmetic="plain-f64", ignore_eos=True)
    session = EngineSession(load(Process()), settings=settings, load=load)
    assert parted(probe(session, Call(), Call(logprobs=5))) == []
    found = probe(session, Call(), Call(batch=2))
    errors = {place.name: place for place in found.places}
    jolted = errors["layers.1.attention"]
    assert jolted.error_base is not None
    assert jolted.error_treated is not None
    assert jolted.error_base < 1e-12 < 1e-2 < jolted.error_treated
    before = errors["layers.0.down"]
    assert before.error_treated is not None
    assert before.error_treated < 1e-12


@pytest.mark.parametrize(("name", "most"), [("plain-f32", 1e-5), ("plain-bf16", 0.1)])
def test_errors_against_float64_are_those_of_the_precision(name: str, most: float) -> None:
    found = probe(open_tiny(name), Call(), Call(batch=8))
    errors = [e for place in found.places for e in (place.error_base, place.error_treated)]
    assert all(error is not None and error < most for error in errors)
    assert max(error for error in errors if error is not None) > most / 1000
    assert found.places[0].error_base == (0.0 if name == "plain-f32" else pytest.approx(2e-3, 1))


@pytest.mark.parametrize("name", ["sb1", "plain-f32"])
def test_the_operands_add_up_to_the_best_logit(name: str) -> None:
    found = probe(open_tiny(name), Call(), Call(batch=2))
    assert found.operands is not None
    assert found.tie is not None
    total = sum(x * w for x, w in zip(found.operands.x, found.operands.w, strict=True))
    assert found.operands.dtype == "float32"
    assert found.operands.x == tuple(float(np.float32(x)) for x in found.operands.x)
    assert total == pytest.approx(found.tie.base[0], rel=1e-3)


def test_without_another_token_the_nearest_tie_is_looked_at() -> None:
    session = open_tiny("plain-f32")
    margins = ask(session, Call())[2].margins
    assert margins is not None
    tie = probe(session, Call(), Call(batch=8)).tie
    assert tie is not None
    assert tie.step == margins.index(min(margins))
    assert tie.base[0] - tie.base[1] == min(margins)
    assert len(tie.tokens) == len(tie.base) == len(tie.treated) >= 2


def test_the_step_whose_token_differs_is_looked_at_and_nothing_after_it() -> None:
    session = open_tiny("sb1")
    sampled = Call(temperature=1.0, seed="42")
    first, other = (ask(session, c)[2] for c in (sampled, replace(sampled, seed="43")))
    assert first.token_ids is not None
    assert other.token_ids is not None
    pairs = zip(first.token_ids, other.token_ids, strict=True)
    step = next(i for i, (a, b) in enumerate(pairs) if a != b)
    found = probe(session, sampled, replace(sampled, seed="43"))
    assert found.tie is not None
    assert found.tie.step == step
    assert parted(found) == []


def test_another_precision_is_looked_at_too() -> None:
    session = open_tiny("plain-f32")
    other = Condition(process=Process(dtype="plain-bf16"))
    found = session.probe(Condition(), other, LONG)
    assert found is not None
    assert parted(found)[0] == "embed"
    assert (found.base, found.treated) == ("{}", '{"dtype":"plain-bf16"}')


@pytest.mark.parametrize(
    ("base", "treated"),
    [
        (Condition(), Condition(process=Process(instance=1))),
        (Condition(), Condition(process=Process(variables=(("OPENBLAS_NUM_THREADS", "1"),)))),
        (Condition(), of_call(Call(scoring=True))),
        (Condition(), of_call(Call(temperature=1.0))),
    ],
)
def test_what_cannot_be_looked_at_gives_no_probe(base: Condition, treated: Condition) -> None:
    assert open_tiny("sb1").probe(base, treated, LONG) is None


def test_two_different_prompts_and_one_that_cannot_be_served_give_no_probe() -> None:
    session = open_tiny("sb1", has_template=True)
    chat = AuditPrompt(id="chat", messages=(("user", "hello"),))
    clocks = [of_call(Call(clock=f"20{year}-01-01T00:00:00")) for year in (24, 31)]
    assert session.probe(clocks[0], clocks[1], chat) is None
    empty = AuditPrompt(id="empty", text="")
    assert session.probe(Condition(), of_call(Call(batch=2)), empty) is None
    endless = AuditPrompt(id="endless", text="x" * 600)
    assert session.probe(Condition(), of_call(Call(batch=2)), endless) is None


def test_norms_after_the_blocks_are_places_of_their_own() -> None:
    config = replace(CONFIG, post_norms=True)
    norms = {
        f"layers.{i}.{name}": MatrixInMemory(np.ones((1, CONFIG.width), np.float32))
        for i in range(2)
        for name in ("attn_post_norm", "ffn_post_norm")
    }
    tensors: Mapping[str, object] = {**make_tensors(), **norms}

    def load(process: Process) -> Engine:
        arithmetic = select_arithmetic(process.dtype or "sb1", threads=1)
        return make_engine(Decoder(config, tensors, arithmetic))  # type: ignore[arg-type]

    settings = EngineSettings(model="tiny", ignore_eos=True)
    found = probe(EngineSession(load(Process()), settings=settings, load=load), Call(), Call(n=2))
    names = [place.name.removeprefix("layers.1.") for place in found.places if place.depth == 1]
    assert names[4:7] == ["o", "attn_post_norm", "attn_add"]
    assert names[-2:] == ["ffn_post_norm", "ffn_add"]
    assert parted(found) == []
