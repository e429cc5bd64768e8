"""Decoded weights have the bits that the gguf package gives them."""

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samebits.errors import ModelFileError
from samebits.model.dequant import BF16, ENCODINGS, Encoding, find_encoding

NAMES = [encoding.name for encoding in ENCODINGS]


def bits(values: np.ndarray) -> np.ndarray:
    """Compare NaN by its payload too."""
    return np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)


@pytest.mark.parametrize("encoding", ENCODINGS, ids=NAMES)
@given(seed=st.integers(0, 2**32 - 1), num_blocks=st.integers(1, 40))
def test_random_bytes_decode_to_the_bits_of_the_gguf_package(
    encoding: Encoding, seed: int, num_blocks: int
) -> None:
    draw = np.random.default_rng(seed)
    raw = draw.integers(0, 256, (num_blocks, encoding.block_bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):
        expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(encoding.gguf_id))
        assert np.array_equal(bits(encoding.decode(raw)), bits(expected))


@pytest.mark.parametrize("encoding", ENCODINGS, ids=NAMES)
def test_sizes_agree_with_the_gguf_package(encoding: Encoding) -> None:
    kind = gguf.GGMLQuantizationType(encoding.gguf_id)
    assert kind.name == encoding.name
    assert gguf.GGML_QUANT_SIZES[kind] == (encoding.block_values, encoding.block_bytes)


def test_bf16_keeps_every_bit_pattern() -> None:
    patterns = np.arange(1 << 16, dtype=np.uint16)
    decoded = BF16.decode(patterns.view(np.uint8).reshape(-1, 2))
    assert np.array_equal(bits(decoded)[:, 0] >> 16, patterns)


@pytest.mark.parametrize(("gguf_id", "name"), [(10, "Q2_K"), (23, "IQ4_XS"), (999, "999")])
def test_a_type_not_decoded_here_is_named(gguf_id: int, name: str) -> None:
    with pytest.raises(ModelFileError, match=f"{name} for tensor 'blk.0.attn_q.weight'"):
        find_encoding(gguf_id, "blk.0.attn_q.weight")


def test_a_row_of_half_a_block_is_refused() -> None:
    with pytest.raises(ModelFileError, match="multiple of 256 values for Q6_K; found rows of 128"):
        find_encoding(14, "x").row_bytes(128)
