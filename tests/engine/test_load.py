"""An engine loads from a file; kernels, threads and sizes reach its speed, never its bits."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from samebits.engine import Engine, SamplingParams
from samebits.engine.replay import check_receipt
from samebits.errors import ConfigError, ModelFileError
from samebits.record.receipt import Receipt
from tests.model.gguf_bytes import tiny_llama

PARAMS = SamplingParams(max_tokens=8, temperature=1.0, seed=4, ignore_eos=True)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llama().write(tmp_path_factory.mktemp("model") / "tiny.gguf")


def make_receipt(model: Path, **settings: Any) -> Receipt:
    with Engine.load(model, **{"threads": 1, **settings}) as engine:
        done = engine.generate(["hello hell"], PARAMS, receipt=True)[0]
    assert done.receipt is not None
    return done.receipt


def test_kernels_threads_and_sizes_do_not_reach_the_bits(model: Path) -> None:
    expected = make_receipt(model)
    for settings in (
        {"kernels": "portable"},
        {"kernels": "reference"},
        {"max_isa": "generic"},
        {"threads": 2},
        {"threads": None},
        {"chunk_tokens": 1, "page_tokens": 16, "kv_tokens": 64, "max_rows": 3, "max_batch": 1},
    ):
        assert make_receipt(model, **settings).digest == expected.digest


def test_arithmetic_and_weights_do_and_the_receipt_says_which(model: Path) -> None:
    receipts = {
        (arithmetic, weights): make_receipt(model, arithmetic=arithmetic, weights=weights)
        for arithmetic, weights in (
            *(("sb1", "w16"), ("sb1", "w8"), ("plain-f32", "w16")),
            *(("plain-bf16", "w16"), ("plain-f64", "w16")),
        )
    }
    assert len({r.samples[0].steps for r in receipts.values()}) == 5
    for (arithmetic, weights), receipt in receipts.items():
        assert receipt.header.arithmetic == arithmetic
        bits = int(weights[1:]) if arithmetic == "sb1" else None
        assert receipt.header.weight_bits == bits


def test_a_receipt_names_the_file_and_replays_from_it(model: Path) -> None:
    receipt = make_receipt(model)
    assert receipt.header.model.weight_file == (
        f"sha256:{hashlib.sha256(model.read_bytes()).hexdigest()}"
    )
    assert receipt.header.model.template is None
    with Engine.load(model, threads=1) as engine:
        assert check_receipt(Receipt.from_json(receipt.to_json()), engine) == []


def test_progress_rises_to_the_whole(model: Path) -> None:
    told: list[float] = []
    Engine.load(model, threads=1, progress=told.append).close()
    assert told == sorted(told)
    assert told[-1] == 1.0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"weights": "w4"}, "w16 or w8"),
        ({"weights": "w8", "arithmetic": "plain-f32"}, "sb1 only"),
        ({"arithmetic": "float32"}, "arithmetic"),
        ({"kernels": "cuda"}, "kernels"),
        ({"max_isa": "avx1024"}, "max_isa"),
        ({"threads": 0}, "threads"),
        ({"kv_tokens": 1}, "kv_tokens"),
        ({"page_tokens": 17}, "page_tokens"),
    ],
)
def test_a_setting_nobody_implements_is_refused(
    model: Path, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(ConfigError, match=named):
        Engine.load(model, **settings)


def test_a_missing_or_foreign_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such path"):
        Engine.load(tmp_path / "none.gguf")
    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(b"not a model")
    with pytest.raises(ModelFileError):
        Engine.load(foreign)
