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


DEEP: dict[str, Any] = {"num_hidden_layers": 7}
"""More than a shallow pass reads."""


def prove(model: Any, rows: int, bucket: int = 16) -> tuple[int, ...]:
    with torch.no_grad(), masked(model):
        return find_usable(model, rows, bucket).usable


def count_layers(model: Any) -> list[int]:
    """Count, for each layer, the prompt passes through it, as they go on."""
    counts = [0] * len(model.model.layers)

    def make_hook(place: int) -> Any:
        def see(_module: Any, _args: Any, output: Any) -> None:
            counts[place] += output.shape[1] > 1

        return see

    for place, layer in enumerate(model.model.layers):
        layer.register_forward_hook(make_hook(place))
    return counts


def test_one_prompt_pass_is_whole_and_the_others_meet_every_kind_of_layer() -> None:
    model = make_model(**DEEP)
    counts = count_layers(model)
    assert prove(model, 4) == (0, 1, 2, 3)
    assert counts == [4] * 4 + [1] * 3
    types = ["sliding_attention"] * 5 + ["full_attention"] * 3
    sliding = make_model("gemma3", num_hidden_layers=8, layer_types=types)
    counts = count_layers(sliding)
    assert prove(sliding, 4) == (0, 1, 2, 3)
    assert counts == [4] * 6 + [1] * 2


def is_prompt(output: Any) -> bool:
    return bool(output.shape[1] > 1)


def plant_at_length(model: Any, place: int, length: int, change: Any) -> None:
    """Let a change act on a layer at so many tokens after the bucket only; 0 is the prompt."""
    now: list[int] = []

    def look(_module: Any, _args: Any, given: dict[str, Any]) -> None:
        now[:] = [given["attention_mask"].shape[1] - 16]

    model.register_forward_pre_hook(look, with_kwargs=True)
    model.model.layers[place].register_forward_hook(
        lambda _module, _args, output: change(output) if now == [length] else output
    )


@pytest.mark.parametrize(("rows", "row"), [(8, 1), (8, 6), (4, 1), (4, 3), (3, 2)])
def test_a_row_is_found_wherever_it_stands(rows: int, row: int) -> None:
    model = plant(make_model(**DEEP), lambda output: nudge(output, row))
    assert prove(model, rows) == tuple(x for x in range(rows) if x != row)


@pytest.mark.parametrize("place", [0, 3, 6])
def test_a_row_that_one_layer_alone_treats_otherwise_is_found(place: int) -> None:
    model = make_model(**DEEP)
    model.model.layers[place].register_forward_hook(
        lambda _module, _args, output: nudge(output, 3) if is_prompt(output) else output
    )
    assert prove(model, 4) == (0, 1, 2)


@pytest.mark.parametrize(("rows", "row", "length"), [(8, 5, 1), (8, 0, 9), (8, 7, 16), (4, 1, 9)])
def test_a_row_that_differs_at_one_length_of_the_cache_is_found(
    rows: int, row: int, length: int
) -> None:
    model = make_model(**DEEP)
    plant_at_length(model, 1, length, lambda output: nudge(output, row))
    # Row 0 is what the others are held against.
    assert prove(model, rows) == tuple(x for x in range(rows) if (x != row if row else x == 0))


def leak_mean(output: Any) -> Any:
    return output + output.mean(dim=0, keepdim=True) * 1e-3


@pytest.mark.parametrize(("rows", "length"), [(2, 9), (3, 16), (8, 0), (8, 1), (8, 9)])
def test_company_is_found_at_the_prompt_and_at_any_length(rows: int, length: int) -> None:
    model = make_model(**DEEP)
    plant_at_length(model, 0, length, leak_mean)
    assert prove(model, rows) == ()


def test_the_length_of_the_longest_row_is_found_if_it_reaches_the_others() -> None:
    model = make_model(**DEEP)
    longest: list[int] = []

    def look(_module: Any, args: Any, kwargs: dict[str, Any]) -> None:
        longest[:] = [int(kwargs["attention_mask"].sum(dim=1).max())]

    model.register_forward_pre_hook(look, with_kwargs=True)
    model.model.layers[0].register_forward_hook(
        lambda _module, _args, output: output * (1 + 1e-3 * longest[0])
    )
    assert prove(model, 4) == ()


def test_a_content_that_one_row_alone_treats_otherwise_is_found() -> None:
    for is_full in (True, False):
        model = make_model(**DEEP)
        lengths: list[list[int]] = []

        def look(_module: Any, args: Any, kwargs: dict[str, Any], into: Any = lengths) -> None:
            into[:] = [kwargs["attention_mask"][:, 0].tolist()]

        model.register_forward_pre_hook(look, with_kwargs=True)
        model.model.layers[0].register_forward_hook(
            lambda _m, _a, output, full=is_full, into=lengths: (
                nudge(output, 2) if bool(into[0][2]) is full else output
            )
        )
        assert prove(model, 4) == (0, 1, 3)


def test_the_self_test_leaves_no_hook_behind() -> None:
    model = make_model(**DEEP)
    prove(model, 4)
    assert not any(module._forward_hooks for module in model.modules())


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
