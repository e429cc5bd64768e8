"""SmolLM2 generates its golden tokens, and logits with equal bits, under every kernel set.

One load a width of weights serves all kernel sets: they are swapped on the loaded model.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from samebits.model.decoder import Decoder
from samebits.numerics import portable, reference
from samebits.numerics.native.kernels import NativeKernels, list_levels
from samebits.numerics.order_free import Kernels, OrderFree
from tests.golden.smollm2 import NUM_TOKENS, PROMPT, Run, load, run

GOLDEN: dict[str, Run] = json.loads(Path(__file__).with_name("smollm2.json").read_text())
BEST = list_levels()[0]


@pytest.fixture(scope="module", params=[16, 8])
def loaded(request: pytest.FixtureRequest) -> Iterator[tuple[Run, Decoder]]:
    files, decoder = load(NativeKernels(level=BEST, threads=2), request.param)
    golden = GOLDEN[f"w{request.param}"]
    assert list(files.tokenizer.encode(PROMPT)) == golden["prompt_ids"]
    yield golden, decoder


def assert_golden(loaded: tuple[Run, Decoder], kernels: Kernels, num_tokens: int) -> None:
    golden, decoder = loaded
    assert isinstance(decoder.arithmetic, OrderFree)
    decoder.arithmetic.kernels = kernels
    token_ids, chain = run(decoder, golden["prompt_ids"], num_tokens)
    assert chain == golden["chain"][:num_tokens]
    assert token_ids == golden["token_ids"][:num_tokens]


def test_quantised_weights_have_their_golden_digest(loaded: tuple[Run, Decoder]) -> None:
    golden, decoder = loaded
    assert decoder.weights_digest() == golden["weights"]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("level", sorted({BEST, "generic"}))
def test_native_levels_generate_all_golden_tokens(
    loaded: tuple[Run, Decoder], level: str, threads: int
) -> None:
    num_tokens = NUM_TOKENS if threads == 2 else 4
    assert_golden(loaded, NativeKernels(level=level, threads=threads), num_tokens)


def test_portable_kernels_generate_the_first_golden_tokens(loaded: tuple[Run, Decoder]) -> None:
    assert_golden(loaded, portable, 4)


def test_reference_generates_the_first_golden_tokens(loaded: tuple[Run, Decoder]) -> None:
    assert_golden(loaded, reference, 2)


def test_golden_runs_have_64_tokens_and_weights_of_their_own() -> None:
    for golden in GOLDEN.values():
        assert len(golden["token_ids"]) == len(golden["chain"]) == NUM_TOKENS
        assert len(set(golden["chain"])) == NUM_TOKENS
    assert GOLDEN["w16"]["weights"] != GOLDEN["w8"]["weights"]
    assert GOLDEN["w16"]["chain"][0] != GOLDEN["w8"]["chain"][0]
