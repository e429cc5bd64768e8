"""The guard on a tiny bfloat16 Llama, whose tokens flip with batch, padding and cache."""

import copy
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from samebits.errors import ConfigError, SamebitsError
from samebits.remedies.choose import RowState
from samebits.remedies.guard import (
    Calibration,
    Escalate,
    Guard,
    GuardChooser,
    LowestId,
    Priority,
    RecomputeAlone,
    RecomputePrecise,
    Shape,
    calibrate,
    guarded_generate,
)
from samebits.remedies.guard.measure import follow
from samebits.remedies.reader import KeysValues, Layout, Reader
from samebits.remedies.stabilize import stabilize
from tests.remedies.tiny_models import make_model

PROMPTS = [[(i * 7 + j * 3 + 1) % 256 for j in range(3 + (i * 5) % 13)] for i in range(8)]
SHAPES = (Shape(), Shape(num_rows=3, padding=2), Shape(num_rows=8, kv_cache=False))
MAX_TOKENS = 16
FIRES_ALWAYS = 1e6
MORE: dict[str, dict[str, Any]] = {
    "llama": {},
    "gemma3": {"layer_types": ["sliding_attention", "full_attention", "full_attention"]},
}


@cache
def tiny(family: str = "llama") -> Any:
    # More tokens, more near-ties.
    return make_model(family, "bfloat16", vocab_size=2048, num_hidden_layers=3, **MORE[family])


@cache
def measured() -> Calibration:
    oracle = RecomputeAlone(tiny())
    return calibrate(tiny(), PROMPTS, oracle, shapes=SHAPES, max_tokens=MAX_TOKENS)


def complete(
    prompts: Sequence[Sequence[int]], guard: Guard, *, kv_cache: bool = True
) -> list[tuple[int, ...]]:
    done = guarded_generate(tiny(), prompts, guard, max_tokens=MAX_TOKENS, kv_cache=kv_cache)
    return list(done.tokens)


def complete_under_every_condition(guard: Guard) -> list[list[tuple[int, ...]]]:
    """Alone, alone without a cache, ragged in threes, all at once."""
    threes = (PROMPTS[at : at + 3] for at in (0, 3, 6))
    return [
        [row for prompt in PROMPTS for row in complete([prompt], guard)],
        [row for prompt in PROMPTS for row in complete([prompt], guard, kv_cache=False)],
        [row for part in threes for row in complete(part, guard)],
        complete(PROMPTS, guard),
    ]


def test_plain_greedy_search_flips_with_batch_padding_and_cache() -> None:
    first, *others = complete_under_every_condition(Guard(epsilon=0))
    assert any(other != first for other in others)


def test_the_lowest_id_leaves_flips_whatever_epsilon_was_measured() -> None:
    first, *others = complete_under_every_condition(Guard.calibrated(measured(), LowestId()))
    assert any(other != first for other in others)


def test_escalation_gives_every_condition_the_oracles_own_tokens() -> None:
    oracle = RecomputeAlone(tiny())
    guard = Guard.calibrated(measured(), Escalate(oracle))
    canonical = [follow(oracle, tuple(prompt), MAX_TOKENS).tokens for prompt in PROMPTS]
    for tokens in complete_under_every_condition(guard):
        assert tokens == canonical


def test_epsilon_zero_is_plain_greedy_search_of_transformers() -> None:
    ids = torch.tensor([PROMPTS[0]])
    ones = torch.ones_like(ids)
    made = tiny().generate(ids, attention_mask=ones, max_new_tokens=MAX_TOKENS, do_sample=False)
    assert complete([PROMPTS[0]], Guard(epsilon=0)) == [tuple(made[0, ids.shape[1] :].tolist())]


def test_a_calibration_says_what_it_saw() -> None:
    found = measured()
    assert found.steps == len(PROMPTS) * MAX_TOKENS * 2 + 9 * MAX_TOKENS
    assert found.epsilon == 2 * found.delta * 1.25 > 0
    assert found.quantiles[-1] == (1.0, found.delta)
    assert [drift for _, drift in found.quantiles] == sorted(drift for _, drift in found.quantiles)
    assert found.conditions[-1] == "batch of 8, padding 0, no cache"
    assert found.source == ("8 prompts against the whole sequence in one pass, alone, in bfloat16")


def test_a_model_that_is_read_as_its_oracle_reads_it_has_no_drift() -> None:
    alone = Shape(kv_cache=False)
    found = calibrate(tiny(), PROMPTS, RecomputeAlone(tiny()), shapes=[alone], max_tokens=4)
    assert found.delta == 0


def test_calibration_tells_how_far_it_is() -> None:
    told: list[tuple[int, int]] = []
    calibrate(
        tiny(),
        PROMPTS[:3],
        RecomputeAlone(tiny()),
        shapes=[Shape(), Shape(num_rows=2)],
        max_tokens=1,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, 3 + 3 + 2) for done in range(1, 9)]


def test_the_drift_of_bfloat16_is_larger_from_float32_than_from_itself() -> None:
    one = [Shape(num_rows=8)]
    wide, own = (
        calibrate(tiny(), PROMPTS, oracle, shapes=one, max_tokens=4).delta
        for oracle in (RecomputePrecise(tiny()), RecomputeAlone(tiny()))
    )
    assert wide > own > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_precise_oracle_is_near_the_same_weights_in_float64(dtype: str) -> None:
    exact = copy.deepcopy(tiny()).double()
    with torch.no_grad():
        wanted = exact(torch.tensor([PROMPTS[3]])).logits[0, -1].numpy()
    found = RecomputePrecise(tiny(), dtype).decide(PROMPTS[3])
    assert found.dtype == dtype
    # float32 through two layers; bfloat16 is off by 0.05. HF norms are float32 in `exact`.
    assert np.abs(found - wanted).max() < 1e-4


def test_a_precise_oracle_leaves_the_model_as_it_was() -> None:
    model = tiny()
    before = RecomputeAlone(model).decide(PROMPTS[0])
    RecomputePrecise(model).decide(PROMPTS[0])
    assert np.array_equal(RecomputeAlone(model).decide(PROMPTS[0]), before)
    assert "forward" not in vars(model)


def test_an_oracle_of_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(ConfigError):
        RecomputePrecise(tiny(), "float16")


def test_a_model_in_training_mode_is_refused() -> None:
    model = make_model("llama", "bfloat16").train()
    for refused in (
        lambda: RecomputeAlone(model),
        lambda: guarded_generate(model, PROMPTS, Guard(epsilon=0), max_tokens=1),
    ):
        with pytest.raises(ConfigError, match="training mode"):
            refused()


@pytest.mark.parametrize(("prompts", "max_tokens"), [([], 1), ([[]], 1), ([[1]], 0)])
def test_batches_that_cannot_be_completed_are_refused(
    prompts: list[list[int]], max_tokens: int
) -> None:
    with pytest.raises(SamebitsError):
        guarded_generate(tiny(), prompts, Guard(epsilon=0), max_tokens=max_tokens)


def test_rows_end_each_at_its_own_stop_token() -> None:
    free = complete(PROMPTS, Guard(epsilon=0))
    stop = free[0][3]
    done = guarded_generate(
        tiny(), PROMPTS, Guard(epsilon=0), max_tokens=MAX_TOKENS, stop_ids=[stop]
    )
    for row, whole in zip(done.tokens, free, strict=True):
        wanted = whole[: whole.index(stop) + 1] if stop in whole else whole
        assert row == wanted
    assert done.tally.counts().steps == sum(map(len, done.tokens))


def test_rows_are_tallied_apart() -> None:
    done = guarded_generate(
        tiny(), PROMPTS, Guard(epsilon=0.2, action=Priority((7,))), max_tokens=4
    )
    counts = [done.tally.counts(place) for place in range(len(PROMPTS))]
    assert [each.steps for each in counts] == [4] * len(PROMPTS)
    assert sum(each.fired for each in counts) == done.tally.counts().fired > 0


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("dtype", [None, "float32"])
def test_after_escalation_a_rows_entries_are_those_of_the_canonical_pass(
    family: str, dtype: str | None
) -> None:
    """Then drift does not accumulate; gemma3 has a sliding window."""
    model = tiny(family)
    oracle = RecomputeAlone(model) if dtype is None else RecomputePrecise(model, dtype)
    chooser = GuardChooser(Guard(epsilon=FIRES_ALWAYS, action=Escalate(oracle)))
    rows = (tuple(PROMPTS[2]), tuple(PROMPTS[6]))
    reader = Reader(model, Layout(rows=rows, length=20, pad_id=0))
    with torch.no_grad():
        logits = reader.read_prompt()
    untouched = reader.take_keys_values(1)
    ruin(reader, 0)
    state = RowState(logits=logits[0], ids=rows[0], num_prompt_tokens=len(rows[0]), request=0)
    choice = chooser.choose(state)
    assert choice.keys_values is not None
    reader.write_keys_values(0, choice.keys_values)
    after = reader.take_keys_values(0)
    canonical = oracle.recompute(rows[0]).keys_values
    assert canonical is not None
    for layer, wanted in zip(after, canonical, strict=True):
        for held, entry in zip(layer, wanted, strict=True):
            assert torch.equal(held, entry[:, -held.shape[1] :].to(held.dtype))
    for layer, wanted in zip(reader.take_keys_values(1), untouched, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(layer, wanted, strict=True))


def ruin(reader: Reader, row: int) -> None:
    for keys, values in reader.list_entries(row):
        keys[row].zero_()
        values[row].zero_()


def read_with_repairs(repaired: Sequence[int], ruined: Sequence[int]) -> torch.Tensor:
    """Feed a batch the oracle's tokens; (V,), row 0 after four of them."""
    oracle = RecomputeAlone(tiny())
    courses = [follow(oracle, tuple(PROMPTS[place]), 4) for place in (4, 6)]
    rows = tuple(course.prompt for course in courses)
    reader = Reader(tiny(), Layout(rows=rows, length=20, pad_id=0))
    with torch.no_grad():
        logits = reader.read_prompt()
        for step in range(4):
            if step in ruined:
                ruin(reader, 0)
            if step in repaired:
                found = oracle.recompute((*rows[0], *courses[0].tokens[:step])).keys_values
                reader.write_keys_values(0, tuple(KeysValues(*each) for each in found or ()))
            logits = reader.feed(torch.tensor([[course.tokens[step]] for course in courses]))
    return logits[0]


def test_a_step_after_an_escalation_has_the_bits_of_a_run_that_was_canonical_throughout() -> None:
    throughout = read_with_repairs(repaired=range(4), ruined=())
    assert torch.equal(read_with_repairs(repaired=[3], ruined=()), throughout)
    assert torch.equal(read_with_repairs(repaired=[3], ruined=[2]), throughout)
    assert not torch.equal(read_with_repairs(repaired=[2], ruined=[3]), throughout)


def test_repair_keeps_the_drift_of_later_steps_down() -> None:
    """Every step escalates, with and without the repair: the entries themselves differ."""

    class Forgetful(RecomputeAlone):
        """Decides the same, and repairs nothing."""

        def recompute(self, ids: Sequence[int]) -> Any:
            return super().recompute(ids)._replace(keys_values=None)

    drifts = []
    for oracle in (RecomputeAlone(tiny()), Forgetful(tiny())):
        guard = Guard(epsilon=FIRES_ALWAYS, action=Escalate(oracle))
        done = guarded_generate(tiny(), PROMPTS, guard, max_tokens=MAX_TOKENS)
        fired = done.tally.decisions()
        assert len(fired) == len(PROMPTS) * MAX_TOKENS
        drifts.append(np.mean([each.drift for each in fired]))
    assert drifts[0] < drifts[1]


def test_a_stable_model_takes_a_guard_and_repairs_through_it() -> None:
    oracle = RecomputeAlone(tiny())
    chooser = GuardChooser(Guard(epsilon=FIRES_ALWAYS, action=Escalate(oracle)))
    stable = stabilize(tiny(), rows=3, buckets=(16,), guard=chooser)
    answers = stable.generate(PROMPTS[:4], max_tokens=5)
    canonical = [follow(oracle, tuple(prompt), 5).tokens for prompt in PROMPTS[:4]]
    assert [answer.token_ids for answer in answers] == canonical
    assert chooser.tally.counts().fired == 20
    assert chooser.tally.counts(3).fired == 5
