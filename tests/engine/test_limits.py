"""The size of the pool follows from the model and a stated rule, never from the machine."""

from dataclasses import replace

import pytest

from samebits.engine.limits import Limits, default_kv_tokens
from samebits.errors import ConfigError
from tests.engine.tiny import CONFIG


def test_a_small_model_gets_a_context_for_every_sequence() -> None:
    assert default_kv_tokens(CONFIG, max_batch=32, page_tokens=64) == 32 * CONFIG.context_len


def test_a_large_model_gets_one_gib() -> None:
    large = replace(CONFIG, num_layers=30, num_kv_heads=3, head_dim=64, context_len=8192)
    tokens = default_kv_tokens(large, max_batch=32, page_tokens=64)
    assert tokens == 2**30 // (30 * 3 * (2 * 2 * 64 + 2 * 2))


def test_the_pool_is_whole_pages_and_at_least_one() -> None:
    assert Limits(kv_tokens=100, page_tokens=32).num_pages == 3
    huge = replace(CONFIG, num_layers=10**6, num_kv_heads=64, head_dim=256)
    assert default_kv_tokens(huge, max_batch=1, page_tokens=64) == 64


@pytest.mark.parametrize("kv_tokens", [0, -64, 63, True, 64.0])
def test_a_pool_that_holds_no_page_is_refused(kv_tokens: int) -> None:
    with pytest.raises(ConfigError, match="kv_tokens"):
        Limits(kv_tokens=kv_tokens)
