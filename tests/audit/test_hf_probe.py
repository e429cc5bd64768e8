"""A probe names the first place where bits part, and measures rounding against float64."""

from functools import cache

import pytest

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.targets.hf import HfSettings
from tests.audit.tiny_hf import write_folder

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from samebits.audit.targets.hf_float64 import read_in_float64  # noqa: E402 - it needs torch
from samebits.audit.targets.hf_session import HfSession, open_session  # noqa: E402

PROMPT = AuditPrompt(id="sky", text="Why is the sky blue?")
BASE = Condition()


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> HfSession:
    folder = write_folder(tmp_path_factory.mktemp("tiny"))
    return open_session(HfSettings(path=str(folder), threads=1).value(), Process())


@cache
def look(session: HfSession, treated: Condition) -> Probe:
    """Probe once for all tests of a condition."""
    probe = session.probe(BASE, treated, PROMPT)
    assert probe is not None
    return probe


def first_unequal(probe: Probe) -> str:
    return next(place.name for place in probe.places if not place.is_equal)


def test_a_condition_and_itself_are_equal_everywhere(session: HfSession) -> None:
    probe = look(session, BASE)
    assert all(place.is_equal for place in probe.places)
    assert [place.name for place in probe.places[:2]] == ["model.embed_tokens", "model.rotary_emb"]
    assert probe.places[-1].name == "lm_head"
    assert probe.tie is not None and probe.tie.base == probe.tie.treated


def test_depth_runs_from_before_the_first_layer_to_after_the_last(session: HfSession) -> None:
    depths = [place.depth for place in look(session, BASE).places]
    assert depths == sorted(depths)
    assert set(depths) == {-1, 0, 1, 2}


def test_another_attention_parts_at_the_first_attention(session: HfSession) -> None:
    probe = look(session, Condition(process=Process(attention="eager")))
    assert first_unequal(probe) == "model.layers.0.self_attn.o_proj input"
    assert session.loaded.model.config._attn_implementation == "sdpa"


def test_padding_parts_no_earlier_than_attention(session: HfSession) -> None:
    probe = look(session, Condition(call=Call(padding=16)))
    equal = {place.name for place in probe.places if place.is_equal}
    assert {"model.embed_tokens", "model.rotary_emb"} <= equal
    assert not probe.places[-1].is_equal


@pytest.mark.parametrize(
    "call", [Call(batch=8), Call(batch=3, position=1), Call(chunk_tokens=7), Call(kv_cache=False)]
)
def test_a_call_that_moves_bits_parts_somewhere_and_the_embedding_is_innocent(
    session: HfSession, call: Call
) -> None:
    probe = look(session, Condition(call=call))
    assert first_unequal(probe) != "model.embed_tokens"
    assert not probe.places[-1].is_equal


def test_rounding_is_measured_on_both_sides(session: HfSession) -> None:
    probe = look(session, Condition(process=Process(dtype="bfloat16")))
    last = probe.places[-1]
    assert last.error_base is not None and last.error_treated is not None
    assert 1e-8 < last.error_base < 1e-5 < 1e-3 < last.error_treated < 0.2
    assert probe.places[0].error_base == 0.0


def test_float64_is_float64_throughout(session: HfSession) -> None:
    model = session.loaded.model
    with torch.no_grad():
        trace = read_in_float64(model, (72, 105, 33))
    assert trace is not None
    values = {name: trace.join(name) for name in trace.outputs}
    assert {x.dtype for x in values.values()} == {torch.float64}
    angles = torch.arange(3)[:, None].double() * model.model.rotary_emb.inv_freq.double()
    exact = torch.cat([angles.cos(), angles.cos(), angles.sin(), angles.sin()], dim=1)
    assert (values["model.rotary_emb"] - exact).abs().max() < 1e-15
    x = values["model.embed_tokens"]
    scale = (x.pow(2).mean(-1, keepdim=True) + model.config.rms_norm_eps).rsqrt()
    assert (values["model.layers.0.input_layernorm"] - x * scale).abs().max() < 1e-14
    assert model.dtype == torch.float32


def test_operands_are_a_dot_product_of_the_model(session: HfSession) -> None:
    operands = look(session, Condition(call=Call(batch=8))).operands
    assert operands is not None
    assert operands.dtype == "float32" and len(operands.x) == len(operands.w) == 64
    row = int(operands.name.removeprefix("lm_head[").removesuffix("]"))
    assert operands.w == tuple(session.loaded.model.lm_head.weight[row].tolist())


def test_a_near_tie_has_the_best_tokens_of_both_sides(session: HfSession) -> None:
    tie = look(session, Condition(process=Process(dtype="bfloat16"))).tie
    assert tie is not None and len(tie.tokens) >= 2
    assert len(tie.tokens) == len(tie.base) == len(tie.treated)
    assert list(tie.base) == sorted(tie.base, reverse=True)
    assert max(tie.treated) != max(tie.base)


@pytest.mark.parametrize(
    "treated",
    [
        Condition(process=Process(threads=1)),
        Condition(process=Process(variables=(("MKL_CBWR", "AVX2"),))),
        Condition(call=Call(temperature=1.0, seed="1")),
        Condition(call=Call(pick="highest")),
        Condition(call=Call(scoring=True, batch=8)),
    ],
)
def test_what_one_process_cannot_show_has_no_probe(session: HfSession, treated: Condition) -> None:
    assert session.probe(BASE, treated, PROMPT) is None


def test_without_memory_for_float64_errors_are_unknown(
    session: HfSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("samebits.audit.targets.hf_float64.measure_free_bytes", lambda: 0)
    probe = session.probe(BASE, BASE, PROMPT)
    assert probe is not None and probe.places
    assert all(place.error_base is None and place.error_treated is None for place in probe.places)
