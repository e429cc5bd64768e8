"""Flags of TensorRT-LLM."""

from samebits.remedies.flags.cpu import HASH_FLAG
from samebits.remedies.flags.table import DOCUMENTED, Device, EngineFlags, Flag, Kind

SOURCE = "https://github.com/NVIDIA/TensorRT-LLM/blob/main/cpp/tensorrt_llm/common/envUtils.cpp"
REPORT = "https://github.com/NVIDIA/TensorRT-LLM/issues/19501"

ENGINE = EngineFlags(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    flags=(
        Flag(
            kind=Kind.VARIABLE,
            name="FORCE_DETERMINISTIC",
            value="1",
            fixes="deterministic attention, mixture-of-experts and all-reduce kernels",
            not_covered="kernels chosen by the number of rows, all-reduce chosen by size, padding "
            "of CUDA graphs; any value but 1 is ignored",
            cost="none stated; block reuse and chunked prefill have to be off",
            checked="from source",
            source=SOURCE,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="TRTLLM_MOE_DISABLE_FINALIZE_FUSION",
            value="1",
            fixes="the last sum over experts, done by itself instead of fused",
            not_covered="the TRTLLM-Gen path, which has no unfused one",
            cost="none stated",
            checked="from source",
            source=SOURCE,
            device=Device.GPU,
        ),
        HASH_FLAG,
        Flag(
            kind=Kind.CALL,
            name="KvCacheConfig(enable_block_reuse=False, enable_partial_reuse=False)",
            value="",
            fixes="that a second answer is computed as the first one was",
            not_covered="batches",
            cost="shared prompts are computed again",
            checked=DOCUMENTED,
            source="https://github.com/NVIDIA/TensorRT-LLM/pull/13290",
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.CALL,
            name="LLM(enable_autotuner=False)",
            value="",
            fixes="that kernels are not chosen by timing them",
            not_covered="what cuBLASLt then chooses",
            cost="none stated",
            checked=DOCUMENTED,
            source=REPORT,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.CALL,
            name="LLM(max_batch_size=1)",
            value="",
            fixes="that no request shares a batch",
            not_covered="engines built twice, which may differ by themselves",
            cost="far less throughput",
            checked=DOCUMENTED,
            source="https://github.com/NVIDIA/TensorRT-LLM/issues/2474",
            device=Device.GPU,
            is_set=False,
        ),
    ),
    not_covered=(
        "Kernels are chosen by batch size, and no flag makes them batch-invariant "
        "(https://github.com/NVIDIA/TensorRT-LLM/issues/1336).",
        f"What FORCE_DETERMINISTIC covers, row by row: {REPORT}.",
    ),
    next_step="Read the server's log for the settings in force. Then: samebits audit "
    "http://HOST:PORT/v1",
)
