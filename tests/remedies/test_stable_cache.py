"""A stable model's answers are kept under all that they depend on, and under nothing else."""

from pathlib import Path
from typing import Any

import pytest

import samebits
from samebits.cache import Admission, OutputCache, Refusal
from samebits.errors import ConfigError
from tests.remedies.tiny_models import BUCKETS, PROMPTS, make_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.fixture
def cache(tmp_path: Path) -> Any:
    # Answers of tiny models never end by themselves.
    admission = Admission(allow=frozenset({Refusal.LENGTH}))
    with OutputCache.open(tmp_path / "answers.sqlite3", admission=admission) as opened:
        yield opened


def ask(model: Any, cache: Any, prompts: Any = PROMPTS[:2], **setting: Any) -> list[Any]:
    call = {name: setting.pop(name) for name in ("temperature", "seed") if name in setting}
    given: dict[str, Any] = {"buckets": BUCKETS, "rows": 2, "cache": cache} | setting
    return list(samebits.stabilize(model, **given).generate(prompts, max_tokens=3, **call))


def cached(answers: list[Any]) -> list[bool]:
    return [answer.is_cached for answer in answers]


def test_a_kept_answer_is_the_computed_one_in_any_company(cache: Any) -> None:
    model = make_model()
    first = ask(model, cache)
    again = ask(model, cache, [*PROMPTS[2:4], PROMPTS[0]])
    assert cached(first) == [False, False] and cached(again) == [False, False, True]
    assert again[2] == first[0] == ask(model, None)[0]


def test_what_an_answer_depends_on_is_in_its_key(cache: Any) -> None:
    model = make_model()
    ask(model, cache)
    assert cached(ask(model, cache)) == [True, True]
    for setting in (
        {"shape": "alone"},
        {"rows": 4},
        {"buckets": (24,)},
        {"precision": "float64"},
        {"temperature": 1.0, "seed": 1},
    ):
        assert cached(ask(model, cache, PROMPTS[:1], **setting)) == [False], setting
    assert cached(ask(make_model(rms_norm_eps=1e-3), cache)) == [False, False]
    with torch.no_grad():
        model.lm_head.weight[0, 0] += 1
    assert cached(ask(model, cache)) == [False, False]


def test_flags_of_torch_that_choose_kernels_are_in_the_key(cache: Any) -> None:
    model = make_model()
    ask(model, cache)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        assert cached(ask(model, cache)) == [False, False]
        torch.use_deterministic_algorithms(True)
        assert cached(ask(model, cache)) == [False, False]
    finally:
        torch.set_float32_matmul_precision(before)
        torch.use_deterministic_algorithms(False)
    assert cached(ask(model, cache)) == [True, True]


def test_a_model_made_in_inference_mode_can_be_cached(cache: Any) -> None:
    with torch.inference_mode():
        model = make_model()
    ask(model, cache)
    assert cached(ask(model, cache)) == [True, True]


@pytest.mark.parametrize("write", [lambda x: x.data.mul_(1.5), lambda x: x.detach().numpy().sort()])
def test_writes_that_torch_does_not_count_are_seen_too(cache: Any, write: Any) -> None:
    model = make_model()
    stable = samebits.stabilize(model, buckets=BUCKETS, rows=2, cache=cache)
    first = stable.generate(PROMPTS[:2], max_tokens=3)
    write(model.lm_head.weight)
    again = stable.generate(PROMPTS[:2], max_tokens=3)
    assert cached(first) == cached(again) == [False, False]
    assert again == samebits.stabilize(model, buckets=BUCKETS, rows=2).generate(
        PROMPTS[:2], max_tokens=3
    )


def test_answers_of_a_model_with_hooks_are_not_kept(cache: Any) -> None:
    model = make_model()
    ask(model, cache)
    handle = model.lm_head.register_forward_hook(lambda _module, _args, out: -out)
    hooked = ask(model, cache)
    assert cached(hooked) == cached(ask(model, cache)) == [False, False]
    handle.remove()
    assert cached(ask(model, cache)) == [True, True]


def test_answers_of_a_model_with_a_forward_of_its_own_are_not_kept(cache: Any) -> None:
    model = make_model()
    ask(model, cache)
    honest = model.lm_head.forward
    model.lm_head.forward = lambda hidden: -honest(hidden)
    assert cached(ask(model, cache)) == [False, False]
    del model.lm_head.forward
    assert cached(ask(model, cache)) == [True, True]


def test_a_prompt_asked_twice_in_one_call_came_from_no_cache(cache: Any) -> None:
    model = make_model()
    twice = ask(model, cache, [PROMPTS[0], PROMPTS[0]])
    assert twice[0] == twice[1] and cached(twice) == [False, False]
    assert cached(ask(model, cache, [PROMPTS[0], PROMPTS[0]])) == [True, True]


def test_answers_that_were_cut_off_are_not_kept_unless_allowed(tmp_path: Path) -> None:
    with OutputCache.open(tmp_path / "strict.sqlite3") as strict:
        assert cached(ask(make_model(), strict) + ask(make_model(), strict)) == [False] * 4


def test_a_guard_beside_a_cache_is_refused(cache: Any) -> None:
    from samebits.remedies.choose import Greedy

    with pytest.raises(ConfigError, match="a guard or a cache"):
        ask(make_model(), cache, guard=Greedy())
