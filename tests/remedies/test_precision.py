"""A raised precision computes what a wider copy of the model does, without its memory."""

import copy
import weakref
from contextlib import nullcontext
from typing import Any

import pytest

from samebits.errors import ConfigError
from tests.remedies.tiny_models import FAMILIES, is_same_bits, make_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402 - it needs torch

from samebits.audit.targets.hf_float64 import Widen  # noqa: E402
from samebits.remedies.precision import plan, raised  # noqa: E402

IDS = [[5, 9, 2, 77, 31, 8, 200, 13], [40, 41, 3, 250, 1, 1, 90, 17]]
PARTS = ("logits", "norms", "attention", "residual")


@pytest.fixture(autouse=True)
def _no_grad() -> Any:
    with torch.no_grad():
        yield


def run(model: Any) -> Any:
    return model(torch.tensor(IDS)).logits


def run_copy(model: Any, dtype: str) -> Any:
    """Run a copy whose weights are cast; in float64 with every float32 in its code widened."""
    with Widen() if dtype == "float64" else nullcontext():
        return run(copy.deepcopy(model).to(getattr(torch, dtype)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_whole_model_has_the_bits_of_a_wider_copy(family: str, dtype: str) -> None:
    model = make_model(family, "bfloat16")
    with raised(model, dtype):
        assert is_same_bits(run(model), run_copy(model, dtype))
    assert {x.dtype for x in model.parameters()} == {torch.bfloat16}


def llama_in_numpy(model: Any) -> Any:
    """Compute a Llama's logits in float64 by its formulas, from its weights, with NumPy alone."""
    import numpy as np

    w = {name: x.detach().double().numpy() for name, x in model.state_dict().items()}
    x = w["model.embed_tokens.weight"][np.array(IDS)]
    rate = model.model.rotary_emb.inv_freq.double().numpy()
    angle = np.arange(x.shape[1])[:, None] * rate
    cos, sin = (np.concatenate([f(angle)] * 2, -1) for f in (np.cos, np.sin))

    def norm(x: Any, name: str) -> Any:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w[name]

    def heads(x: Any, name: str) -> Any:
        y = (x @ w[name].T).reshape(*x.shape[:2], -1, 16).transpose(0, 2, 1, 3)
        return y.repeat(4 // y.shape[1], axis=1)

    def turn(y: Any) -> Any:
        return y * cos + np.concatenate((-y[..., 8:], y[..., :8]), -1) * sin

    for layer in ("model.layers.0.", "model.layers.1."):
        h = norm(x, layer + "input_layernorm.weight")
        q, k, v = (heads(h, f"{layer}self_attn.{name}_proj.weight") for name in "qkv")
        scores = turn(q) @ turn(k).transpose(0, 1, 3, 2) / 4
        scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        y = (p / p.sum(-1, keepdims=True)) @ v
        y = y.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
        x = x + y @ w[layer + "self_attn.o_proj.weight"].T
        h = norm(x, layer + "post_attention_layernorm.weight")
        gate, up = (h @ w[f"{layer}mlp.{name}_proj.weight"].T for name in ("gate", "up"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[layer + "mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ w["lm_head.weight"].T


def test_float64_is_float64_throughout() -> None:
    model = make_model("llama", "bfloat16", rms_norm_eps=1e-6)
    with raised(model, "float64"):
        wide = run(model)
    truth = torch.from_numpy(llama_in_numpy(model))
    # Sums of at most 176 products in float64: relative errors near 1e-14, grown by two layers.
    # One step in float32 would leave about 1e-7.
    assert wide.dtype == torch.float64
    assert float((wide - truth).abs().max()) < 1e-11
    with raised(model, "float32"):
        assert float((run(model).double() - truth).abs().max()) > 1e-8


@pytest.mark.parametrize("part", PARTS)
def test_a_part_moves_the_logits_towards_the_truth_or_leaves_them(part: str) -> None:
    model = make_model("llama", "bfloat16")
    truth, plain = run_copy(model, "float64"), run(model)
    with raised(model, {part: "float64"}):
        better = run(model)
    assert not torch.equal(better.double(), plain.double())
    errors = [float((x.double() - truth).norm()) for x in (better, plain)]
    # A part may by chance round against the others, by no more than its own share.
    assert errors[0] < 1.1 * errors[1]


def test_the_cache_holds_the_dtype_of_the_attention() -> None:
    model = make_model("llama", "bfloat16")
    for precision, dtype in (
        ("float32", torch.float32),
        ({"attention": "float64"}, torch.float64),
        ({"logits": "float64", "norms": "float32", "residual": "float32"}, torch.bfloat16),
    ):
        with raised(model, precision):
            layer = model(torch.tensor(IDS), use_cache=True).past_key_values.layers[0]
        assert (layer.keys.dtype, layer.values.dtype) == (dtype, dtype)


def test_every_part_at_once_gives_wide_logits() -> None:
    for family in FAMILIES:
        model = make_model(family, "bfloat16")
        with raised(model, dict.fromkeys(PARTS, "float32")):
            assert run(model).dtype == torch.float32


def test_everything_is_restored_even_after_an_error() -> None:
    model, plain = make_model("gemma2", "bfloat16"), None
    plain = run(model)
    marked = model.model.layers[0].mlp
    own = marked.forward
    marked.forward = own
    with pytest.raises(ZeroDivisionError), raised(model, dict.fromkeys(PARTS, "float64")):
        run(model)
        raise ZeroDivisionError
    assert [m for m in model.modules() if "forward" in m.__dict__] == [marked]
    assert marked.__dict__["forward"] is own
    assert is_same_bits(run(model), plain)


@pytest.mark.parametrize("precision", [None, "float32", {"norms": "float64"}])
def test_autocast_around_a_call_moves_no_bit(precision: Any) -> None:
    model = make_model("llama", "float32")
    with raised(model, plan(model, precision)):
        plain = run(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not is_same_bits(run(model), plain)
        with raised(model, plan(model, precision)):
            assert is_same_bits(run(model), plain)
        assert torch.is_autocast_enabled("cpu")


@pytest.mark.parametrize(
    ("precision", "words"),
    [
        ("float16", "all: float16"),
        ({"mlp": "float32"}, "mlp: float32"),
        ({"all": "float32", "logits": "float64"}, "all, logits"),
    ],
)
def test_unknown_parts_and_dtypes_are_refused_by_name(precision: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(make_model(), precision)


def test_a_part_that_is_not_there_is_refused_with_what_was_found() -> None:
    model = make_model()
    for layer in model.model.layers:
        layer.self_attn = torch.nn.Identity()
    with pytest.raises(ConfigError, match=r"attention in LlamaForCausalLM.*5 of norms.*Identity"):
        plan(model, {"attention": "float32"})


def test_quantised_weights_are_refused() -> None:
    model = make_model()
    model.register_parameter(
        "packed", torch.nn.Parameter(torch.zeros(4, dtype=torch.int8), requires_grad=False)
    )
    with pytest.raises(ConfigError, match=r"torch\.int8"):
        plan(model, "float32")


def test_an_operation_that_loses_digits_is_refused_by_name() -> None:
    model = make_model("llama", "bfloat16")
    norm = model.model.norm
    before = norm.forward
    norm.forward = lambda x: before(x.to(torch.bfloat16))
    with raised(model, "float32"), pytest.raises(ConfigError, match="its to rounds to bfloat16"):
        run(model)


class Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of arrays that operations made and that still live; keeps the most."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.holders: dict[int, int] = {}
        self.bytes = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        output = func(*args, **(kwargs or {}))
        for made in output if isinstance(output, tuple | list) else (output,):
            if isinstance(made, torch.Tensor):
                self.hold(made)
        return output

    def hold(self, made: Any) -> None:
        storage = made.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if not key:
            return
        self.holders[key] = self.holders.get(key, 0) + 1
        if self.holders[key] == 1:
            self.bytes += size
            self.peak = max(self.peak, self.bytes)
        weakref.finalize(made, self.drop, key, size)

    def drop(self, key: int, size: int) -> None:
        self.holders[key] -= 1
        if not self.holders[key]:
            self.bytes -= size


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_memory_stays_near_the_narrow_models(dtype: str) -> None:
    model = make_model(
        "llama", "bfloat16", hidden_size=256, intermediate_size=704, num_hidden_layers=8
    )
    weights = sum(x.nbytes for x in model.parameters())
    largest = max(x.numel() for x in model.parameters()) * getattr(torch, dtype).itemsize
    peaks = []
    for precision in (None, dtype):
        with raised(model, precision), Live() as live:
            run(model)
        peaks.append(live.peak)
    # One matrix is cast at a time; besides it, activations are as much wider as their dtype.
    ratio = getattr(torch, dtype).itemsize // 2
    assert peaks[1] <= largest + ratio * peaks[0] + 2**16
    assert peaks[1] < weights * 0.3
