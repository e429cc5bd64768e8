"""Flags of llama.cpp's server. Its options can be given as variables; an option wins over one."""

from samebits.remedies.flags.cpu import CPU_LEAKS, THREAD_FLAGS
from samebits.remedies.flags.table import (
    THREADS,
    Device,
    EngineFlags,
    Flag,
    Kind,
    Leak,
    Setup,
)

README = "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"
CHECKED = "from documentation of 2026"


def shares_batches(setup: Setup) -> bool:
    """Answer whether requests share batches."""
    slots = setup.option("parallel", "np") or setup.variables.get("LLAMA_ARG_N_PARALLEL", "")
    return slots.isdecimal() and int(slots) > 1


def shifts_cache(setup: Setup) -> bool:
    """Answer whether chunks of earlier prompts are moved and reused."""
    return setup.counts("cache-reuse") > 0 or setup.has("LLAMA_ARG_CACHE_REUSE", r"[1-9]\d*")


def leaves_blas_threads(setup: Setup) -> bool:
    """Answer whether threads are limited for llama.cpp but not for its maths library."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    asked = setup.counts("threads", "t")
    return asked > 0 and not all(setup.has(name, str(asked)) for name in names)


ENGINE = EngineFlags(
    name="llama.cpp",
    title="llama.cpp",
    flags=(
        Flag(
            kind=Kind.VARIABLE,
            name="LLAMA_ARG_N_PARALLEL",
            value="1",
            fixes="that no request shares a batch",
            not_covered="reuse of earlier prompts in the one slot that is left",
            cost="one request at a time",
            checked=CHECKED,
            source=README,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="LLAMA_ARG_THREADS",
            value=THREADS,
            fixes="into how many parts a product is split; prompts take the same count",
            not_covered="a maths library that llama.cpp was built with, which has its own count",
            cost="none stated",
            checked=CHECKED,
            source=README,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="LLAMA_ARG_FLASH_ATTN",
            value="off",
            fixes="one kind of attention, instead of auto",
            not_covered="other builds and devices",
            cost="flash attention is there for speed and memory",
            checked=CHECKED,
            source=README,
            accepts="on",
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="LLAMA_ARG_CACHE_PROMPT",
            value="false",
            fixes="that a second answer is computed as the first one was: with the cache, results "
            "may be nondeterministic",
            not_covered="requests that set cache_prompt themselves",
            cost="shared prompts are computed again",
            checked=CHECKED,
            source=README,
            accepts="0|off|disabled",
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="LLAMA_ARG_CACHE_RAM",
            value="0",
            fixes="that prompts of other requests are not kept for reuse",
            not_covered="the prompt that is still in a slot",
            cost="shared prompts are computed again",
            checked=CHECKED,
            source=README,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--seed",
            value="0",
            fixes="the seed of requests that bring none (-1, the default, is random)",
            not_covered="requests that bring their own",
            cost="sampled answers repeat",
            checked=CHECKED,
            source=README,
            is_set=False,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--device",
            value="none",
            fixes="that nothing is computed on a GPU",
            not_covered="processors with other instructions",
            cost="the speed of the GPU",
            checked=CHECKED,
            source=README,
            device=Device.CPU,
            is_set=False,
        ),
        *THREAD_FLAGS,
    ),
    leaks=(
        Leak(
            name="slots-share-batches",
            happens=shares_batches,
            why="slots share batches, and logits are not the same bits at other batch sizes",
            way_out="Give --parallel 1, or leave it to LLAMA_ARG_N_PARALLEL=1.",
            source="https://github.com/ggml-org/llama.cpp/issues/7052",
        ),
        Leak(
            name="cache-is-shifted",
            happens=shifts_cache,
            why="chunks of earlier prompts are moved and reused, so an answer depends on them",
            way_out="Leave out --cache-reuse.",
            source=README,
        ),
        Leak(
            name="maths-library-keeps-its-threads",
            happens=leaves_blas_threads,
            why="--threads says one count and the variables of the maths library another; a build "
            "was reported that used all threads whatever --threads said",
            way_out="Give samebits run the same --threads.",
            source="https://github.com/ggml-org/llama.cpp/issues/22956",
        ),
        *CPU_LEAKS,
    ),
    not_covered=(
        "Prompts are computed in batches of --ubatch-size and answers token by token: the two give "
        f"other bits for the same tokens ({README}).",
    ),
    next_step="Read the server's first lines (system_info: n_threads) and GET /props. Then: "
    "samebits audit http://HOST:PORT/v1",
)
