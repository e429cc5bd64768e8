"""The guard inside transformers' own generate."""

import logging
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LogitsProcessor

from samebits.errors import ConfigError
from samebits.remedies.guard import (
    Escalate,
    Guard,
    GuardProcessor,
    RecomputeAlone,
    guarded_generate,
)
from samebits.remedies.guard.measure import follow
from tests.remedies.tiny_models import make_model

PROMPTS = [[(i * 7 + j * 3 + 1) % 256 for j in range(3 + (i * 5) % 13)] for i in range(5)]
ALWAYS, MAX_TOKENS = 1e6, 8


@cache
def tiny() -> Any:
    return make_model("llama", "bfloat16")


def lay_out(prompts: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    length = max(map(len, prompts))
    pads = [length - len(row) for row in prompts]
    ids = [[0] * pad + list(row) for pad, row in zip(pads, prompts, strict=True)]
    mask = [[0] * pad + [1] * (length - pad) for pad in pads]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def generate(processor: Any, prompts: Sequence[Sequence[int]], **options: Any) -> Any:
    asked = {"max_new_tokens": MAX_TOKENS, "do_sample": False} | options
    made = tiny().generate(**lay_out(prompts), logits_processor=[processor], **asked)
    start = max(map(len, prompts))
    return [tuple(row[start:].tolist()) for row in made]


def escalate(epsilon: float = ALWAYS) -> Guard:
    return Guard(epsilon=epsilon, action=Escalate(RecomputeAlone(tiny())))


@pytest.mark.parametrize("guard", [Guard(epsilon=0.3), escalate(0.1), escalate()])
def test_generate_gives_what_guarded_generate_gives(guard: Guard) -> None:
    wanted = guarded_generate(tiny(), PROMPTS, guard, max_tokens=MAX_TOKENS)
    with GuardProcessor(tiny(), guard) as processor:
        assert generate(processor, PROMPTS) == list(wanted.tokens)
    assert processor.tally.value() == wanted.tally.value()


def test_transformers_has_nothing_to_warn_of(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    # Each text once a process otherwise, and an earlier test may have drawn it.
    monkeypatch.setattr(logging.Logger, "warning_once", lambda _self, text, *_: told.append(text))
    with GuardProcessor(tiny(), escalate()) as processor:
        generate(processor, PROMPTS[:1])
    assert not [text for text in told if "deprecated" in text]


def test_an_oracle_that_decides_every_step_makes_the_batch_canonical() -> None:
    with GuardProcessor(tiny(), escalate()) as processor:
        tokens = generate(processor, PROMPTS)
    oracle = RecomputeAlone(tiny())
    assert tokens == [follow(oracle, tuple(row), MAX_TOKENS).tokens for row in PROMPTS]


def test_entries_in_generates_own_cache_are_repaired() -> None:
    with GuardProcessor(tiny(), escalate()) as processor:
        made = tiny().generate(
            **lay_out(PROMPTS),
            logits_processor=[processor],
            max_new_tokens=2,
            do_sample=False,
            return_dict_in_generate=True,
        )
    length = max(map(len, PROMPTS))
    for place, row in enumerate(PROMPTS):
        ids = made.sequences[place, length - len(row) : length + 1].tolist()
        wanted = RecomputeAlone(tiny()).recompute(ids).keys_values
        assert wanted is not None
        for layer, (keys, values) in zip(made.past_key_values.layers, wanted, strict=True):
            assert torch.equal(layer.keys[place, :, length - len(row) :], keys)
            assert torch.equal(layer.values[place, :, length - len(row) :], values)


def test_one_processor_serves_calls_one_after_another() -> None:
    with GuardProcessor(tiny(), escalate(0.1)) as processor:
        first = generate(processor, PROMPTS)
        again = generate(processor, PROMPTS)
    assert first == again
    assert processor.tally.counts().steps == 2 * len(PROMPTS) * MAX_TOKENS


def test_rows_that_have_ended_are_neither_decided_nor_counted() -> None:
    free = guarded_generate(tiny(), PROMPTS, Guard(epsilon=0), max_tokens=MAX_TOKENS).tokens
    stop = free[0][2]
    tiny().generation_config.eos_token_id = stop
    try:
        with GuardProcessor(tiny(), Guard(epsilon=0)) as processor:
            tokens = generate(processor, PROMPTS, pad_token_id=0)
    finally:
        tiny().generation_config.eos_token_id = None
    ended = [row[: row.index(stop) + 1] if stop in row else row for row in free]
    for row, wanted in zip(tokens, ended, strict=True):
        assert row[: len(wanted)] == wanted
    assert processor.tally.counts().steps == sum(map(len, ended))


def test_an_output_that_comes_back_as_a_prompt_is_guarded_anew() -> None:
    prompt = PROMPTS[0]
    free = guarded_generate(tiny(), [prompt], Guard(epsilon=0), max_tokens=MAX_TOKENS).tokens[0]
    tiny().generation_config.eos_token_id = free[0]
    try:
        with GuardProcessor(tiny(), Guard(epsilon=0)) as processor:
            (ended,) = generate(processor, [prompt], pad_token_id=0)
            assert ended == free[:1]
            before = processor.tally.counts().steps
            generate(processor, [[*prompt, *ended]], pad_token_id=0, max_new_tokens=1)
    finally:
        tiny().generation_config.eos_token_id = None
    assert processor.tally.counts().steps == before + 1


class Penalty(LogitsProcessor):
    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores.index_fill(1, torch.tensor([3]), -5.0)


def test_scores_that_another_processor_changed_are_refused() -> None:
    with (
        GuardProcessor(tiny(), Guard(epsilon=0)) as processor,
        pytest.raises(ConfigError, match="something changed before"),
    ):
        tiny().generate(
            **lay_out(PROMPTS),
            logits_processor=[Penalty(), processor],
            max_new_tokens=2,
            do_sample=False,
        )


@pytest.mark.parametrize("options", [{"repetition_penalty": 1.3}, {"num_beams": 2}])
def test_penalties_and_beams_are_refused(options: dict[str, Any]) -> None:
    with (
        GuardProcessor(tiny(), Guard(epsilon=0)) as processor,
        pytest.raises(ConfigError, match="raw logits"),
    ):
        generate(processor, PROMPTS, **options)


def test_a_model_whose_configuration_samples_is_refused() -> None:
    model = make_model("llama", "bfloat16")
    model.generation_config.do_sample = True
    with pytest.raises(ConfigError, match="do_sample"):
        GuardProcessor(model, Guard(epsilon=0))


def test_sampling_by_an_argument_cannot_be_seen_and_cannot_change_the_token() -> None:
    with GuardProcessor(tiny(), Guard(epsilon=0)) as processor:
        greedy = generate(processor, PROMPTS)
        assert generate(processor, PROMPTS, do_sample=True, temperature=2.0) == greedy


def test_padding_at_the_right_is_refused() -> None:
    ids, mask = torch.tensor([[1, 2, 0]]), torch.tensor([[1, 1, 0]])
    with (
        GuardProcessor(tiny(), Guard(epsilon=0)) as processor,
        pytest.raises(ConfigError, match="padding at the left"),
    ):
        tiny().generate(ids, attention_mask=mask, logits_processor=[processor], max_new_tokens=1)


def test_a_model_that_is_not_watched_any_more_is_refused() -> None:
    processor = GuardProcessor(tiny(), Guard(epsilon=0))
    processor.close()
    with pytest.raises(ConfigError, match="none that could be watched"):
        generate(processor, PROMPTS)


def test_a_static_cache_is_not_repaired_but_refused() -> None:
    with (
        GuardProcessor(tiny(), escalate()) as processor,
        pytest.raises(ConfigError),
    ):
        generate(processor, PROMPTS, cache_implementation="static", disable_compile=True)


def test_scores_of_unfired_rows_name_the_argmax() -> None:
    with GuardProcessor(tiny(), Guard(epsilon=0)) as processor, torch.no_grad():
        logits = tiny()(torch.tensor([PROMPTS[0]])).logits[:, -1].float()
        forced = processor(torch.tensor([PROMPTS[0]]), logits)
    assert int(forced.argmax()) == int(np.argmax(logits[0].numpy()))
    assert torch.isneginf(forced).sum() == forced.shape[1] - 1
