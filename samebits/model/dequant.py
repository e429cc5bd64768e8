"""Block encodings of weights and their decoding to float32, one function each.

The bits are those of the `gguf` package's dequantiser: every product and sum in float32, in its
order. Knows no files. Layouts: ggml's block structures; B blocks, V values in a block.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ModelFileError

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_NIBBLES = np.array([0, 4], dtype=np.uint8).reshape(1, 1, 2, 1)
_PAIRS = np.array([0, 2, 4, 6], dtype=np.uint8).reshape(1, 1, 4, 1)
_BITS = np.arange(8, dtype=np.uint8).reshape(1, 1, 8, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """How float32 values lie in bytes."""

    name: str
    """As ggml and safetensors write it."""
    gguf_id: int
    """Number of the type in a GGUF tensor table."""
    block_values: int
    """Values in one block; a row is a whole number of blocks."""
    block_bytes: int
    decode: Callable[[Bytes], Floats]
    """(B, block_bytes) uint8 -> (B, block_values) float32."""

    def row_bytes(self, num_columns: int) -> int:
        """Count the bytes of one row.

        Raises:
            ModelFileError: The row is not a whole number of blocks.
        """
        if num_columns % self.block_values:
            raise ModelFileError(
                expected=f"rows of a multiple of {self.block_values} values for {self.name}",
                found=f"rows of {num_columns}",
            )
        return num_columns // self.block_values * self.block_bytes


def _half(blocks: Bytes, start: int) -> Floats:
    """Take the float16 at a byte offset of each block as float32, (B, 1)."""
    return np.ascontiguousarray(blocks[:, start : start + 2]).view("<f2").astype(np.float32)


def _nibbles(packed: Bytes, group: int) -> Bytes:
    """Unpack low nibbles, then high nibbles, of each group of bytes: (B, 2 * bytes)."""
    num_blocks = packed.shape[0]
    parts = packed.reshape(num_blocks, -1, 1, group) >> _NIBBLES
    return (parts & np.uint8(15)).reshape(num_blocks, -1)


def _f32(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f4").astype(np.float32, copy=False)


def _f16(blocks: Bytes) -> Floats:
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def _bf16(blocks: Bytes) -> Floats:
    bits = np.ascontiguousarray(blocks).view("<u2").astype(np.uint32) << np.uint32(16)
    return bits.view(np.float32)


def _q8_0(blocks: Bytes) -> Floats:
    return blocks[:, 2:].view(np.int8).astype(np.float32) * _half(blocks, 0)


def _q4_0(blocks: Bytes) -> Floats:
    q = _nibbles(blocks[:, 2:], 16).astype(np.int8) - np.int8(8)
    return _half(blocks, 0) * q.astype(np.float32)


def _q4_1(blocks: Bytes) -> Floats:
    q = _nibbles(blocks[:, 4:], 16).astype(np.float32)
    return _half(blocks, 0) * q + _half(blocks, 2)


def _fifth_bits(packed: Bytes) -> Bytes:
    """Unpack 32 bits of four bytes to (B, 32) of 0 or 16."""
    return np.unpackbits(packed, axis=1, bitorder="little") << np.uint8(4)


def _q5_0(blocks: Bytes) -> Floats:
    q = _nibbles(blocks[:, 6:], 16) | _fifth_bits(blocks[:, 2:6])
    return _half(blocks, 0) * (q.astype(np.int8) - np.int8(16)).astype(np.float32)


def _q5_1(blocks: Bytes) -> Floats:
    q = _nibbles(blocks[:, 8:], 16) | _fifth_bits(blocks[:, 4:8])
    return _half(blocks, 0) * q.astype(np.float32) + _half(blocks, 2)


def _k_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Unpack twelve bytes to eight 6-bit scales and eight 6-bit minima, (B, 8) each."""
    low_scale, low_min, high = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scale = [low_scale & 63, (high & 15) | ((low_scale >> 2) & 48)]
    minimum = [low_min & 63, (high >> 4) | ((low_min >> 2) & 48)]
    return np.concatenate(scale, axis=1), np.concatenate(minimum, axis=1)


def _k_affine(blocks: Bytes, q: Bytes) -> Floats:
    """Apply the scales and minima that start a Q4_K or Q5_K block to q, (B, 256)."""
    scale, minimum = _k_scales(blocks[:, 4:16])
    d = (_half(blocks, 0) * scale.astype(np.float32))[:, :, None]
    m = (_half(blocks, 2) * minimum.astype(np.float32))[:, :, None]
    num_blocks = blocks.shape[0]
    return (d * q.reshape(num_blocks, 8, 32).astype(np.float32) - m).reshape(num_blocks, 256)


def _q4_k(blocks: Bytes) -> Floats:
    return _k_affine(blocks, _nibbles(blocks[:, 16:], 32))


def _q5_k(blocks: Bytes) -> Floats:
    num_blocks = blocks.shape[0]
    high = (blocks[:, 16:48].reshape(num_blocks, 1, 1, 32) >> _BITS) & np.uint8(1)
    fifth = (high << np.uint8(4)).reshape(num_blocks, 256)
    return _k_affine(blocks, _nibbles(blocks[:, 48:], 32) | fifth)


def _q6_k(blocks: Bytes) -> Floats:
    num_blocks = blocks.shape[0]
    high = (blocks[:, 128:192].reshape(num_blocks, 2, 1, 32) >> _PAIRS) & np.uint8(3)
    low = _nibbles(blocks[:, 0:128], 64)
    q = (low | (high << np.uint8(4)).reshape(num_blocks, 256)).astype(np.int8) - np.int8(32)
    scale = blocks[:, 192:208].view(np.int8).astype(np.float32)
    d = (_half(blocks, 208) * scale)[:, :, None]
    return (d * q.reshape(num_blocks, 16, 16).astype(np.float32)).reshape(num_blocks, 256)


def _encoding(
    name: str, gguf_id: int, block_values: int, block_bytes: int, decode: Callable[[Bytes], Floats]
) -> Encoding:
    return Encoding(
        name=name,
        gguf_id=gguf_id,
        block_values=block_values,
        block_bytes=block_bytes,
        decode=decode,
    )


F32 = _encoding("F32", 0, 1, 4, _f32)
F16 = _encoding("F16", 1, 1, 2, _f16)
BF16 = _encoding("BF16", 30, 1, 2, _bf16)

ENCODINGS: tuple[Encoding, ...] = (
    F32,
    F16,
    _encoding("Q4_0", 2, 32, 18, _q4_0),
    _encoding("Q4_1", 3, 32, 20, _q4_1),
    _encoding("Q5_0", 6, 32, 22, _q5_0),
    _encoding("Q5_1", 7, 32, 24, _q5_1),
    _encoding("Q8_0", 8, 32, 34, _q8_0),
    _encoding("Q4_K", 12, 256, 144, _q4_k),
    _encoding("Q5_K", 13, 256, 176, _q5_k),
    _encoding("Q6_K", 14, 256, 210, _q6_k),
    BF16,
)
"""Every encoding read here."""

_BY_GGUF_ID = {encoding.gguf_id: encoding for encoding in ENCODINGS}

# Names of types that exist and are not decoded here, for the error alone.
_FOREIGN = {
    **{9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS"},
    **{19: "IQ1_S", 20: "IQ4_NL", 21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16"},
    **{26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4"},
}


def find_encoding(gguf_id: int, tensor: str) -> Encoding:
    """Look up the encoding of a GGUF tensor type.

    Raises:
        ModelFileError: The type is not decoded here; names it and the tensor.
    """
    encoding = _BY_GGUF_ID.get(gguf_id)
    if encoding is None:
        raise ModelFileError(
            expected="one of " + ", ".join(known.name for known in ENCODINGS),
            found=f"type {_FOREIGN.get(gguf_id, gguf_id)} for tensor {tensor!r}",
            remedy="Use a file in another quantisation.",
        )
    return encoding
