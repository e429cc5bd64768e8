"""Every impossible parameter is refused by name, and zero is a value."""

import copy
import math
from typing import Any

import pytest

from samebits.engine import SamplingParams
from samebits.errors import RequestError, UnknownParameter

WRONG: list[tuple[str, Any]] = [
    ("temperature", -0.1),
    ("temperature", math.nan),
    ("temperature", math.inf),
    ("temperature", True),
    ("temperature", "1"),
    ("temperature", 1e-31),
    ("top_p", 0),
    ("top_p", 0.0),
    ("top_p", 1.0000001),
    ("top_p", math.nan),
    ("min_p", -0.1),
    ("min_p", 1.1),
    ("top_k", -1),
    ("top_k", 1.0),
    ("top_k", False),
    ("n", 0),
    ("n", 129),
    ("n", True),
    ("first_index", -1),
    ("max_tokens", 0),
    ("max_tokens", 2.0),
    ("max_tokens", None),
    ("seed", -1),
    ("seed", 2**64),
    ("seed", 1.0),
    ("seed", True),
    ("logit_bias", [1]),
    ("logit_bias", {-1: 1.0}),
    ("logit_bias", {"1": 1.0}),
    ("logit_bias", {1: math.inf}),
    ("logit_bias", {1: math.nan}),
    ("logit_bias", {1: True}),
    ("stop", "word"),
    ("stop", ("a", "")),
    ("stop", (b"a",)),
    ("stop", ("a",) * 17),
    ("presence_penalty", math.nan),
    ("presence_penalty", 1e7),
    ("frequency_penalty", math.inf),
    ("frequency_penalty", False),
    ("repetition_penalty", 0),
    ("repetition_penalty", -1.0),
    ("repetition_penalty", math.nan),
    ("logprobs", 21),
    ("logprobs", -1),
    ("logprobs", True),
    ("ignore_eos", 1),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_an_impossible_value_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(RequestError, match=name) as caught:
        SamplingParams(**{name: value})
    assert caught.value.expected
    assert caught.value.found


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", 0),
        ("temperature", 1e-6),
        ("temperature", 1e30),
        ("top_p", 5e-324),
        ("top_p", 1),
        ("min_p", 0),
        ("min_p", 1),
        ("top_k", 10**9),
        ("seed", 0),
        ("seed", 2**64 - 1),
        ("seed", None),
        ("logprobs", 0),
        ("logprobs", 20),
        ("n", 128),
        ("presence_penalty", -2),
        ("logit_bias", {0: 0}),
    ],
)
def test_a_possible_value_is_kept(name: str, value: Any) -> None:
    params = SamplingParams(**{name: value})
    assert getattr(params, name) == value
    assert params.asked == {name}


def test_an_unknown_parameter_is_refused_by_name() -> None:
    with pytest.raises(UnknownParameter, match="top_q"):
        SamplingParams(top_q=1)  # type: ignore[call-arg]


def test_asking_for_a_default_is_asking() -> None:
    assert SamplingParams().asked == frozenset()
    asked = SamplingParams(temperature=0.0, seed=None, stop=())
    assert asked.asked == {"temperature", "seed", "stop"}
    assert asked == SamplingParams()


def test_integers_and_floats_of_one_value_are_the_same_request() -> None:
    assert SamplingParams(temperature=1, top_p=1) == SamplingParams(temperature=1.0, top_p=1.0)
    assert isinstance(SamplingParams(temperature=1).temperature, float)


def test_params_cannot_change_after_they_are_checked() -> None:
    bias = {3: 1.0, 1: 2.0}
    params = SamplingParams(logit_bias=bias)
    bias[2] = math.nan
    assert list(params.logit_bias.items()) == [(1, 2.0), (3, 1.0)]
    assert copy.deepcopy(params) == params
    with pytest.raises(AttributeError):
        params.seed = 1  # type: ignore[misc]
