"""One reader reads rows of different lengths, in passes or not, and lends out what it remembers."""

import pytest

from samebits.errors import InvariantBroken
from tests.remedies.tiny_models import is_same_bits, make_model

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from samebits.remedies.reader import KeysValues, Layout, Reader  # noqa: E402

LONG, SHORT = (5, 9, 2, 77, 31, 8), (40, 41)
CLOSE = 1e-4
"""Far above what float32 rounds in two layers of width 64, far below the logits' spread of 1."""


@pytest.fixture(scope="module")
def model() -> object:
    return make_model()


@pytest.fixture(autouse=True)
def _no_grad() -> object:
    with torch.no_grad():
        yield


def read(model: object, *rows: tuple[int, ...], length: int, **layout: object) -> Reader:
    return Reader(model, Layout(rows=rows, length=length, pad_id=0, **layout))  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", [{}, {"passes": (3, 4)}, {"kv_cache": False}], ids=str)
def test_padded_rows_mean_what_they_mean_alone(model: object, layout: dict[str, object]) -> None:
    together = read(model, LONG, SHORT, length=7, **layout)
    first, then = together.read_prompt(), together.feed(torch.tensor([[1], [2]]))
    for place, (ids, token) in enumerate(((LONG, 1), (SHORT, 2))):
        alone = read(model, ids, length=len(ids))
        assert torch.allclose(first[place], alone.read_prompt()[0], atol=CLOSE, rtol=0)
        fed = alone.feed(torch.tensor([[token]]))
        assert torch.allclose(then[place], fed[0], atol=CLOSE, rtol=0)


def test_entries_of_a_row_come_without_padding_and_are_written_back_bit_for_bit(
    model: object,
) -> None:
    reader = read(model, LONG, SHORT, length=7)
    reader.read_prompt()
    before = reader.take_keys_values(0)
    own = reader.take_keys_values(1)
    assert [layer.keys.shape for layer in own] == [(2, 2, 16)] * 2
    reader.write_keys_values(1, tuple(KeysValues(*(x + 1 for x in layer)) for layer in own))
    for old, new in zip(own, reader.take_keys_values(1), strict=True):
        assert is_same_bits(old.keys + 1, new.keys) and is_same_bits(old.values + 1, new.values)
    for old, new in zip(before, reader.take_keys_values(0), strict=True):
        assert is_same_bits(old.keys, new.keys)


def test_a_sliding_layer_takes_the_last_entries_and_a_full_one_all() -> None:
    model = make_model("gemma3")
    rows = (tuple(range(1, 13)), SHORT)
    reader = read(model, *rows, length=14)
    reader.read_prompt()
    alone = read(model, rows[0], length=12)
    alone.read_prompt()
    sliding, full = reader.take_keys_values(0)
    assert (sliding.keys.shape[1], full.keys.shape[1]) == (7, 12)
    every = tuple(KeysValues(torch.ones(2, 12, 16), torch.ones(2, 12, 16)) for _ in range(2))
    reader.write_keys_values(0, every)
    assert all(bool((layer.keys == 1).all()) for layer in reader.take_keys_values(0))
    assert not any(bool((layer.keys == 1).any()) for layer in reader.take_keys_values(1))


def test_entries_that_do_not_fit_are_refused(model: object) -> None:
    reader = read(model, LONG, SHORT, length=7)
    reader.read_prompt()
    own = reader.take_keys_values(1)
    with pytest.raises(InvariantBroken, match="entries for 2 layers"):
        reader.write_keys_values(1, own[:1])
    with pytest.raises(InvariantBroken, match="shape"):
        reader.write_keys_values(0, own)


def test_impossible_layouts_are_refused() -> None:
    for rows, length, passes in (((LONG,), 5, ()), ((LONG, ()), 7, ()), ((LONG,), 7, (3, 3))):
        with pytest.raises(InvariantBroken):
            Layout(rows=rows, length=length, pad_id=0, passes=passes)
