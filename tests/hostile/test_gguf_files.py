"""Each rule a GGUF file can break, broken once: a named error, never a crash or a wrong number."""

import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samebits.errors import ConfigError, ModelFileError, SamebitsError
from samebits.model.files import ModelFiles, open_model
from tests.model.gguf_bytes import (
    PIECES,
    WIDTH,
    GgufBytes,
    Tensor,
    float_tensor,
    text,
    tiny_llama,
    value_of,
)


def read_all(model: ModelFiles) -> None:
    for source in model.tensors.values():
        source.read_rows(0, source.shape[0])
    model.tensors["embed"].read_picked(np.array([2, 0], dtype=np.int64))


def refusal(path: Path) -> SamebitsError:
    with pytest.raises((ModelFileError, ConfigError)) as caught:
        read_all(open_model(path))
    assert caught.value.expected and caught.value.found
    return caught.value


def nested_array(depth: int) -> bytes:
    return struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * depth + struct.pack("<IQ", 4, 0)


def change_tensor(name: str, **changes: object) -> Callable[[GgufBytes], object]:
    def change(file: GgufBytes) -> None:
        tensor = next(tensor for tensor in file.tensors if tensor.name == name)
        for field, value in changes.items():
            setattr(tensor, field, value)

    return change


def spoil(key: str, value: object) -> Callable[[GgufBytes], object]:
    return lambda file: file.replace(key, value_of(value))


def drop(name: str) -> Callable[[GgufBytes], object]:
    def change(file: GgufBytes) -> None:
        file.tensors = [tensor for tensor in file.tensors if tensor.name != name]
        file.metadata = [(key, value) for key, value in file.metadata if key != name]

    return change


def frame(file: GgufBytes, bos: str) -> None:
    spoil("tokenizer.ggml.tokens", [bos, *PIECES[1:]])(file)
    spoil("tokenizer.ggml.add_bos_token", True)(file)


FACTOR = "llama.rope.scaling.factor"
NAN = np.full(WIDTH, np.nan, dtype=np.float32).tobytes()
Q = "blk.0.attn_q.weight"

RULES: dict[str, tuple[Callable[[GgufBytes], object], str]] = {
    "magic": (lambda file: setattr(file, "magic", b"GGML"), "begins b'GGML'"),
    "version": (lambda file: setattr(file, "version", 1), "version 1"),
    "big endian": (lambda file: setattr(file, "version", 3 << 24), "big-endian"),
    "key count": (lambda file: setattr(file, "num_keys", 2**63), "metadata keys"),
    "tensor count": (lambda file: setattr(file, "num_tensors", 2**60), "tensors"),
    "key twice": (lambda file: file.metadata.append(file.metadata[0]), "twice"),
    "key not UTF-8": (lambda file: file.metadata.append((b"\xff", value_of(1))), "0xff"),
    "key without letters": (lambda file: file.metadata.append(("", value_of(1))), "0 letters"),
    "value type": (lambda file: file.replace("x", struct.pack("<I", 13)), "type 13"),
    "bool": (lambda file: file.replace("x", struct.pack("<IB", 7, 2)), "found 2"),
    "bools": (lambda file: file.replace("x", struct.pack("<IIQB", 9, 7, 1, 3)), "found 3"),
    "string length": (lambda file: file.replace("x", struct.pack("<IQ", 8, 2**63)), "'x'"),
    "string not UTF-8": (lambda file: file.replace("x", struct.pack("<I", 8) + text(b"\xc3")), "x"),
    "strings not UTF-8": (
        lambda file: file.replace("x", struct.pack("<IIQ", 9, 8, 1) + text(b"\xed\xa0\x80")),
        "0xed",
    ),
    "array type": (lambda file: file.replace("x", struct.pack("<IIQ", 9, 13, 0)), "type 13"),
    "array count": (lambda file: file.replace("x", struct.pack("<IIQ", 9, 12, 2**61)), "'x'"),
    "array depth": (lambda file: file.replace("x", nested_array(9)), "at most 4 arrays"),
    "alignment 0": (spoil("general.alignment", 0), "general.alignment"),
    "alignment 12": (spoil("general.alignment", 12), "general.alignment"),
    "alignment text": (spoil("general.alignment", "32"), "general.alignment"),
    "tensor twice": (lambda file: file.tensors.append(file.tensors[0]), "twice"),
    "dimension count": (change_tensor(Q, dims=(1,) * 5), "found 5"),
    "no rows": (change_tensor(Q, dims=(32, 0)), "dimensions"),
    "three dimensions": (change_tensor(Q, dims=(32, 16, 2)), "dimensions"),
    "size overflow": (change_tensor(Q, dims=(2**63, 2**63)), Q),
    "size overflow to 0": (change_tensor(Q, dims=(2**32, 2**32)), Q),
    "unknown encoding": (change_tensor(Q, type_id=10), "Q2_K"),
    "no such encoding": (change_tensor(Q, type_id=4711), "4711"),
    "part of a block": (change_tensor(Q, dims=(33, 32), type_id=8), "multiple of 32"),
    "offset not aligned": (change_tensor(Q, offset=4), "multiple of 32"),
    "offset beyond the end": (change_tensor(Q, offset=2**62), Q),
    "offset in another": (change_tensor(Q, offset=0), "inside tensor"),
    "shape": (change_tensor(Q, dims=(16, 32)), r"shape \(32, 32\)"),
    "NaN": (change_tensor("output_norm.weight", raw=NAN), "output_norm.weight.*NaN"),
    "tensor missing": (drop(Q), f"{Q}.*no such tensor"),
    "tensor surplus": (
        lambda file: file.tensors.append(float_tensor("extra", np.ones(1, dtype=np.float32))),
        "'extra'",
    ),
    "no architecture": (drop("general.architecture"), "general.architecture"),
    "architecture": (spoil("general.architecture", "mamba"), "mamba"),
    "adapter": (spoil("general.type", "adapter"), "adapter"),
    "split": (spoil("split.count", 2), "split.count"),
    "key unknown": (spoil("llama.expert_count", 8), "llama.*expert_count|expert_count.*llama"),
    "layers": (spoil("llama.block_count", 2**31), "block_count"),
    "layers too many": (spoil("llama.block_count", 9999), "blk.2"),
    "heads 0": (spoil("llama.attention.head_count", 0), "head_count"),
    "heads uneven": (spoil("llama.attention.head_count_kv", 3), "multiple of 3"),
    "eps NaN": (spoil("llama.attention.layer_norm_rms_epsilon", float("nan")), "epsilon"),
    "eps negative": (spoil("llama.attention.layer_norm_rms_epsilon", -1e-5), "epsilon"),
    "rope factor of none": (
        lambda file: (spoil("llama.rope.scaling.type", "none")(file), spoil(FACTOR, 4.0)(file)),
        "rope.scaling.factor",
    ),
    "rope factor above binary32": (
        lambda file: file.replace(FACTOR, struct.pack("<Id", 12, 1e300)),
        "rope factor",
    ),
    "eps above 1": (spoil("llama.attention.layer_norm_rms_epsilon", 2.0), "norm_eps"),
    "theta": (spoil("llama.rope.freq_base", 0.5), "rope theta"),
    "context": (spoil("llama.context_length", 2**20 + 1), "context length.*lower"),
    "bos placeholder": (lambda file: frame(file, "$A"), r"'\$A'"),
    "bos typed": (lambda file: frame(file, "<s>:1"), "'<s>:1'"),
    "bos spaced": (lambda file: frame(file, "<s> "), "'<s> '"),
    "token long": (spoil("tokenizer.ggml.tokens", [*PIECES[:-1], "a" * 1001]), "1001 characters"),
    "rope scaling": (spoil("llama.rope.scaling.type", "yarn"), "yarn"),
    "rope part": (spoil("llama.rope.dimension_count", 4), "dimension_count"),
    "tokens": (spoil("tokenizer.ggml.tokens", [1, 2]), "tokenizer.ggml.tokens"),
    "tokens twice": (spoil("tokenizer.ggml.tokens", [*PIECES[:-1], "he"]), "'he' twice"),
    "more tokens than types": (
        spoil("tokenizer.ggml.tokens", [*PIECES, "more"]),
        "numbers in tokenizer.ggml.token_type",
    ),
    "token types": (spoil("tokenizer.ggml.token_type", [1]), "token_type"),
    "merge": (spoil("tokenizer.ggml.merges", ["h q"]), "h q"),
    "merges": (spoil("tokenizer.ggml.merges", [1]), "merges"),
    "pre-tokenizer": (spoil("tokenizer.ggml.pre", "who-knows"), "who-knows"),
    "tokenizer": (spoil("tokenizer.ggml.model", "bert"), "bert"),
    "bos": (spoil("tokenizer.ggml.bos_token_id", 10**6), "1000000"),
    "tokenizer key": (spoil("tokenizer.ggml.surprise", 1), "surprise"),
    "template": (spoil("tokenizer.chat_template", "{% if %}"), "chat template"),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_broken_rule_is_refused_by_name(rule: str, tmp_path: Path) -> None:
    change, named = RULES[rule]
    file = tiny_llama()
    change(file)
    error = refusal(file.write(tmp_path / "broken.gguf"))
    assert re.search(named, str(error)), error


def test_the_file_that_is_spoiled_above_is_right(tmp_path: Path) -> None:
    read_all(open_model(tiny_llama().write(tmp_path / "right.gguf")))


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = tiny_llama().build()
    path = tmp_path / "cut.gguf"
    for length in [*range(0, 3000, 7), *range(3000, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refusal(path)


@pytest.mark.parametrize("name", ["missing.gguf", ".", "a" * 5000])
def test_what_is_no_file_is_refused(name: str, tmp_path: Path) -> None:
    refusal(tmp_path / name)


def test_infinity_from_a_scale_is_refused(tmp_path: Path) -> None:
    file = tiny_llama()
    block = np.float16(np.inf).tobytes() + bytes(range(32))
    target = next(tensor for tensor in file.tensors if tensor.name == Q)
    file.tensors[file.tensors.index(target)] = Tensor(
        name=Q, dims=(32, 32), type_id=8, raw=block * 32
    )
    assert Q in str(refusal(file.write(tmp_path / "inf.gguf")))


WHOLE = tiny_llama().build()
HEADER_BYTES = WHOLE.index(b"blk.1.ffn_down.weight") + 60


@settings(
    max_examples=400, deadline=5000, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, HEADER_BYTES),
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7]),
            ),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_a_mutated_file_opens_or_is_refused(edits: list[tuple[int, bytes]], tmp_path: Path) -> None:
    data = bytearray(WHOLE)
    for at, new in edits:
        data[at : at + len(new)] = new
    path = tmp_path / "mutated.gguf"
    path.write_bytes(data)
    try:
        read_all(open_model(path))
    except (ModelFileError, ConfigError) as error:
        assert error.expected and error.found
