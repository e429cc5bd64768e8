"""Our engine as a target: every factor is really brought about, and refused where it cannot be."""

import subprocess
import sys
from dataclasses import replace

import pytest

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.targets.engine import EngineSettings, refuse
from samebits.audit.targets.engine_facts import CORE_SWITCH, NUMPY_SWITCH
from samebits.audit.targets.engine_order import Order, fit
from samebits.audit.targets.engine_session import EngineSession, check_variables, open_session
from samebits.engine import SamplingParams
from samebits.errors import ConfigError, ModelFileError, TargetError
from samebits.numerics.native.kernels import find_library
from samebits.record.receipt import logits_digest
from tests.audit.tiny_engine import COMPANIONS, PROMPTS, Load, ask, make_ask, of_call, open_tiny

NEUTRAL = [
    Call(batch=2),
    Call(batch=8),
    Call(batch=8, position=7),
    Call(batch=8, neighbours="others"),
    Call(batch=8, neighbours="more", position=3),
    Call(concurrency=2),
    Call(concurrency=8, neighbours="others"),
    Call(concurrency=4, stagger_ms=3),
    Call(chunk_tokens=1),
    Call(chunk_tokens=7),
    Call(kv_cache=False),
    Call(logprobs=0),
    Call(logprobs=5),
    Call(stream=True),
    Call(n=4),
    Call(seed="0"),
    Call(seed="null"),
    Call(first="later"),
]
"""Calls that are to change nothing under the contract."""
SAMPLED = Call(temperature=1.0, seed="42")
OTHERS = Call(batch=8, neighbours="others")


def outcomes(answers: list[Answer]) -> list[tuple[object, ...]]:
    return [(a.token_ids, a.text, a.finish_reason, a.margins, a.seconds) for a in answers]


def bits(answers: list[Answer]) -> list[tuple[str, ...] | None]:
    assert all(answer.steps for answer in answers)
    return [answer.steps for answer in answers]


@pytest.mark.parametrize("call", NEUTRAL, ids=lambda call: of_call(call).key)
def test_the_contract_gives_the_same_bits_whatever_the_call_changes(call: Call) -> None:
    session = open_tiny("sb1")
    base, treated = ask(session, Call()), ask(session, call)
    assert bits(treated) == bits(base)
    assert outcomes(treated) == outcomes(base)


@pytest.mark.parametrize(
    "call",
    [
        replace(SAMPLED, batch=8, neighbours="others"),
        replace(SAMPLED, batch=8, neighbour_seed=7),
        replace(SAMPLED, kv_cache=False),
        replace(SAMPLED, concurrency=4),
    ],
    ids=lambda call: of_call(call).key,
)
def test_a_seeded_draw_under_the_contract_does_not_depend_on_company(call: Call) -> None:
    session = open_tiny("sb1")
    base = ask(session, SAMPLED)
    assert outcomes(ask(session, call)) == outcomes(base)
    assert outcomes(base) != outcomes(ask(session, replace(SAMPLED, seed="43")))
    assert outcomes(base) != outcomes(ask(session, Call()))


@pytest.mark.parametrize("name", ["plain-f32", "plain-bf16"])
def test_ordinary_arithmetic_repeats_itself(name: str) -> None:
    session = open_tiny(name)
    for call in (Call(), Call(batch=4), Call(concurrency=3)):
        assert bits(ask(session, call)) == bits(ask(session, call))


@pytest.mark.parametrize(
    "call",
    [Call(batch=8), Call(concurrency=8), Call(chunk_tokens=7), Call(kv_cache=False), Call(n=4)],
    ids=lambda call: of_call(call).key,
)
def test_the_shape_of_the_work_moves_the_bits_of_float32(call: Call) -> None:
    session = open_tiny("plain-f32")
    base, treated = ask(session, Call()), ask(session, call)
    assert bits(base) != bits(treated)
    assert [a.token_ids for a in base] == [a.token_ids for a in treated]


@pytest.mark.parametrize("name", ["plain-f32", "plain-bf16"])
def test_the_neighbours_content_moves_nothing_under_ordinary_arithmetic(name: str) -> None:
    session = open_tiny(name)
    for call in (Call(batch=4), Call(concurrency=3)):
        seen = [bits(ask(session, replace(call, neighbours=n))) for n in ("others", "more")]
        assert seen[0] == seen[1] == bits(ask(session, call))


def test_concurrent_requests_are_a_batch_in_the_order_of_their_places() -> None:
    session = open_tiny("plain-f32")
    as_batch = ask(session, Call(batch=6, position=3))
    assert bits(ask(session, Call(concurrency=6))) == bits(as_batch)
    assert bits(as_batch) != bits(ask(session, Call()))


def test_the_steps_are_the_digests_of_the_raw_logits() -> None:
    session = open_tiny("sb1")
    first = ask(session, Call())[0]
    assert first.steps is not None
    assert first.token_ids is not None
    assert first.margins is not None
    ids = [*b"x=", *first.token_ids[:-1]]
    rows = session.engine.score(ids)[1:]
    assert [logits_digest(row).removeprefix("sha256:")[:16] for row in rows] == list(first.steps)
    best = [sorted(map(float, row), reverse=True) for row in rows]
    assert [values[0] - values[1] for values in best] == list(first.margins)
    assert [int(row.argsort()[-2]) for row in rows] == list(first.seconds or ())


def test_log_probabilities_are_those_of_the_chosen_tokens() -> None:
    session = open_tiny("sb1")
    params = SamplingParams(max_tokens=6, ignore_eos=True, logprobs=0)
    given = session.engine.generate(["x="], params)[0].outputs[0].logprobs
    assert given is not None
    for call in (Call(), Call(logprobs=1), Call(logprobs=5), Call(kv_cache=False)):
        assert ask(session, call)[0].logprobs == tuple(entry.logprob for entry in given)
    assert ask(session, Call(logprobs=0))[0].logprobs is None


def test_scoring_reads_the_prompts_own_tokens() -> None:
    session = open_tiny("sb1")
    scored = ask(session, Call(scoring=True))[1]
    assert scored.token_ids == tuple(b"he sea is")
    assert scored.text == "he sea is"
    assert len(scored.steps or ()) == len(scored.margins or ()) == len(scored.logprobs or ()) == 9
    alone = next(iter(session.ask(make_ask(Call(scoring=True), (AuditPrompt(id="a", text="a"),)))))
    assert alone.error is not None
    assert "two tokens" in alone.error


def test_further_samples_are_reported_beside_the_first() -> None:
    session = open_tiny("sb1")
    several = ask(session, replace(SAMPLED, n=4))
    assert [a.token_ids for a in several] == [a.token_ids for a in ask(session, SAMPLED)]
    assert all(len(a.others) == 3 and len({a.text, *a.others}) > 1 for a in several)


def test_the_clock_reaches_messages_and_a_text_is_what_a_user_says() -> None:
    session = open_tiny("sb1", has_template=True)
    chat = AuditPrompt(id="chat", messages=(("user", "hello"),))
    calls = [Call(), Call(clock="2024-02-29T12:00:00"), Call(clock="2031-11-05T06:30:00")]
    found = [list(session.ask(make_ask(call, (chat, PROMPTS[1])))) for call in calls]
    assert [answers[0].prompt_text for answers in found] == [
        "26 Jul 2024: hello",
        "29 Feb 2024: hello",
        "05 Nov 2031: hello",
    ]
    assert len({answers[0].steps for answers in found}) == 3
    assert [answers[1].prompt_text for answers in found] == [
        PROMPTS[1].text,
        f"29 Feb 2024: {PROMPTS[1].text}",
        f"05 Nov 2031: {PROMPTS[1].text}",
    ]


def test_a_prompt_that_cannot_be_served_is_an_answer_with_an_error() -> None:
    session = open_tiny("sb1")
    prompts = (
        AuditPrompt(id="empty", text=""),
        AuditPrompt(id="chat", messages=(("user", "hello"),)),
        AuditPrompt(id="long", text="x" * 600),
        PROMPTS[0],
    )
    answers = list(session.ask(make_ask(Call(), prompts)))
    words = ("an empty prompt", "no chat template", "at most 511 prompt tokens")
    for answer, word in zip(answers, words, strict=False):
        assert word in (answer.error or "")
        assert answer.token_ids is None
        assert answer.steps is None
    assert answers[3] == replace(ask(session, Call())[0], elapsed_s=answers[3].elapsed_s)


def test_an_unknown_seed_is_refused_by_name() -> None:
    session = open_tiny("sb1")
    answers = ask(session, Call(seed="-1"))
    assert all("a decimal number, absent or null" in (a.error or "") for a in answers)


def test_an_output_ends_with_the_context_whether_or_not_there_is_a_cache() -> None:
    session = open_tiny("sb1")
    prompt = (AuditPrompt(id="nearly", text="y" * 508),)
    ends = [
        next(iter(session.ask(make_ask(call, prompt)))) for call in (Call(), Call(kv_cache=False))
    ]
    assert [len(end.token_ids or ()) for end in ends] == [4, 4]
    assert ends[0].steps == ends[1].steps


def test_neighbours_have_the_length_of_the_prompt_and_are_not_the_same_twice() -> None:
    texts = [list(b"abcdef"), list(b"xy")]
    made = {kind: list_neighbours(kind, texts) for kind in ("others", "more")}
    assert made["others"][:3] == [b"abcd", b"xyxy", b"bcde"]
    assert not {*made["others"][:2]} & {*made["more"][:1]}
    assert all(len(text) == 4 for texts in made.values() for text in texts)
    assert list_neighbours("copies", texts) == [b"PPPP"] * 7
    assert bytes(fit(texts, 3, 5)) == b"yxyxy"


def list_neighbours(kind: str, texts: list[list[int]]) -> list[bytes]:
    order = Order(
        call=Call(batch=8, neighbours=kind), max_tokens=1, ignore_eos=True, companions=texts
    )
    rows = order.rows(b"PPPP")
    assert bytes(rows[0]) == b"PPPP"
    return [bytes(row) for row in rows[1:]]


@pytest.mark.parametrize("position", [0, 3, 7])
def test_the_observed_row_stands_where_it_was_asked_for(position: int) -> None:
    call = Call(batch=8, position=position, neighbours="others")
    order = Order(call=call, max_tokens=1, ignore_eos=True, companions=[b"ab", b"cd"])
    rows = [bytes(row) for row in order.rows(b"P")]
    assert [place for place, row in enumerate(rows) if row == b"P"] == [position]
    assert len(rows) == 8


def test_a_stagger_really_delays_the_starts() -> None:
    session = open_tiny("sb1")
    delayed = ask(session, Call(concurrency=4, stagger_ms=20))
    # The observed request is the third of four.
    assert all(answer.elapsed_s >= 0.04 for answer in delayed)


def test_neighbours_of_other_texts_need_companions() -> None:
    load = Load("sb1")
    session = EngineSession(load(Process()), settings=EngineSettings(model="tiny"), load=load)
    lonely = replace(make_ask(Call(batch=2, neighbours="others")), companions=())
    with pytest.raises(TargetError, match="companions"):
        list(session.ask(lonely))


def test_the_facts_say_what_is_in_force_and_offer_only_what_is_not() -> None:
    facts = open_tiny("sb1").facts
    identity = open_tiny("sb1").engine.identity
    assert facts.in_force["contract"] == facts.in_force["arithmetic"] == "sb1"
    assert facts.in_force["weights_digest"] == identity.weights
    assert facts.in_force["tokenizer"] == identity.tokenizer
    assert facts.in_force["template"] is None
    assert facts.in_force["threads"] not in facts.threads
    assert facts.in_force["level"] not in facts.isas
    assert facts.dtypes == facts.attentions == ()
    if find_library():
        assert facts.isas[-1] == "portable"
        assert facts.variables == ()


def test_a_plain_arithmetic_offers_the_others_and_numpys_kernels() -> None:
    facts = open_tiny("plain-f32").facts
    assert facts.dtypes == ("plain-bf16", "plain-f64")
    assert facts.isas == ()
    assert facts.in_force["contract"] is facts.in_force["weights"] is None
    offered = [setting for settings in facts.variables for setting in settings]
    in_force = str(facts.in_force["blas"]).split()[-1]
    assert (CORE_SWITCH, in_force) not in offered
    assert {name for name, _ in offered} <= {CORE_SWITCH, NUMPY_SWITCH, "OPENBLAS_NUM_THREADS"}


REFUSED = {
    "keeps no prefix": Condition(call=Call(prefix="warm")),
    "never pads": Condition(call=Call(padding=16)),
    "always takes the lowest id": Condition(call=Call(pick="highest")),
    "compares raw logits": Condition(call=Call(pick="log-softmax")),
    "one attention": Condition(process=Process(attention="eager")),
    "compiles nothing": Condition(process=Process(compile=True)),
    "sb1 is one contract": Condition(process=Process(dtype="plain-f32")),
    "no such kernels": Condition(process=Process(isa="sse2")),
    "thread count": Condition(process=Process(threads=77)),
    "read these variables": Condition(process=Process(variables=(("MKL_CBWR", "AVX2"),))),
    "scores one text": Condition(call=Call(scoring=True, batch=2)),
    "without the cache": Condition(call=Call(kv_cache=False, concurrency=2)),
    "not brought about together": Condition(call=Call(batch=2, concurrency=2)),
    "no such row": Condition(call=Call(batch=2, position=2)),
    "more requests at once": Condition(call=Call(concurrency=17)),
    "fewer log-probabilities": Condition(call=Call(logprobs=21)),
    "no chat template": Condition(call=Call(clock="2024-02-29T12:00:00")),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_brought_about_is_refused_with_its_reason(reason: str) -> None:
    assert reason in refuse(REFUSED[reason], open_tiny("sb1").facts)


def test_what_can_be_brought_about_is_not_refused() -> None:
    facts = open_tiny("sb1").facts
    assert not any(refuse(Condition(call=call), facts) for call in NEUTRAL)
    offers = [Process(instance=1), *(Process(isa=isa) for isa in facts.isas)]
    assert not any(refuse(Condition(process=process), facts) for process in offers)
    plain = open_tiny("plain-f32").facts
    assert not any(refuse(Condition(process=Process(dtype=d)), plain) for d in plain.dtypes)
    wrong = Condition(process=Process(dtype="float16"))
    assert "no such arithmetic" in refuse(wrong, plain)


def test_a_variable_that_is_not_in_force_is_no_audit() -> None:
    with pytest.raises(ConfigError, match=CORE_SWITCH):
        check_variables(Process(variables=((CORE_SWITCH, "Itanium"),)))
    check_variables(Process(variables=(("OPENBLAS_NUM_THREADS", "1"),)))


def test_a_missing_model_and_an_impossible_setting_are_refused() -> None:
    with pytest.raises((ModelFileError, ConfigError), match="nowhere"):
        open_session(EngineSettings(model="/nowhere/model.gguf").value(), Process())
    with pytest.raises(ConfigError, match="w8 with the arithmetic sb1 only"):
        settings = EngineSettings(model="x", arithmetic="plain-f32", weights="w8")
        open_session(settings.value(), Process())


def test_the_parents_side_imports_no_engine() -> None:
    program = (
        "import sys, samebits.audit.targets.engine, samebits.audit.targets.local\n"
        "sys.exit('samebits.engine' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_companions_may_be_fewer_than_neighbours() -> None:
    assert len(COMPANIONS) < OTHERS.batch - 1
    assert all(answer.error is None for answer in ask(open_tiny("plain-f32"), OTHERS))
