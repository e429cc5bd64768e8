"""A shape is proved before it is relied on, and models that no shape holds are refused."""

from typing import Any

import pytest

import samebits
from samebits.errors import ConfigError
from tests.remedies.tiny_models import BUCKETS, PROMPTS, make_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from samebits.remedies.selftest import find_usable  # noqa: E402 - it needs torch
from samebits.remedies.shape import masked  # noqa: E402


def plant(model: Any, change: Any) -> Any:
    """Let a change act on each layer's output (B, T, D), as a kernel would."""
    for layer in model.model.layers:
        layer.register_forward_hook(lambda _module, _args, output: change(output))
    return model


def nudge(output: Any, *rows: int) -> Any:
    """Move one value of some rows by one unit in the last place."""
    for row in rows:
        if row < len(output):
            place = output[row, -1, :1]
            place.copy_(torch.nextafter(place, torch.full_like(place, 9)))
    return output


def test_a_row_that_is_computed_otherwise_is_found_and_holds_no_prompt() -> None:
    model = plant(make_model(), lambda output: nudge(output, 7))
    stable = samebits.stabilize(model, buckets=BUCKETS)
    whole = stable.generate(PROMPTS, max_tokens=4)
    assert stable.facts.unusable == {16: (7,), 48: (7,)}
    assert stable.facts.selftests[0].usable == (0, 1, 2, 3, 4, 5, 6)
    assert all(
        stable.generate([p], max_tokens=4) == [a] for p, a in zip(PROMPTS, whole, strict=True)
    )


def test_where_no_rows_agree_a_number_that_does_is_named() -> None:
    model = plant(make_model(), lambda output: nudge(output, *range(4, len(output))))
    with torch.no_grad(), masked(model):
        assert find_usable(model, 8, 16).usable == (0, 1, 2, 3)
    moved = plant(
        make_model(), lambda output: nudge(output, *range(1, len(output) * (len(output) > 4)))
    )
    with pytest.raises(ConfigError, match=r"1, 2, 3, 4, 5, 6, 7.*rows=4 passes the test"):
        samebits.stabilize(moved, buckets=BUCKETS).generate(PROMPTS[:1], max_tokens=1)


def test_companions_that_leak_are_refused() -> None:
    model = plant(make_model(), lambda output: output + output.mean(dim=0, keepdim=True) * 1e-3)
    with pytest.raises(ConfigError, match='use shape="alone"'):
        samebits.stabilize(model, buckets=BUCKETS).generate(PROMPTS[:1], max_tokens=1)


def test_the_self_test_sees_a_mask_that_is_dropped() -> None:
    model = make_model()
    with torch.no_grad():
        dropped = find_usable(model, 4, 16)
        with masked(model):
            kept = find_usable(model, 4, 16)
    assert dropped.usable == () and kept.usable == (0, 1, 2, 3)
    assert (kept.batches, kept.steps) == (4, 16)


def test_each_shape_is_tested_once() -> None:
    stable = samebits.stabilize(make_model(), buckets=BUCKETS, rows=2)
    stable.generate(PROMPTS[:1], max_tokens=1)
    first = stable.facts.selftests
    stable.generate(PROMPTS[:1], max_tokens=1)
    assert len(first) == 1 and stable.facts.selftests == first


def test_what_companions_would_reach_is_refused_in_a_fixed_shape_and_served_alone() -> None:
    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}
    model = make_model(rope_parameters=rope)
    with pytest.raises(ConfigError, match=r"dynamic.*shape=\"alone\""):
        samebits.stabilize(model)
    assert samebits.stabilize(model, shape="alone").generate(PROMPTS[:1], max_tokens=1)


def test_a_model_with_experts_is_refused_in_a_fixed_shape() -> None:
    model = make_model()
    model.config.num_local_experts = 4
    with pytest.raises(ConfigError, match="num_local_experts 4"):
        samebits.stabilize(model)


def test_other_attention_and_several_devices_are_refused() -> None:
    model = make_model()
    model.config._attn_implementation = "flex_attention"
    with pytest.raises(ConfigError, match="flex_attention"):
        samebits.stabilize(model)
    model = make_model()
    model.lm_head.to("meta")
    with pytest.raises(ConfigError, match="cpu, meta"):
        samebits.stabilize(model)
