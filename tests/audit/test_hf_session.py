"""A transformers session answers as `generate` would, and shows what a call changes of the bits."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from samebits.audit.condition import Call, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask
from samebits.audit.targets.hf import HfSettings
from samebits.audit.targets.local import LocalTarget
from samebits.errors import ConfigError, ModelFileError, TargetError
from tests.audit.tiny_hf import write_folder

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from samebits.audit.targets.hf_generate import PICKS  # noqa: E402 - it needs torch
from samebits.audit.targets.hf_session import HfSession, open_session  # noqa: E402

ROOT = Path(__file__).parents[2]
PROMPTS = (
    AuditPrompt(id="sky", text="Why is the sky blue?"),
    AuditPrompt(id="chat", messages=(("user", "Count to three, please."),)),
)
COMPANIONS = tuple(AuditPrompt(id=f"c{x}", text=f"Companion {x} " * (x + 1)) for x in range(14))
NUM_TOKENS = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def session(folder: Path) -> HfSession:
    return open_session(HfSettings(path=str(folder), threads=1).value(), Process())


def ask(
    session: HfSession, prompts: Sequence[AuditPrompt] = PROMPTS, **call: Any
) -> tuple[Answer, ...]:
    answers = session.ask(
        Ask(
            call=Call(**call),
            prompts=prompts,
            max_tokens=NUM_TOKENS,
            block="b",
            companions=COMPANIONS,
        )
    )
    return tuple(answers)


def bits(answers: Sequence[Answer]) -> list[tuple[str, ...] | None]:
    assert all(answer.error is None for answer in answers), answers
    return [answer.steps for answer in answers]


def tokens(answers: Sequence[Answer]) -> list[tuple[int, ...] | None]:
    assert all(answer.token_ids for answer in answers), answers
    return [answer.token_ids for answer in answers]


def test_greedy_steps_have_the_bits_of_generate(session: HfSession) -> None:
    from samebits.remedies.bits import digest_bits

    (answer,) = ask(session, PROMPTS[:1])
    ids = session.loaded.tokenizer(PROMPTS[0].text, return_tensors="pt").input_ids
    made = session.loaded.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NUM_TOKENS,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=256,
    )
    assert answer.token_ids == tuple(made.sequences[0, ids.shape[1] :].tolist())
    assert answer.steps == tuple(digest_bits(logits[0]) for logits in made.logits)


def test_the_same_call_again_gives_the_same_bits(session: HfSession) -> None:
    assert bits(ask(session)) == bits(ask(session))


def test_batch_size_moves_bits_and_companions_of_the_same_length_do_not(
    session: HfSession,
) -> None:
    alone, copies = ask(session), ask(session, batch=8)
    others = ask(session, batch=8, neighbours="others")
    more = ask(session, batch=8, neighbours="more")
    assert bits(alone) != bits(copies)
    assert bits(copies) == bits(others) == bits(more)


@pytest.mark.parametrize(
    "call",
    [
        {"batch": 3, "position": 2},
        {"padding": 16},
        {"padding": 3, "batch": 2},
        {"chunk_tokens": 7},
        {"chunk_tokens": 1},
        {"prefix": "warm"},
        {"kv_cache": False},
        {"padding": 5, "kv_cache": False},
    ],
    ids=str,
)
def test_another_way_to_the_same_answer_moves_it_by_rounding_alone(
    session: HfSession, call: dict[str, Any]
) -> None:
    alone, other = ask(session), ask(session, **call)
    assert tokens(alone) == tokens(other)
    for one, two in zip(alone, other, strict=True):
        assert one.logprobs == pytest.approx(two.logprobs, abs=1e-4)


def test_padding_chunks_and_the_cache_move_bits(session: HfSession) -> None:
    alone = bits(ask(session))
    calls: list[dict[str, Any]] = [{"padding": 16}, {"chunk_tokens": 7}, {"kv_cache": False}]
    assert all(bits(ask(session, **call)) != alone for call in calls)
    assert bits(ask(session, prefix="cold")) == alone


def test_an_answer_reports_margins_and_second_best_tokens(session: HfSession) -> None:
    for answer in ask(session):
        assert answer.margins and answer.seconds and answer.token_ids and answer.logprobs
        assert min(answer.margins) > 0
        assert all(a != b for a, b in zip(answer.token_ids, answer.seconds, strict=True))
        assert all(value < 0 for value in answer.logprobs)
        assert (answer.num_tokens, answer.finish_reason) == (NUM_TOKENS, "length")


def test_a_seed_repeats_and_its_absence_does_not(session: HfSession) -> None:
    seeded = [tokens(ask(session, temperature=1.0, seed=x)) for x in ("42", "42", "43", "0", "0")]
    assert seeded[0] == seeded[1] != seeded[2]
    assert seeded[3] == seeded[4] != seeded[0]
    for seed in ("absent", "null"):
        drawn = [tokens(ask(session, temperature=1.0, seed=seed)) for _ in range(2)]
        assert drawn[0] != drawn[1]


def test_samples_of_one_prompt_differ_and_repeat_as_a_set(session: HfSession) -> None:
    one, again = (ask(session, n=4, temperature=1.0, seed="7") for _ in range(2))
    assert len({one[0].text, *one[0].others}) == 4
    assert [(x.text, x.others) for x in one] == [(x.text, x.others) for x in again]


def test_greedy_samples_of_one_prompt_are_one_text(session: HfSession) -> None:
    (answer,) = ask(session, PROMPTS[:1], n=3)
    assert answer.others == (answer.text, answer.text)


def test_an_answer_ends_where_generate_would_stop(
    session: HfSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = ask(session, PROMPTS[:1])
    assert whole.token_ids is not None
    stop = whole.token_ids[3]
    object.__setattr__(session.loaded, "stop_ids", frozenset({stop}))
    (ended,) = ask(session, PROMPTS[:1])
    object.__setattr__(session.loaded, "stop_ids", frozenset({256}))
    assert ended.token_ids == whole.token_ids[: whole.token_ids.index(stop) + 1]
    assert ended.finish_reason == "stop"


def test_scoring_gives_the_log_probabilities_of_the_prompts_own_tokens(session: HfSession) -> None:
    (answer,) = ask(session, PROMPTS[:1], scoring=True)
    ids = session.loaded.tokenizer(PROMPTS[0].text, return_tensors="pt").input_ids
    with torch.inference_mode():
        logprobs = session.loaded.model(ids).logits[0].log_softmax(-1)
    own = [float(logprobs[place, token]) for place, token in enumerate(ids[0, 1:])]
    assert answer.logprobs == pytest.approx(own, abs=1e-4)
    assert answer.token_ids == tuple(ids[0, 1:].tolist())
    (padded,) = ask(session, PROMPTS[:1], scoring=True, padding=4, batch=2)
    assert padded.logprobs == pytest.approx(own, abs=1e-4)


def test_the_template_is_told_the_time(session: HfSession) -> None:
    one, other = (ask(session, PROMPTS[1:], clock=x)[0] for x in ("2024-02-29", "2031-11-05"))
    assert one.prompt_text is not None and other.prompt_text is not None
    assert one.prompt_text.startswith("29 Feb 2024\n[user] Count")
    assert other.prompt_text.startswith("05 Nov 2031\n")
    assert one.steps != other.steps
    (text,) = ask(session, PROMPTS[:1], clock="2024-02-29")
    assert text.prompt_text == f"29 Feb 2024\n[user] {PROMPTS[0].text}\n[assistant]"


@pytest.mark.parametrize(
    ("prompt", "call", "needle"),
    [
        (AuditPrompt(id="e", text=""), {}, "at least one token"),
        (AuditPrompt(id="l", text="x" * 250), {}, "at most 256 tokens"),
        (PROMPTS[0], {"temperature": 1.0, "seed": str(2**70)}, "seed of 64 bits"),
        (AuditPrompt(id="s", text="x"), {"scoring": True}, "two tokens to score"),
    ],
)
def test_what_has_no_answer_says_why_and_others_go_on(
    session: HfSession, prompt: AuditPrompt, call: dict[str, Any], needle: str
) -> None:
    missing, _ = ask(session, (prompt, PROMPTS[1]), **call)
    assert missing.error is not None and needle in missing.error
    assert missing.token_ids is None and missing.text == ""
    assert ask(session)[1].error is None


def test_logits_that_are_no_numbers_are_an_error_and_no_answer(session: HfSession) -> None:
    head = session.loaded.model.lm_head.weight
    with torch.no_grad():
        kept = head[0].clone()
        head[0, 0] = float("nan")
        answers = ask(session, PROMPTS[:1]) + ask(session, PROMPTS[:1], scoring=True)
        head[0] = kept
    assert all(answer.error is not None and "NaN" in answer.error for answer in answers)
    assert all(answer.token_ids is None for answer in answers)


def test_ties_go_where_the_call_says() -> None:
    logits = torch.tensor([[1.0, 3.0, 3.0], [2.0, 1.0, 2.0]])
    assert PICKS["lowest"](logits).tolist() == [1, 0]
    assert PICKS["highest"](logits).tolist() == [2, 2]
    near = torch.tensor([[1.0, 1.0078125] + [0.0] * 5000]).bfloat16()
    assert PICKS["lowest"](near).tolist() == [1]
    assert PICKS["log-softmax"](near).tolist() == [0]


def test_other_attention_and_dtype_are_in_force_where_they_are_asked_for(folder: Path) -> None:
    process = Process(dtype="bfloat16", attention="eager")
    other = open_session(HfSettings(path=str(folder), threads=1).value(), process)
    assert (other.facts.in_force["dtype"], other.facts.in_force["attention"]) == (
        "bfloat16",
        "eager",
    )
    assert (other.facts.dtypes, other.facts.attentions) == (("float32",), ("sdpa",))
    assert "files" not in other.facts.in_force


def test_facts_say_what_is_in_force(session: HfSession, folder: Path) -> None:
    facts = session.facts
    assert (facts.kind, facts.name) == ("hf", str(folder))
    assert facts.in_force["dtype"] == "float32"
    assert facts.in_force["files"]["model.safetensors"].startswith("sha256:")
    assert "compiling" in facts.in_force["no_compile"] and not facts.can_compile


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"config\.json"):
        open_session({"path": str(tmp_path)}, Process())


def test_a_damaged_folder_is_a_model_file_error(folder: Path, tmp_path: Path) -> None:
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(ModelFileError, match="transformers"):
        open_session({"path": str(tmp_path)}, Process())
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelFileError, match="transformers"):
        open_session({"path": str(tmp_path)}, Process())


def test_a_model_that_cannot_be_had_with_another_process_is_an_error_of_the_target(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no eager attention")

    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", refuse)
    with pytest.raises(TargetError, match="no eager attention"):
        open_session({"path": str(folder)}, Process(attention="eager"))


@pytest.mark.parametrize("setting", [{"dtype": "int4"}, {"attention": "flash"}])
def test_settings_that_are_impossible_are_refused(folder: Path, setting: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="one of"):
        open_session({"path": str(folder), **setting}, Process())


def test_a_worker_has_the_threads_and_the_level_of_its_process(
    folder: Path, session: HfSession
) -> None:
    variables = {"PYTHONPATH": str(ROOT), "PATH": os.defpath}
    target = LocalTarget("hf", HfSettings(path=str(folder), threads=1).value(), variables)
    level = "default" if session.facts.isas else session.facts.in_force["level"]
    process = Process(threads=1, isa=level if session.facts.isas else None)
    with target.open(process) as opened:
        assert opened.facts.in_force["threads"] == 1
        assert opened.facts.in_force["level"] == level
        question = Ask(call=Call(), prompts=PROMPTS, max_tokens=2, block="b", companions=COMPANIONS)
        answers = list(opened.ask(question))
    assert all(answer.error is None and answer.steps for answer in answers)
