from collections.abc import Sequence

import pytest

from samebits.audit.axes import BASE, with_call, with_process
from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.pairs import compare_answers
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask
from samebits.audit.targets.stub import Stub
from samebits.audit.targets.stub_causes import FACTORS, Cause, Script, read_script
from samebits.errors import ConfigError, TargetError

PROMPTS = tuple(AuditPrompt(id=f"p{i}", text=f"prompt number {i} " + "x " * i) for i in range(16))


def ask(
    stub: Stub,
    condition: Condition = BASE,
    prompts: Sequence[AuditPrompt] = PROMPTS,
    block: str = "b",
) -> list[Answer]:
    with stub.open(condition.process) as session:
        return list(
            session.ask(
                Ask(
                    call=condition.call,
                    prompts=prompts,
                    max_tokens=12,
                    block=block,
                    companions=(),
                )
            )
        )


def plant(*causes: Cause, **script: object) -> Stub:
    return Stub(Script(causes=causes, **script))  # type: ignore[arg-type]


def count_tokens_differ(one: list[Answer], other: list[Answer]) -> int:
    pairs = [compare_answers(a, b) for a, b in zip(one, other, strict=True)]
    return sum(pair is not None and pair.tokens_differ for pair in pairs)


def count_bits_differ(one: list[Answer], other: list[Answer]) -> int:
    pairs = [compare_answers(a, b) for a, b in zip(one, other, strict=True)]
    return sum(pair is not None and bool(pair.bits_differ) for pair in pairs)


TREATED = {
    "batch": with_call(BASE, batch=8),
    "position": with_call(BASE, position=7),
    "neighbours": with_call(BASE, neighbours="more"),
    "padding": with_call(BASE, padding=16),
    "concurrency": with_call(BASE, concurrency=8),
    "stagger_ms": with_call(BASE, stagger_ms=20),
    "chunk_tokens": with_call(BASE, chunk_tokens=7),
    "kv_cache": with_call(BASE, kv_cache=False),
    "logprobs": with_call(BASE, logprobs=5),
    "stream": with_call(BASE, stream=True),
    "n": with_call(BASE, n=4),
    "neighbour_seed": with_call(BASE, neighbour_seed=7),
    "clock": with_call(BASE, clock="2031-11-05T06:30:00"),
    "pick": with_call(BASE, pick="highest"),
    "instance": with_process(BASE, instance=1),
    "threads": with_process(BASE, threads=1),
    "dtype": with_process(BASE, dtype="float32"),
    "attention": with_process(BASE, attention="eager"),
    "compile": with_process(BASE, compile=True),
    "isa": with_process(BASE, isa="avx2"),
    "variables": with_process(BASE, variables=(("STUB_KERNELS", "plain"),)),
}


def test_without_a_cause_nothing_moves() -> None:
    stub = plant()
    for condition in TREATED.values():
        assert count_bits_differ(ask(stub), ask(stub, condition)) == 0
        assert count_tokens_differ(ask(stub), ask(stub, condition)) == 0


@pytest.mark.parametrize("factor", sorted(TREATED))
def test_a_large_cause_flips_tokens_and_repeats_itself(factor: str) -> None:
    stub = plant(Cause(factor=factor, size=2.0))
    assert count_tokens_differ(ask(stub), ask(stub, TREATED[factor])) >= 4
    assert count_bits_differ(ask(stub, TREATED[factor]), ask(stub, TREATED[factor])) == 0
    for other, condition in TREATED.items():
        if other != factor:
            assert count_bits_differ(ask(stub), ask(stub, condition)) == 0


def test_a_small_cause_moves_bits_and_no_tokens() -> None:
    stub = plant(Cause(factor="batch", size=1e-6))
    base, treated = ask(stub), ask(stub, TREATED["batch"])
    assert count_bits_differ(base, treated) == len(PROMPTS)
    assert count_tokens_differ(base, treated) == 0


def test_a_tie_rule_moves_tokens_while_the_bits_before_them_stay() -> None:
    stub = plant(Cause(factor="pick", size=0.5))
    base, treated = ask(stub), ask(stub, TREATED["pick"])
    assert count_tokens_differ(base, treated) > 4
    assert count_bits_differ(base, treated) == 0


def test_a_cause_acts_from_its_least_value_and_length_on() -> None:
    stub = plant(Cause(factor="concurrency", size=1.0, at_least=5, prompt_tokens=10))
    base = ask(stub)
    assert count_bits_differ(base, ask(stub, with_call(BASE, concurrency=4))) == 0
    treated = ask(stub, with_call(BASE, concurrency=5))
    moved = [a.steps != b.steps for a, b in zip(base, treated, strict=True)]
    assert moved == [(answer.num_prompt_tokens or 0) >= 10 for answer in base]


def test_the_first_call_of_each_process_is_touched_and_no_other() -> None:
    stub = plant(Cause(factor="first", size=1e-3))
    clean = ask(plant())
    for _ in range(2):
        answers = ask(stub)
        assert [a.steps != b.steps for a, b in zip(answers, clean, strict=True)] == [
            True,
            *[False] * 15,
        ]


def test_a_prompt_is_warm_once_its_process_saw_it_behind_the_same_mark() -> None:
    stub = plant(Cause(factor="prefix", size=1e-3))
    cold = with_call(BASE, prefix="cold").call
    with stub.open(Process()) as session:

        def once(block: str, call: Call = cold) -> Answer:
            asked = Ask(call=call, prompts=PROMPTS[:1], max_tokens=4, block=block, companions=())
            return next(iter(session.ask(asked)))

        first, second, third = once("a"), once("a"), once("a")
        assert first.steps != second.steps
        assert second == third
        assert once("b").steps != first.steps
        assert once("a", BASE.call) == once("a", BASE.call)


def test_noise_touches_some_calls_each_in_its_own_way() -> None:
    stub = plant(Cause(factor="noise", size=1e-3, chance=0.5))
    clean = ask(plant())
    rounds = [ask(stub) for _ in range(4)]
    touched = [count_bits_differ(clean, answers) for answers in rounds]
    assert all(2 <= count <= 14 for count in touched)
    assert count_bits_differ(rounds[0], rounds[1]) > 2


def test_each_process_can_be_another() -> None:
    stub = plant(Cause(factor="session", size=1e-3))
    assert count_bits_differ(ask(stub), ask(stub)) == len(PROMPTS)


def test_a_run_can_be_had_again() -> None:
    causes = (Cause(factor="noise", chance=0.3), Cause(factor="session"))
    one, other = plant(*causes), plant(*causes)
    for name in ("batch", "concurrency", "threads"):
        assert ask(one, TREATED[name]) == ask(other, TREATED[name])


def test_a_seed_is_kept_and_an_omitted_one_is_random() -> None:
    stub = plant()
    sampled = with_call(BASE, temperature=1.0, seed="42")
    assert count_tokens_differ(ask(stub, sampled), ask(stub, sampled)) == 0
    assert count_tokens_differ(ask(stub, sampled), ask(stub, with_call(sampled, seed="43"))) > 8
    for seed in ("absent", "null"):
        omitted = with_call(sampled, seed=seed)
        assert count_tokens_differ(ask(stub, omitted), ask(stub, omitted)) > 8
    zero = with_call(sampled, seed="0")
    assert count_tokens_differ(ask(stub, zero), ask(stub, zero)) == 0


def test_seeds_can_be_mistreated_in_each_known_way() -> None:
    def repeats(stub: Stub, seed: str) -> bool:
        sampled = with_call(BASE, temperature=1.0, seed=seed)
        return count_tokens_differ(ask(stub, sampled), ask(stub, sampled)) == 0

    assert not repeats(plant(ignores_seed=True), "42")
    assert repeats(plant(omitted_seed_is_constant=True), "absent")
    assert not repeats(plant(zero_seed_is_omitted=True), "0")
    assert repeats(plant(zero_seed_is_omitted=True), "42")


def test_samples_of_one_seed_differ_and_come_again() -> None:
    stub = plant()
    sampled = with_call(BASE, temperature=1.0, seed="42", n=4)
    one, again = ask(stub, sampled), ask(stub, sampled)
    assert [a.others for a in one] == [a.others for a in again]
    assert all(len({a.text, *a.others}) > 1 for a in one)


def test_scoring_gives_the_prompts_own_tokens() -> None:
    stub = plant(Cause(factor="scoring", size=1.0))
    scoring = with_call(BASE, scoring=True)
    base, treated = ask(stub, scoring), ask(stub, with_call(scoring, batch=8))
    assert [a.num_tokens for a in base] == [a.num_prompt_tokens for a in base]
    assert count_tokens_differ(base, treated) == 0
    assert count_bits_differ(base, treated) == len(PROMPTS)


def test_what_is_not_reported_is_none() -> None:
    answer = ask(plant(reports=("text",)))[0]
    assert answer.text
    assert (answer.token_ids, answer.steps, answer.margins, answer.logprobs) == (None,) * 4
    quiet = ask(plant(), with_call(BASE, logprobs=0))[0]
    assert quiet.steps is None
    assert quiet.token_ids is not None


def test_the_fingerprint_is_constant_whatever_happens() -> None:
    stub = plant(Cause(factor="noise", size=2.0))
    assert {answer.fingerprint for answer in ask(stub) + ask(stub)} == {"fp_stub"}


def test_a_constant_stub_answers_everything_alike() -> None:
    assert len({answer.token_ids for answer in ask(plant(is_constant=True))}) == 1


def test_it_refuses_what_it_lacks_and_nothing_else() -> None:
    stub = plant(lacks=("batch", "dtype"), max_concurrency=4)
    facts = stub.facts()
    assert "batch" in stub.refuse(TREATED["batch"], facts)
    assert "dtype" in stub.refuse(TREATED["dtype"], facts)
    assert "4" in stub.refuse(TREATED["concurrency"], facts)
    assert stub.refuse(TREATED["stream"], facts) == ""
    silent = plant(reports=("text",))
    assert silent.refuse(TREATED["logprobs"], silent.facts())


def test_calls_fail_as_scripted() -> None:
    answers = ask(plant(error_every=3))
    assert [answer.error is not None for answer in answers[:6]] == [False, False, True] * 2
    with pytest.raises(TargetError, match="after 3 calls"):
        ask(plant(fails_after=3))
    assert all(a.error for a in ask(plant(rejects=("n",)), TREATED["n"]))


def test_it_takes_its_time() -> None:
    slept: list[float] = []
    ask(Stub(Script(latency_s=0.5), sleep=slept.append))
    assert slept == [0.5] * len(PROMPTS)


def test_a_script_is_read_from_a_line() -> None:
    script = read_script("seed=3, latency_s=0.02, batch:0.5, concurrency>=5:1@0.25/40, noise")
    assert script == Script(
        seed=3,
        latency_s=0.02,
        causes=(
            Cause(factor="batch", size=0.5),
            Cause(factor="concurrency", at_least=5, size=1.0, chance=0.25, prompt_tokens=40),
            Cause(factor="noise"),
        ),
    )
    assert read_script("") == Script()


@pytest.mark.parametrize("text", ["wind", "batch:x", "seed=x", "batch:1e", "batch=8"])
def test_what_is_no_script_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        read_script(text)


def test_every_factor_can_be_written() -> None:
    assert [cause.factor for cause in read_script(",".join(FACTORS)).causes] == list(FACTORS)
