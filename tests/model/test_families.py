"""Every family, as a tiny random model of transformers, means what transformers means by it."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from samebits.errors import ModelFileError
from samebits.model.config import ModelConfig
from samebits.model.decoder import Decoder
from samebits.model.folder import load_folder_weights
from samebits.model.tensor import RowSource
from samebits.numerics import portable, reference
from samebits.numerics.order_free import OrderFree
from samebits.numerics.plain import Plain
from tests.numerics.cases import assert_same_bits, make_rows

VOCABULARY = 300
TOKENS = 70
WINDOW = 24
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 104,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 50000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}
GEMMA = {
    "num_hidden_layers": 7,
    "head_dim": 16,
    "sliding_window": WINDOW,
    "query_pre_attn_scalar": 24,
    "dtype": "float32",
}


class Case(NamedTuple):
    """A family and the settings of one model of it."""

    family: str
    name: str
    """What transformers calls it."""
    settings: Mapping[str, Any]


CASES = {
    "llama": Case("llama", "Llama", {"tie_word_embeddings": False}),
    "llama tied": Case("llama", "Llama", {"tie_word_embeddings": True, "head_dim": 24}),
    "llama3 scaling": Case("llama", "Llama", {"rope_parameters": LLAMA3}),
    "linear scaling": Case("llama", "Llama", {"rope_parameters": LINEAR}),
    "mistral": Case("mistral", "Mistral", {"sliding_window": WINDOW}),
    "qwen2": Case("qwen2", "Qwen2", {"tie_word_embeddings": True}),
    "qwen3": Case("qwen3", "Qwen3", {"head_dim": 32}),
    "gemma3": Case("gemma3", "Gemma3", GEMMA),
}


class Float64Torch:
    """Stands for the torch module where transformers would go down to float32."""

    def __getattr__(self, name: str) -> Any:
        return torch.float64 if name in ("float", "float32") else getattr(torch, name)


class Made(NamedTuple):
    """A model of transformers, saved and read back."""

    expected: NDArray[np.float64]
    """(TOKENS, VOCABULARY): its logits for make_ids(), in float64 throughout."""
    config: ModelConfig
    tensors: Mapping[str, RowSource]


@pytest.fixture(scope="module", params=CASES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    case = CASES[request.param]
    folder = tmp_path_factory.mktemp(case.family)
    with pytest.MonkeyPatch.context() as patch:
        stay_in_float64(case, patch)
        expected = run_oracle(save_model(case, folder), make_ids())
    weights = load_folder_weights(folder)
    assert weights.config.family == case.family
    return Made(expected, weights.config, weights.tensors)


def stay_in_float64(case: Case, patch: pytest.MonkeyPatch) -> None:
    """Keep transformers from computing frequencies, norms and softmax in float32."""
    family_code = f"transformers.models.{case.family}.modeling_{case.family}"
    for code in (family_code, "transformers.modeling_rope_utils"):
        patch.setattr(import_module(code), "torch", Float64Torch())
    patch.setattr(torch.Tensor, "float", torch.Tensor.double)


def save_model(case: Case, folder: Path) -> Any:
    """Make a case's model, save it as float32 and give it in float64."""
    transformers: Any = import_module("transformers")
    text = "Text" if case.family == "gemma3" else ""
    config = getattr(transformers, f"{case.name}{text}Config")(
        **{**SIZES, **case.settings}, attn_implementation="eager"
    )
    model = getattr(transformers, f"{case.name}ForCausalLM")(config).eval()
    randomise(model, around=0.0 if case.family == "gemma3" else 1.0)
    model.save_pretrained(folder)
    return model.double()


def randomise(model: torch.nn.Module, around: float) -> None:
    """Draw all weights; norms on a grid of 2**-10, so that Gemma's one plus weight is exact."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, p in model.named_parameters():
            values = torch.randn(p.shape, generator=generator)
            if name.endswith("norm.weight"):
                values = around + torch.round(values * 256) / 1024
            elif p.ndim == 2:
                values = values / p.shape[1] ** 0.5
            p.copy_(values)


def run_oracle(model: Any, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    with torch.no_grad():
        logits = model(torch.from_numpy(ids)[None], use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    return np.asarray(logits.numpy())


class ExactLogits(Plain):
    """plain-f64 whose logits are not rounded to float32 for a sampler."""

    def logits(self, x: Any, head: Any) -> Any:
        return self.linear(x, head)


def make_ids() -> NDArray[np.int64]:
    return np.random.default_rng(5).integers(0, VOCABULARY, TOKENS)


def run(decoder: Decoder, ids: NDArray[np.int64], chunks: Sequence[int]) -> NDArray[Any]:
    """Give the logits of every position, running the tokens chunk by chunk."""
    cache = decoder.make_cache(num_pages=-(-len(ids) // 16), page_tokens=16)
    whole = make_rows([0], [len(ids)], 16)
    found, done = [], 0
    for chunk in chunks:
        part = slice(done, done + chunk)
        rows = whole._replace(
            positions=whole.positions[part],
            slots=whole.slots[part],
            starts=np.array([0, chunk], np.int32),
        )
        found.append(decoder.forward(ids[part], rows, cache, np.arange(chunk)))
        done += chunk
    return np.concatenate(found)


def test_float64_is_what_transformers_computes(made: Made) -> None:
    ids = make_ids()
    decoder = Decoder(made.config, made.tensors, ExactLogits("plain-f64"))
    for chunks in ([TOKENS], [30, 1, 39]):
        found = run(decoder, ids, chunks)
        assert np.abs(found - made.expected).max() <= 1e-9 * np.abs(made.expected).max()


def test_the_contract_is_close_and_invariant_to_chunks(made: Made) -> None:
    ids = make_ids()
    decoder = Decoder(made.config, made.tensors, OrderFree(portable))
    whole = run(decoder, ids, [TOKENS])
    # An activation is off by up to 2**-16 of the power of two above its row's largest element,
    # about 2**-16 / sqrt(3) * 2 * (largest / rms = 4) = 7e-5 of the row's rms; a weight by half a
    # unit of 1/16383 of its row's largest, the same. A layer rounds seven activations (four
    # linears, q, k, v) and four weights; the largest model makes 79 independent errors of them,
    # sqrt(79) * 7e-5 = 7e-4, and the largest of many logits and of many errors are alike many
    # deviations out.
    assert np.abs(whole - made.expected).max() <= 7e-4 * np.abs(made.expected).max()
    for chunks in ([1] * TOKENS, [7] * 10, [16, 16, 16, 16, 6]):
        assert_same_bits(run(decoder, ids, chunks), whole)


def test_the_reference_gives_the_same_logits_as_the_portable_kernels(made: Made) -> None:
    ids = make_ids()[:40]
    arithmetic = OrderFree(portable)
    decoder = Decoder(made.config, made.tensors, arithmetic)
    found = run(decoder, ids, [40])
    arithmetic.kernels = reference
    assert_same_bits(run(decoder, ids, [13, 27]), found)


def test_ordinary_float32_is_not_invariant_to_chunks(made: Made) -> None:
    ids = make_ids()
    decoder = Decoder(made.config, made.tensors, Plain("plain-f32"))
    whole = run(decoder, ids, [TOKENS])
    assert run(decoder, ids, [1] * TOKENS).tobytes() != whole.tobytes()


def test_only_picked_rows_get_logits_and_padding_pages_do_not_matter(made: Made) -> None:
    ids = make_ids()[:20]
    decoder = Decoder(made.config, made.tensors, OrderFree(portable))
    whole = run(decoder, ids, [20])
    cache = decoder.make_cache(num_pages=9, page_tokens=32)
    rows = make_rows([0, 0], [20, 20], 32, seed=3)
    picked = np.array([39, 7, 20])
    found = decoder.forward(np.concatenate([ids, ids]), rows, cache, picked)
    assert_same_bits(found, whole[[19, 7, 0]])
    assert decoder.forward(ids, make_rows([0], [20], 32), cache, picked[:0]).shape == (0, 300)


def test_digests_depend_on_weights_and_precision_only(made: Made) -> None:
    def digest(tensors: Mapping[str, RowSource], bits: int = 16, kernels: Any = portable) -> str:
        return Decoder(made.config, tensors, OrderFree(kernels, bits=bits)).weights_digest()

    expected = digest(made.tensors)
    assert expected.startswith("sha256:") and len(expected) == 71
    assert digest(made.tensors, kernels=reference) == expected
    assert digest(made.tensors, bits=8) != expected
    swapped = {**made.tensors, "layers.0.k": made.tensors["layers.0.v"]}
    assert digest(swapped) != expected


def test_a_missing_or_misshapen_tensor_is_named(made: Made) -> None:
    missing = {name: t for name, t in made.tensors.items() if name != "layers.1.down"}
    with pytest.raises(ModelFileError, match=r"layers\.1\.down"):
        Decoder(made.config, missing, OrderFree(portable))
    wrong = {**made.tensors, "layers.0.o": made.tensors["layers.0.gate"]}
    with pytest.raises(ModelFileError, match=r"layers\.0\.o of shape"):
        Decoder(made.config, wrong, OrderFree(portable))


def test_loading_tells_its_progress(made: Made) -> None:
    told: list[float] = []
    Decoder(made.config, made.tensors, OrderFree(portable), told.append)
    assert told == sorted(told) and told[-1] == 1.0 and len(told) == made.config.num_layers + 1
