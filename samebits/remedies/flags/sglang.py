"""Flags of SGLang."""

from samebits.remedies.flags.cpu import CPU_LEAKS, HASH_FLAG, THREAD_FLAGS
from samebits.remedies.flags.table import DOCUMENTED, Device, EngineFlags, Flag, Kind, Leak, Setup

DOCS = "https://docs.sglang.io/advanced_features/deterministic_inference.html"
FAQ = "https://mintlify.com/sgl-project/sglang/resources/faq"
ARGUMENTS = "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/server_args.py"
BACKENDS = ("fa3", "fa4", "flashinfer", "triton", "ascend", "intel_xpu")
"""That the mode takes; of them, those that keep the radix cache on: all but flashinfer."""


def is_deterministic(setup: Setup) -> bool:
    """Answer whether the deterministic mode is asked for."""
    return setup.option("enable-deterministic-inference") is not None


def keeps_radix_cache(setup: Setup) -> bool:
    """Answer whether prefixes are reused in the deterministic mode."""
    is_off = setup.option("disable-radix-cache") is not None
    is_off = is_off or (setup.option("attention-backend") or "") == "flashinfer"
    return is_deterministic(setup) and not is_off


def has_other_backend(setup: Setup) -> bool:
    """Answer whether an attention backend without the mode is asked for beside it."""
    backend = setup.option("attention-backend") or ""
    return is_deterministic(setup) and backend not in ("", *BACKENDS)


ENGINE = EngineFlags(
    name="sglang",
    title="SGLang",
    flags=(
        Flag(
            kind=Kind.OPTION,
            name="--enable-deterministic-inference",
            value="",
            fixes="batch-invariant kernels, fixed splits of attention, a seed for each request",
            not_covered="attention backends other than its three; reused prefixes (see below)",
            cost="34 % slower on average by its makers; prompts may be limited by a fixed "
            "workspace (https://github.com/Blackwellboy/model-serving-minefield/issues/87)",
            checked="from documentation and source",
            source=DOCS,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--attention-backend",
            value="triton",
            fixes="one attention kernel, of those that the mode takes: fa3, flashinfer or triton",
            not_covered="other kernels",
            cost="triton was the slowest of the three in its makers' table",
            checked="from documentation and source",
            source=DOCS,
            device=Device.GPU,
            is_set=False,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--disable-radix-cache",
            value="",
            fixes="that a second answer is computed as the first one was",
            not_covered="batches",
            cost="shared prompts are computed again",
            checked=DOCUMENTED,
            source=FAQ,
        ),
        Flag(
            kind=Kind.OPTION,
            name="--max-running-requests",
            value="1",
            fixes="that no request shares a batch",
            not_covered="reused prefixes",
            cost="one request at a time",
            checked="from source",
            source=ARGUMENTS,
            is_set=False,
        ),
        *THREAD_FLAGS,
        HASH_FLAG,
    ),
    leaks=(
        Leak(
            name="deterministic-with-radix-cache",
            happens=keeps_radix_cache,
            why="a prefix as long as a block of the cache gave damaged answers with the mode on, "
            "and an open report has cached prefixes change greedy answers",
            way_out="Add --disable-radix-cache to the command.",
            source="https://github.com/sgl-project/sglang/issues/22819",
        ),
        Leak(
            name="deterministic-with-other-backend",
            happens=has_other_backend,
            why="the mode does not take this attention backend",
            way_out="Give --attention-backend fa3, flashinfer or triton.",
            source=ARGUMENTS,
        ),
        *CPU_LEAKS,
    ),
    not_covered=(
        f"Without the mode, batches and cached prefixes both move greedy answers ({FAQ}).",
        "Mixtures of experts and more than two GPUs were not covered when the mode was made "
        "(https://lmsys.org/blog/2025-09-22-sglang-deterministic/).",
    ),
    next_step="Read the first lines of the server's log: it says which attention and sampling "
    "backend it falls back to, and whether the radix cache is off. Then: samebits audit "
    "http://HOST:PORT/v1",
)
