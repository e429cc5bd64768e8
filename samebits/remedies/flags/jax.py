"""Flags of JAX and XLA, which reads one variable that holds many flags."""

from samebits.remedies.flags.cpu import HASH_FLAG
from samebits.remedies.flags.table import DOCUMENTED, Device, EngineFlags, Flag, Kind

FLAGS = "https://github.com/openxla/xla/blob/main/xla/debug_options_flags.cc"

ENGINE = EngineFlags(
    name="jax",
    title="JAX and XLA",
    flags=(
        Flag(
            kind=Kind.VARIABLE,
            name="XLA_FLAGS",
            value="--xla_gpu_deterministic_ops=true",
            fixes="that a GPU gives the same results from run to run",
            not_covered="other shapes, batch sizes, GPUs and versions",
            cost="none stated",
            checked="from source",
            source=FLAGS,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="XLA_FLAGS",
            value="--xla_gpu_autotune_level=0",
            fixes="that products and convolutions are not chosen by timing them",
            not_covered="other shapes",
            cost="none stated; tuning is there for speed",
            checked="from source",
            source=FLAGS,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="XLA_FLAGS",
            value="--xla_allow_excess_precision=false",
            fixes="that no step is computed in another precision than it says",
            not_covered="the order of sums",
            cost="none stated",
            checked="from source",
            source=FLAGS,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="XLA_FLAGS",
            value="--xla_cpu_max_isa=AVX2",
            fixes="the highest instruction set of compiled code, on any newer processor",
            not_covered="libraries that compiled code calls",
            cost="newer instructions are not used",
            checked="from source",
            source=FLAGS,
            device=Device.CPU,
            is_set=False,
        ),
        HASH_FLAG,
        Flag(
            kind=Kind.CALL,
            name='jax.default_matmul_precision("float32")',
            value="",
            fixes="that float32 products are not computed in bfloat16 or TF32",
            not_covered="the order of sums; 16-bit inputs",
            cost="faster, less precise products are not used",
            checked=DOCUMENTED,
            source="https://docs.jax.dev/en/latest/_autosummary/jax.default_matmul_precision.html",
        ),
    ),
    not_covered=(
        "Variables are read when a backend starts: later changes do nothing "
        "(https://docs.jax.dev/en/latest/xla_flags.html).",
        "Threads on the CPU: we found no documented way to fix their number.",
    ),
    next_step="Print jax.print_environment_info() in your program: it tells device and version.",
)
