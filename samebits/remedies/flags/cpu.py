"""Rows of what engines on a processor share: threads, instruction sets, MKL, Python's hashes."""

from samebits.remedies.flags.table import DOCUMENTED, THREADS, Device, Flag, Kind, Leak, Setup

MKL_CONDITIONS = (
    "https://www.intel.com/content/www/us/en/docs/onemkl/developer-reference-c/2026-0/"
    "reproducibility-conditions.html"
)
MKL_START = (
    "https://www.intel.com/content/www/us/en/docs/onemkl/developer-reference-fortran/2026-0/"
    "getting-started-with-conditional-numerical.html"
)
OPENBLAS = "https://github.com/OpenMathLib/OpenBLAS/blob/develop/README.md"
ONEDNN = "https://oneapi-src.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html"
OFF = "false|0|off|no"
ON = "true|1|on|yes"

THREAD_FLAGS = (
    Flag(
        kind=Kind.VARIABLE,
        name="OMP_NUM_THREADS",
        value=THREADS,
        fixes="into how many parts OpenMP loops split their sums",
        not_covered="a program that sets its own count, such as torch.set_num_threads",
        cost="none stated",
        checked="torch 2.13.0, numpy 2.3.5",
        source=MKL_CONDITIONS,
    ),
    Flag(
        kind=Kind.VARIABLE,
        name="MKL_NUM_THREADS",
        value=THREADS,
        fixes="into how many parts MKL splits a product",
        not_covered="builds without MKL; programs that call mkl_set_num_threads",
        cost="none stated",
        checked="torch 2.13.0 with MKL 2024.2",
        source=MKL_CONDITIONS,
    ),
    Flag(
        kind=Kind.VARIABLE,
        name="OPENBLAS_NUM_THREADS",
        value=THREADS,
        fixes="into how many parts OpenBLAS splits a product",
        not_covered="OpenBLAS built with OpenMP, which reads OMP_NUM_THREADS only",
        cost="none stated",
        checked="numpy 2.3.5 with OpenBLAS 0.3.31",
        source=OPENBLAS,
    ),
    Flag(
        kind=Kind.VARIABLE,
        name="OMP_DYNAMIC",
        value="FALSE",
        fixes="that OpenMP keeps its thread count from loop to loop",
        not_covered="thread pools other than OpenMP's",
        cost="none stated",
        checked=DOCUMENTED,
        source=MKL_CONDITIONS,
        accepts=OFF,
    ),
    Flag(
        kind=Kind.VARIABLE,
        name="MKL_DYNAMIC",
        value="FALSE",
        fixes="that MKL keeps its thread count from call to call",
        not_covered="thread pools other than MKL's",
        cost="none stated",
        checked="torch 2.13.0 with MKL 2024.2: MKL_VERBOSE then prints Dyn:0",
        source=MKL_CONDITIONS,
        accepts=OFF,
    ),
)
ISA_FLAGS = (
    Flag(
        kind=Kind.VARIABLE,
        name="ONEDNN_MAX_CPU_ISA",
        value="AVX2",
        fixes="the highest instruction set that oneDNN makes kernels for, on any newer processor",
        not_covered="oneDNN built without this control, which ignores it; other libraries",
        cost="newer instructions, such as those of bfloat16, are not used",
        checked="torch 2.13.0 with oneDNN 3.12",
        source=ONEDNN,
        device=Device.CPU,
        is_set=False,
    ),
    Flag(
        kind=Kind.VARIABLE,
        name="MKL_CBWR",
        value="AVX2",
        fixes="MKL's branch: equal results on every Intel processor with AVX2",
        not_covered="processors not made by Intel, where MKL takes the branch AUTO instead; "
        "a thread count that changes",
        cost="none stated",
        checked="torch 2.13.0 with MKL 2024.2: on an AMD EPYC, AVX2 became AUTO",
        source=MKL_START,
        device=Device.CPU,
        is_set=False,
        accepts="(branch=)?(avx2|avx512|sse4_2|compatible)(,strict)?",
    ),
)
HASH_FLAG = Flag(
    kind=Kind.VARIABLE,
    name="PYTHONHASHSEED",
    value="0",
    fixes="the hashes of str and bytes, and with them the order of Python's sets",
    not_covered="anything but Python's hashes",
    cost="hash randomisation, a defence against chosen keys, is off",
    checked="Python 3.11",
    source="https://docs.python.org/3/using/cmdline.html#envvar-PYTHONHASHSEED",
    accepts=r"\d{1,10}",
)


def splits_freely(setup: Setup) -> bool:
    """Answer whether OpenMP or MKL may change its thread count."""
    return setup.has("OMP_DYNAMIC", ON) or setup.has("MKL_DYNAMIC", ON)


def has_loose_branch(setup: Setup) -> bool:
    """Answer whether MKL's branch is fixed while its thread count is not."""
    if not setup.has("MKL_CBWR", ".+") or setup.has("MKL_CBWR", ".*(,strict|off)"):
        return False
    counts = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")
    return not any(setup.has(name, r"\d+") for name in counts)


def has_tbb_branch(setup: Setup) -> bool:
    """Answer whether MKL's branch is fixed while TBB splits its work."""
    return setup.has("MKL_CBWR", ".+") and setup.has("MKL_THREADING_LAYER", "tbb")


CPU_LEAKS = (
    Leak(
        name="threads-change-by-themselves",
        happens=splits_freely,
        why="OpenMP or MKL may use another number of threads from call to call, and split sums "
        "otherwise",
        way_out="Set OMP_DYNAMIC and MKL_DYNAMIC to FALSE, or unset them.",
        source=MKL_CONDITIONS,
    ),
    Leak(
        name="mkl-branch-without-threads",
        happens=has_loose_branch,
        why="MKL_CBWR promises equal results for a fixed number of threads only",
        way_out="Set MKL_NUM_THREADS or OMP_NUM_THREADS to a number.",
        source=MKL_CONDITIONS,
    ),
    Leak(
        name="mkl-branch-with-tbb",
        happens=has_tbb_branch,
        why="MKL_CBWR promises nothing where MKL's threads are TBB's",
        way_out="Set MKL_THREADING_LAYER to INTEL, GNU or SEQUENTIAL.",
        source=MKL_CONDITIONS,
    ),
)
