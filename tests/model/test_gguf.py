"""GGUF files are read as the gguf package reads them."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from samebits.errors import ModelFileError
from samebits.model.files import open_model
from samebits.model.gguf import open_gguf
from tests.model.gguf_bytes import HEADS, WIDTH, GgufBytes, text, tiny_llama, value_of


def test_metadata_and_tensors_agree_with_the_gguf_package(tmp_path: Path) -> None:
    path = tiny_llama().write(tmp_path / "tiny.gguf")
    ours, theirs = open_gguf(path), gguf.GGUFReader(path)
    assert set(ours.metadata) == {name for name in theirs.fields if not name.startswith("GGUF.")}
    for name, value in ours.metadata.items():
        expected = theirs.fields[name].contents()
        assert (value.tolist() if isinstance(value, np.ndarray) else value) == expected
    assert set(ours.tensors) == {tensor.name for tensor in theirs.tensors}
    for tensor in theirs.tensors:
        mine = ours.tensors[tensor.name]
        assert np.array_equal(mine.read_rows(0, mine.shape[0]).ravel(), tensor.data.ravel())


SCALARS = [
    (0, "B", 255),
    (1, "b", -128),
    (2, "H", 65535),
    (3, "h", -32768),
    (4, "I", 2**32 - 1),
    (5, "i", -(2**31)),
    (6, "f", 0.5),
    (7, "?", True),
    (10, "Q", 2**64 - 1),
    (11, "q", -(2**63)),
    (12, "d", 0.1),
]


@pytest.mark.parametrize(("type_id", "letter", "value"), SCALARS)
def test_every_scalar_type_keeps_its_value(
    tmp_path: Path, type_id: int, letter: str, value: float
) -> None:
    one = struct.pack(f"<I{letter}", type_id, value)
    many = struct.pack(f"<IIQ2{letter}", 9, type_id, 2, value, value)
    metadata: list[tuple[str | bytes, bytes]] = [("one", one), ("many", many)]
    found = open_gguf(GgufBytes(metadata=metadata).write(tmp_path / "m.gguf")).metadata
    assert found["one"] == value
    assert type(found["one"]) is type(value)
    assert found["many"].tolist() == [value, value]


def test_arrays_may_lie_in_arrays(tmp_path: Path) -> None:
    inner = struct.pack("<IQ", 8, 2) + text("a") + text("ß")
    nested = struct.pack("<IIQ", 9, 9, 2) + inner + inner
    path = GgufBytes(metadata=[("nested", nested)]).write(tmp_path / "m.gguf")
    assert open_gguf(path).metadata["nested"] == [["a", "ß"], ["a", "ß"]]


def test_strings_that_cross_the_read_buffer_are_whole(tmp_path: Path) -> None:
    words = [f"{place}-" + "x" * (place % 700) for place in range(6000)]
    path = GgufBytes(metadata=[("words", value_of(words))]).write(tmp_path / "m.gguf")
    assert open_gguf(path).metadata["words"] == words


def test_rows_of_q_and_k_are_given_back_their_order(tmp_path: Path) -> None:
    path = tiny_llama().write(tmp_path / "tiny.gguf")
    stored = open_gguf(path).tensors["blk.1.attn_q.weight"].read_rows(0, WIDTH)
    head_dim = WIDTH // HEADS
    # The converter's permutation, undone: (head, pair, half) -> (head, half, pair).
    expected = stored.reshape(HEADS, head_dim // 2, 2, WIDTH).swapaxes(1, 2).reshape(WIDTH, WIDTH)
    q = open_model(path).tensors["layers.1.q"]
    assert np.array_equal(q.read_rows(0, WIDTH), expected)
    assert np.array_equal(q.read_rows(3, 21), expected[3:21])
    picked = np.array([31, 0, 7, 7], dtype=np.int64)
    assert np.array_equal(q.read_picked(picked), expected[picked])


def test_picked_rows_are_the_rows_read_in_blocks(smollm2_path: Path) -> None:
    embed = open_model(smollm2_path).tensors["embed"]
    picked = np.array([0, 49151, 17, 17, 30000], dtype=np.int64)
    blocks = [embed.read_rows(int(row), int(row) + 1) for row in picked]
    assert np.array_equal(embed.read_picked(picked), np.concatenate(blocks))


def test_weights_of_the_built_in_model_have_the_bits_of_the_gguf_package(
    smollm2_path: Path,
) -> None:
    tensor = open_gguf(smollm2_path).tensors["blk.3.ffn_down.weight"]
    raw = np.fromfile(smollm2_path, np.uint8, tensor.num_bytes, offset=tensor.offset)
    expected = gguf.quants.dequantize(
        raw.reshape(tensor.shape[0], -1), gguf.GGMLQuantizationType.Q4_1
    )
    assert np.array_equal(tensor.read_rows(0, 576).view(np.uint32), expected.view(np.uint32))


def test_a_file_cut_while_open_gives_an_error(tmp_path: Path) -> None:
    path = tiny_llama().write(tmp_path / "tiny.gguf")
    model = open_model(path)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 100)
    with pytest.raises(ModelFileError, match="the file is cut off"):
        model.tensors["layers.1.down"].read_rows(0, WIDTH)


def test_the_digest_is_that_of_the_file(smollm2_path: Path) -> None:
    expected = "sha256:b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert open_model(smollm2_path).file_digest == expected
