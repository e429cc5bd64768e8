"""Writes GGUF files for tests, right ones and, told so, wrong ones."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(kw_only=True)
class Tensor:
    """One tensor; raw is written as it is, whatever dims and type_id say."""

    name: str | bytes
    dims: Sequence[int]
    type_id: int
    raw: bytes
    offset: int | None = None


@dataclass(kw_only=True)
class GgufBytes:
    """The parts of a GGUF file, each of which a test can spoil."""

    magic: bytes = b"GGUF"
    version: int = 3
    num_tensors: int | None = None
    num_keys: int | None = None
    metadata: list[tuple[str | bytes, bytes]] = field(default_factory=list)
    """Key, and the bytes of type and value."""
    tensors: list[Tensor] = field(default_factory=list)
    alignment: int = 32

    def build(self) -> bytes:
        """Lay the parts out as the format says."""
        keys = b"".join(text(key) + value for key, value in self.metadata)
        table, data = b"", b""
        for tensor in self.tensors:
            data += b"\0" * (-len(data) % self.alignment)
            offset = len(data) if tensor.offset is None else tensor.offset
            table += text(tensor.name) + struct.pack("<I", len(tensor.dims))
            table += b"".join(struct.pack("<Q", size) for size in tensor.dims)
            table += struct.pack("<IQ", tensor.type_id, offset)
            data += tensor.raw
        num_tensors = len(self.tensors) if self.num_tensors is None else self.num_tensors
        num_keys = len(self.metadata) if self.num_keys is None else self.num_keys
        head = self.magic + struct.pack("<IQQ", self.version, num_tensors, num_keys)
        head += keys + table
        return head + b"\0" * (-len(head) % self.alignment) + data

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        path.write_bytes(self.build())
        return path

    def replace(self, key: str, value: bytes) -> "GgufBytes":
        """Set the value of a key."""
        self.metadata = [(name, old) for name, old in self.metadata if name != key]
        self.metadata.append((key, value))
        return self


def text(value: str | bytes) -> bytes:
    """Encode a string: its length and its bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value_of(value: Any) -> bytes:
    """Encode type and value of a metadata entry."""
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    return array_of(value)


def array_of(values: Sequence[Any]) -> bytes:
    """Encode an array of strings, int32 or float32."""
    if isinstance(values[0], str):
        return struct.pack("<IIQ", 9, 8, len(values)) + b"".join(text(one) for one in values)
    code, letter = (6, "f") if isinstance(values[0], float) else (5, "i")
    return struct.pack(f"<IIQ{len(values)}{letter}", 9, code, len(values), *values)


def float_tensor(name: str, values: NDArray[np.float32]) -> Tensor:
    """Make an F32 tensor of a vector or a matrix."""
    return Tensor(name=name, dims=values.shape[::-1], type_id=0, raw=values.tobytes())


WIDTH, HEADS, KV_HEADS, FFN, LAYERS = 32, 4, 2, 48, 2
PIECES = ["<|endoftext|>", *(chr(code) for code in range(0x21, 0x7F)), "Ġ", "he", "ll", "Ġhe"]


def tiny_llama(seed: int = 0) -> GgufBytes:
    """Make a whole Llama of two layers with a byte-level tokenizer."""
    draw = np.random.default_rng(seed)

    def random(*shape: int) -> NDArray[np.float32]:
        return draw.standard_normal(shape).astype(np.float32)

    kv_rows = WIDTH // HEADS * KV_HEADS
    tensors = [
        float_tensor("token_embd.weight", random(len(PIECES), WIDTH)),
        float_tensor("output_norm.weight", random(WIDTH)),
    ]
    for layer in range(LAYERS):
        shapes = {
            "attn_norm": (WIDTH,),
            "attn_q": (WIDTH, WIDTH),
            "attn_k": (kv_rows, WIDTH),
            "attn_v": (kv_rows, WIDTH),
            "attn_output": (WIDTH, WIDTH),
            "ffn_norm": (WIDTH,),
            "ffn_gate": (FFN, WIDTH),
            "ffn_up": (FFN, WIDTH),
            "ffn_down": (WIDTH, FFN),
        }
        tensors += [
            float_tensor(f"blk.{layer}.{name}.weight", random(*shape))
            for name, shape in shapes.items()
        ]
    return GgufBytes(metadata=_tiny_metadata(), tensors=tensors)


def _tiny_metadata() -> list[tuple[str | bytes, bytes]]:
    values: dict[str, Any] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": LAYERS,
        "llama.context_length": 128,
        "llama.embedding_length": WIDTH,
        "llama.feed_forward_length": FFN,
        "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": KV_HEADS,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": PIECES,
        "tokenizer.ggml.token_type": [3] + [1] * (len(PIECES) - 1),
        "tokenizer.ggml.merges": ["h e", "l l", "Ġ he"],
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
    }
    return [(key, value_of(value)) for key, value in values.items()]
