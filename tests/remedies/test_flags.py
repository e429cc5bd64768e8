"""Tables of flags: every row has its source, every leak fires where it should and only there."""

import html
import re

import pytest

from samebits.cli.names import ENGINE_NAMES
from samebits.errors import ConfigError, InvariantBroken
from samebits.lock.variables import VARIABLES
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.remedies.flags.cpu import HASH_FLAG
from samebits.remedies.flags.engines import ENGINES, find_engine
from samebits.remedies.flags.table import (
    Device,
    EngineFlags,
    Flag,
    Kind,
    Setup,
    check_engine,
)
from samebits.remedies.seeds_unread import list_seeds
from samebits.report.flags_document import make_flags
from samebits.report.in_html import write_page
from samebits.report.in_json import write_json
from samebits.report.in_markdown import write_markdown
from samebits.report.in_terminal import write_text

EACH = pytest.mark.parametrize("engine", ENGINES.values(), ids=list(ENGINES))


@EACH
def test_every_row_says_all_and_has_a_source(engine: EngineFlags) -> None:
    check_engine(engine)
    assert engine.flags
    assert engine.not_covered


@EACH
def test_every_variable_is_on_the_allow_list_with_a_value_of_its_shape(engine: EngineFlags) -> None:
    for flag in engine.flags:
        if flag.kind is Kind.VARIABLE:
            shape = VARIABLES[flag.name].shape
            assert re.fullmatch(shape, flag.fill(4), re.ASCII | re.IGNORECASE), flag.name


@EACH
def test_the_json_is_canonical_and_holds_every_row_with_its_source(engine: EngineFlags) -> None:
    text = write_json(engine.describe())
    value = parse_json(text)
    assert canonical_bytes(value).decode() + "\n" == text
    rows = value["flags"] + value["leaks"] + value["seeds"]
    assert len(rows) == len(engine.flags) + len(engine.leaks) + len(list_seeds(engine.name))
    assert all(row["source"].startswith("https://") for row in rows)


@EACH
def test_the_report_fits_a_terminal_and_leaves_nothing_out(engine: EngineFlags) -> None:
    document = make_flags(engine)
    text = write_text(document, 80)
    assert max(map(len, text.splitlines())) <= 80
    joined = re.sub(r"\s+", "", text)
    for flag in engine.flags:
        for part in (flag.spell(), flag.fixes, flag.not_covered, flag.cost, flag.source):
            assert re.sub(r"\s+", "", part) in joined
    for seed in list_seeds(engine.name):
        assert all(re.sub(r"\s+", "", part) in joined for part in (seed.remark, seed.source))
    # Markdown escapes what would be markup there.
    for drawn in (write_markdown(document).replace("\\", ""), html.unescape(write_page(document))):
        assert all(flag.name in drawn and flag.source in drawn for flag in engine.flags)


def test_the_names_that_help_lists_are_the_engines() -> None:
    assert tuple(ENGINES) == ENGINE_NAMES


@pytest.mark.parametrize(
    ("name", "found"),
    [("torch", "pytorch"), ("vLLM", "vllm"), ("llama_cpp", "llama.cpp"), ("XLA", "jax")],
)
def test_engines_are_found_by_what_people_write(name: str, found: str) -> None:
    assert find_engine(name).name == found


def test_an_unknown_engine_is_refused_with_the_names_of_all() -> None:
    with pytest.raises(ConfigError, match=r"vllm.*'tgi'"):
        find_engine("tgi")


def make_flag(**changes: object) -> Flag:
    values = {name: getattr(HASH_FLAG, name) for name in Flag.__dataclass_fields__}
    return Flag(**values | changes)


@pytest.mark.parametrize(
    "flags",
    [
        (make_flag(source="somebody said so"),),
        (make_flag(fixes=""),),
        (make_flag(name="SECRET_TOKEN"),),
        (HASH_FLAG, HASH_FLAG),
    ],
    ids=["no source", "says nothing", "not on the allow-list", "twice"],
)
def test_a_table_with_a_bad_row_is_refused(flags: tuple[Flag, ...]) -> None:
    with pytest.raises(InvariantBroken):
        check_engine(EngineFlags(name="x", title="x", flags=flags))


GPU, CPU = Device.GPU, Device.CPU
INVARIANT = {"VLLM_BATCH_INVARIANT": "1"}
LEAKS = [
    # engine, variables, options, device, leak or nothing
    ("vllm", INVARIANT, {}, CPU, "batch-invariant-on-cpu"),
    ("vllm", {"VLLM_BATCH_INVARIANT": "0"}, {}, CPU, ""),
    ("vllm", INVARIANT, {}, GPU, ""),
    ("vllm", INVARIANT, {"attention-backend": "FLASHINFER"}, GPU,
     "batch-invariant-with-other-backend"),
    ("vllm", {**INVARIANT, "VLLM_ATTENTION_BACKEND": "XFORMERS"}, {}, GPU,
     "batch-invariant-with-other-backend"),
    ("vllm", INVARIANT, {"attention-backend": "triton_attn"}, GPU, ""),
    ("vllm", {}, {"attention-backend": "FLASHINFER"}, GPU, ""),
    ("vllm", INVARIANT, {"tensor-parallel-size": "2"}, GPU,
     "batch-invariant-with-fused-all-reduce"),
    ("vllm", INVARIANT, {"tp": "8"}, GPU, "batch-invariant-with-fused-all-reduce"),
    ("vllm", INVARIANT, {"tensor-parallel-size": "1"}, GPU, ""),
    ("vllm", INVARIANT,
     {"tensor-parallel-size": "2", "cc.pass-config.fuse_allreduce_rms": "False"}, GPU, ""),
    ("vllm", INVARIANT,
     {"tp": "2", "compilation-config": '{"pass_config": {"fuse_allreduce_rms": false}}'}, GPU, ""),
    ("vllm", {}, {"tensor-parallel-size": "2"}, GPU, ""),
    ("sglang", {}, {"enable-deterministic-inference": ""}, GPU, "deterministic-with-radix-cache"),
    ("sglang", {}, {"enable-deterministic-inference": "", "disable-radix-cache": ""}, GPU, ""),
    ("sglang", {}, {"enable-deterministic-inference": "", "attention-backend": "flashinfer"}, GPU,
     ""),
    ("sglang", {}, {"enable-deterministic-inference": "", "disable-radix-cache": "",
                    "attention-backend": "torch_native"}, GPU, "deterministic-with-other-backend"),
    ("sglang", {}, {"attention-backend": "torch_native"}, GPU, ""),
    ("pytorch", {"OMP_DYNAMIC": "true"}, {}, CPU, "threads-change-by-themselves"),
    ("pytorch", {"MKL_DYNAMIC": "1"}, {}, CPU, "threads-change-by-themselves"),
    ("pytorch", {"OMP_DYNAMIC": "FALSE", "MKL_DYNAMIC": "0"}, {}, CPU, ""),
    ("pytorch", {"MKL_CBWR": "AVX2"}, {}, CPU, "mkl-branch-without-threads"),
    ("pytorch", {"MKL_CBWR": "AVX2", "MKL_NUM_THREADS": "4"}, {}, CPU, ""),
    ("pytorch", {"MKL_CBWR": "AVX2,STRICT"}, {}, CPU, ""),
    ("pytorch", {"MKL_CBWR": "AVX2", "OMP_NUM_THREADS": "4", "MKL_THREADING_LAYER": "TBB"}, {}, CPU,
     "mkl-branch-with-tbb"),
    ("pytorch", {"TORCHINDUCTOR_MAX_AUTOTUNE": "1"}, {}, GPU, "kernels-chosen-by-timing"),
    ("pytorch", {"TORCHINDUCTOR_MAX_AUTOTUNE_GEMM": "1"}, {}, GPU, "kernels-chosen-by-timing"),
    ("pytorch", {"TORCHINDUCTOR_MAX_AUTOTUNE": "1", "TORCHINDUCTOR_DETERMINISTIC": "1"}, {}, GPU,
     ""),
    ("llama.cpp", {}, {"parallel": "4"}, CPU, "slots-share-batches"),
    ("llama.cpp", {"LLAMA_ARG_N_PARALLEL": "4"}, {}, CPU, "slots-share-batches"),
    ("llama.cpp", {"LLAMA_ARG_N_PARALLEL": "4"}, {"parallel": "1"}, CPU, ""),
    ("llama.cpp", {}, {"cache-reuse": "256"}, CPU, "cache-is-shifted"),
    ("llama.cpp", {}, {"cache-reuse": "0"}, CPU, ""),
    ("llama.cpp", {}, {"threads": "1"}, CPU, "maths-library-keeps-its-threads"),
    ("llama.cpp", {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}, {"t": "1"}, CPU, ""),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "variables", "options", "device", "leak"), LEAKS)
def test_a_leak_fires_where_it_should_and_only_there(
    engine: str,
    variables: dict[str, str],
    options: dict[str, str],
    device: Device,
    leak: str,
) -> None:
    setup = Setup(variables=variables, options=options, device=device)
    found = [x.name for x in ENGINES[engine].leaks if x.happens(setup)]
    assert found == ([leak] if leak else [])


def test_every_leak_is_in_the_table_above() -> None:
    every = {leak.name for engine in ENGINES.values() for leak in engine.leaks}
    assert every == {row[4] for row in LEAKS} - {""}
