"""An answer through a stable model does not depend on what is asked beside it: in bits."""

import random
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import samebits
from samebits.errors import ConfigError, RequestError, RequestTooLong, UnsupportedInput
from tests.remedies.tiny_models import BUCKETS, FAMILIES, PROMPTS, make_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from samebits.remedies.choose import Choice, RowState  # noqa: E402 - it needs torch
from samebits.remedies.guard import GuardChooser  # noqa: E402 - it needs torch

NUM_TOKENS = 5


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def hold(model: Any, **setting: Any) -> Any:
    given: dict[str, Any] = {"buckets": BUCKETS, "rows": 4}
    return samebits.stabilize(model, **(given | setting))


def ask(stable: Any, prompts: Sequence[list[int]], **call: Any) -> list[Any]:
    return list(stable.generate(prompts, **({"max_tokens": NUM_TOKENS} | call)))


SHAPES = [(family, "fixed") for family in FAMILIES] + [("llama", "alone"), ("gemma3", "alone")]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("family", "shape"), SHAPES)
def test_no_companion_moves_a_bit(family: str, dtype: str, shape: str) -> None:
    stable = hold(make_model(family, dtype), shape=shape)
    prompts = PROMPTS[:9]
    whole = ask(stable, prompts)
    order = list(range(len(prompts)))
    random.Random(3).shuffle(order)
    shuffled = ask(stable, [prompts[place] for place in order])
    assert [shuffled[order.index(place)] for place in range(len(prompts))] == whole
    for count in (1, 3):
        assert ask(stable, prompts[:count]) == whole[:count]
        assert ask(stable, prompts[-count:]) == whole[-count:]


def test_a_table_of_positions_bounds_the_self_test() -> None:
    """GPT-2 looks positions up: in a bucket as long as its table none are left for steps."""
    import transformers

    torch.manual_seed(1)
    config = transformers.GPT2Config(n_positions=48, n_embd=32, n_layer=2, n_head=2, vocab_size=257)
    model: Any = transformers.GPT2LMHeadModel(config)
    model.eval()
    stable = hold(model, buckets=(16, 48, 96))
    prompts = [PROMPTS[0], [5] * (48 - NUM_TOKENS)]
    assert ask(stable, prompts)[1] == ask(stable, prompts[1:])[0]
    with pytest.raises(RequestTooLong):
        ask(stable, [[5] * (49 - NUM_TOKENS)])


def test_every_number_of_companions_gives_the_same_bits() -> None:
    stable = hold(make_model())
    whole = ask(stable, PROMPTS)
    for count in range(1, len(PROMPTS) + 1):
        assert ask(stable, PROMPTS[:count]) == whole[:count]


def test_plain_batches_of_transformers_do_move_bits() -> None:
    model = make_model()
    prompts = [[7] * 16, [9] * 5]
    stable, plain = hold(model), []
    for rows in (prompts[:1], prompts):
        ids = torch.tensor([[0] * (16 - len(row)) + row for row in rows])
        mask = torch.tensor([[0] * (16 - len(row)) + [1] * len(row) for row in rows])
        made = model.generate(
            ids,
            attention_mask=mask,
            max_new_tokens=NUM_TOKENS,
            do_sample=False,
            output_logits=True,
            return_dict_in_generate=True,
        )
        plain.append([logits[0] for logits in made.logits])
    assert any(not torch.equal(*pair) for pair in zip(*plain, strict=True))
    assert ask(stable, prompts)[0] == ask(stable, prompts[:1])[0]


@pytest.mark.parametrize("shape", ["fixed", "alone"])
def test_answers_mean_what_generate_says_up_to_rounding(shape: str) -> None:
    model = make_model()
    for prompt, answer in zip(PROMPTS, ask(hold(model, shape=shape), PROMPTS), strict=True):
        ids = torch.tensor([prompt])
        made = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=NUM_TOKENS,
            do_sample=False,
            eos_token_id=None,
        )
        # Margins of these prompts are far above what float32 rounds in two layers.
        assert min(answer.margins) > 1e-3
        assert answer.token_ids == tuple(made[0, len(prompt) :].tolist())


def test_a_row_that_ends_moves_nothing_in_the_others() -> None:
    stable = hold(make_model())
    whole = ask(stable, PROMPTS)
    stop = whole[0].token_ids[1]
    ended = ask(stable, PROMPTS, stop_ids=[stop])
    assert ended[0].finish_reason == "stop" and len(ended[0].token_ids) <= 2
    assert any(answer.finish_reason == "length" for answer in ended)
    for one, other in zip(ended, whole, strict=True):
        count = len(one.token_ids)
        assert one.steps == other.steps[:count] and one.token_ids == other.token_ids[:count]


def test_max_tokens_reaches_no_bit() -> None:
    stable = hold(make_model())
    short, long = (ask(stable, PROMPTS[:3], max_tokens=count) for count in (2, 9))
    assert [x.steps for x in short] == [x.steps[:2] for x in long]


def test_draws_depend_on_seed_and_prompt_alone() -> None:
    stable = hold(make_model())
    torch.manual_seed(5)
    whole = ask(stable, PROMPTS, temperature=1.5, seed=7)
    torch.manual_seed(6)
    assert ask(stable, PROMPTS[2:3], temperature=1.5, seed=7)[0] == whole[2]
    assert ask(stable, PROMPTS, temperature=1.5, seed=8) != whole
    twins = ask(stable, [PROMPTS[2]] * 2, temperature=1.5, seed=7)
    assert twins[0] == twins[1] == whole[2]


class Repairing:
    """Takes the greatest logit and gives back entries that differ, for one prompt."""

    def __init__(self, wanted: list[int]) -> None:
        self.wanted = tuple(wanted)

    def choose(self, row: RowState) -> Choice:
        from samebits.remedies.reader import KeysValues

        token = int(row.logits.argmax())
        if row.ids[: len(self.wanted)] != self.wanted:
            return Choice(token=token)
        count = len(row.ids)
        entries = torch.full((2, count, 16), 0.125), torch.full((2, count, 16), -0.5)
        return Choice(token=token, keys_values=(KeysValues(*entries),) * 2)


def test_a_chooser_repairs_its_own_row_alone() -> None:
    model = make_model()
    plain = ask(hold(model), PROMPTS)
    repaired = ask(hold(model, guard=Repairing(PROMPTS[1])), PROMPTS)
    moved = [x for x in range(len(PROMPTS)) if plain[x].steps != repaired[x].steps]
    assert moved == [1]
    assert repaired[1].steps[0] == plain[1].steps[0]


@pytest.mark.parametrize("precision", ["float32", {"logits": "float64", "attention": "float32"}])
def test_a_precision_keeps_answers_free_of_companions(precision: Any) -> None:
    stable = hold(make_model("llama", "bfloat16"), precision=precision)
    assert ask(stable, PROMPTS)[5] == ask(stable, PROMPTS[5:6])[0]
    assert stable.facts.precision


def test_the_model_is_given_back_as_it_was_even_after_an_interrupt() -> None:
    model = make_model()
    model.model.layers[0].train()
    before = [(name, module.training) for name, module in model.named_modules()]
    stable = hold(model, precision="float64")

    def interrupt(_done: int, _wanted: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(stable, PROMPTS, progress=interrupt)
    assert [(name, module.training) for name, module in model.named_modules()] == before
    assert model.config._attn_implementation == "sdpa"
    assert all("forward" not in module.__dict__ for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())
    assert ask(stable, PROMPTS[:1])


def test_threads_are_served_one_after_another() -> None:
    stable = hold(make_model())
    whole, answers = ask(stable, PROMPTS[:4]), {}

    def work(place: int) -> None:
        answers[place] = ask(stable, [PROMPTS[place]])[0]

    threads = [threading.Thread(target=work, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answers[place] for place in range(4)] == whole


def test_two_stable_forms_of_one_model_do_not_disturb_each_other() -> None:
    model = make_model()
    wrong: list[int] = []
    forms = [hold(model, shape="alone", precision="float64"), hold(model)]
    truths = [ask(form, PROMPTS[:2]) for form in forms]

    def work(place: int) -> None:
        wrong.extend(place for _ in range(10) if ask(forms[place], PROMPTS[:2]) != truths[place])

    threads = [threading.Thread(target=work, args=(place,)) for place in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_progress_counts_answers() -> None:
    seen: list[tuple[int, int]] = []
    ask(hold(make_model()), PROMPTS[:3], progress=lambda done, wanted: seen.append((done, wanted)))
    assert seen[-1] == (3, 3) and seen == sorted(seen)


@pytest.mark.parametrize(
    ("prompts", "call", "error", "words"),
    [
        ([[]], {}, RequestError, "none in prompt 0"),
        ([[1], [300]], {}, RequestError, "others in prompt 1"),
        ([[1] * 49], {}, RequestTooLong, "largest bucket"),
        ([[1] * 40], {"max_tokens": 250}, RequestTooLong, "the model's context"),
        ([[1]], {"max_tokens": 0}, RequestError, "max_tokens"),
        ([[1]], {"temperature": 1.0}, RequestError, "seed None"),
        (["text"], {}, ConfigError, "tokenizer"),
        ("text", {}, RequestError, "one prompt"),
        ([1, 2], {}, RequestError, "one prompt"),
        (np.array([1, 2]), {}, RequestError, "one prompt"),
        ([[1.5]], {}, RequestError, "token ids as a prompt"),
        (["\ud800"], {}, RequestError, "a surrogate in prompt 0"),
        ([[True]], {}, RequestError, "others in prompt 0"),
        ([[1]], {"max_tokens": float("nan")}, RequestError, "max_tokens"),
        ([[1]], {"max_tokens": 2.5}, RequestError, "max_tokens"),
        ([[1]], {"stop_ids": ["2"]}, RequestError, "stop_ids"),
        ([[1]], {"stop_ids": 2}, RequestError, "stop_ids"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(
    prompts: Any, call: dict[str, Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        ask(hold(make_model()), prompts, **call)


def test_ids_of_numpy_and_pytorch_are_token_ids() -> None:
    stable = hold(make_model())
    given = [np.array([1, 2]), torch.tensor([3]), [np.int64(4), torch.tensor(5)]]
    assert ask(stable, given) == ask(stable, [[1, 2], [3], [4, 5]])


def test_logits_that_are_no_numbers_are_refused() -> None:
    model = make_model()
    with torch.no_grad():
        model.lm_head.weight[3, 3] = float("nan")
    with pytest.raises(UnsupportedInput, match="NaN in prompt 0"):
        ask(hold(model, shape="alone"), [[1, 2]])


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"shape": "square"}, "fixed or alone"),
        ({"rows": 0}, "rows of at least 1"),
        ({"buckets": (8, 8)}, "buckets"),
        ({"buckets": (0,)}, "buckets"),
        ({"buckets": ()}, "buckets"),
        ({"precision": "float8"}, "all: float8"),
        ({"guard": "escalate"}, "a guard that chooses"),
        ({"guard": GuardChooser}, "a guard that chooses"),
    ],
)
def test_impossible_settings_are_refused_by_name(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        hold(make_model(), **setting)
