"""Flags of PyTorch, on processor and CUDA, and of transformers, which runs on it."""

from samebits.remedies.flags.cpu import (
    CPU_LEAKS,
    HASH_FLAG,
    ISA_FLAGS,
    ON,
    THREAD_FLAGS,
)
from samebits.remedies.flags.table import (
    DOCUMENTED,
    THREADS,
    Device,
    EngineFlags,
    Flag,
    Kind,
    Leak,
    Setup,
)

NOTES = "https://docs.pytorch.org/docs/stable/notes/randomness.html"
DETERMINISTIC = (
    "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"
)
ACCURACY = "https://github.com/pytorch/pytorch/blob/main/docs/source/notes/numerical_accuracy.rst"
INDUCTOR = "https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_inductor/config.py"
TORCH = "torch 2.13.0"
AUTOTUNE = "TORCHINDUCTOR_MAX_AUTOTUNE"
TUNED = ("", "_GEMM", "_POINTWISE")
"""Endings of the variables that ask for it: all kernels, or one sort."""


def times_kernels(setup: Setup) -> bool:
    """Answer whether Inductor chooses kernels by how fast they ran this time."""
    is_fixed = setup.has("TORCHINDUCTOR_DETERMINISTIC", "1")
    return not is_fixed and any(setup.has(f"{AUTOTUNE}{part}", ON) for part in TUNED)


ENGINE = EngineFlags(
    name="pytorch",
    title="PyTorch and transformers",
    flags=(
        *THREAD_FLAGS,
        HASH_FLAG,
        Flag(
            kind=Kind.VARIABLE,
            name="CUBLAS_WORKSPACE_CONFIG",
            value=":4096:8",
            fixes="which cuBLAS algorithm runs where several streams share a handle",
            not_covered="other batch sizes, GPUs or CUDA versions, which have other kernels",
            cost="about 24 MiB of GPU memory; :16:8 takes less and may be slower",
            checked=DOCUMENTED,
            source="https://docs.nvidia.com/cuda/cublas/#results-reproducibility",
            device=Device.GPU,
            accepts=":16:8",
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="TORCHINDUCTOR_DETERMINISTIC",
            value="1",
            fixes="that torch.compile chooses no kernel by timing it, where that moves numbers",
            not_covered="other batch sizes; the difference between compiled and eager",
            cost="slower kernels; the source warns of a performance hit",
            checked=TORCH,
            source=INDUCTOR,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="TORCHINDUCTOR_BATCH_INVARIANT",
            value="1",
            fixes="compiled kernels that stay the same for each sample at any batch size",
            not_covered="eager code; kernels that PyTorch does not generate",
            cost="none stated; implies deterministic mode",
            checked=TORCH,
            source=INDUCTOR,
            is_set=False,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="TORCH_COMPILE_DISABLE",
            value="1",
            fixes="that nothing is fused at run time: torch.compile does nothing",
            not_covered="kernels that are chosen by shape in eager mode",
            cost="the speed that compiling gives",
            checked=TORCH,
            source="https://github.com/pytorch/pytorch/blob/v2.13.0/torch/_dynamo/config.py",
            is_set=False,
        ),
        Flag(
            kind=Kind.VARIABLE,
            name="ATEN_CPU_CAPABILITY",
            value="avx2",
            fixes="the instruction set of PyTorch's own kernels, on any newer processor",
            not_covered="MKL, oneDNN and OpenBLAS, which choose for themselves",
            cost="wider vectors are not used",
            checked=TORCH,
            source="https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/"
            "DispatchStub.cpp",
            device=Device.CPU,
            is_set=False,
            accepts="default|avx512",
        ),
        *ISA_FLAGS,
        Flag(
            kind=Kind.CALL,
            name="torch.use_deterministic_algorithms(True)",
            value="",
            fixes="that operations with a random order take another algorithm, or raise",
            not_covered="other batch sizes and thread counts; operations of other libraries",
            cost="deterministic operations tend to be slower",
            checked=TORCH,
            source=DETERMINISTIC,
        ),
        Flag(
            kind=Kind.CALL,
            name="torch.backends.cudnn.deterministic",
            value="True",
            fixes="that cuDNN takes deterministic algorithms only",
            not_covered="other shapes; everything but cuDNN",
            cost="may be slower, depending on the model",
            checked=TORCH,
            source=NOTES,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.CALL,
            name="torch.backends.cudnn.benchmark",
            value="False",
            fixes="that cuDNN chooses no algorithm by timing it",
            not_covered="other shapes; everything but cuDNN",
            cost="may be slower",
            checked=TORCH,
            source=NOTES,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.CALL,
            name="torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
            value="False",
            fixes="that sums of bfloat16 products are kept in float32 all the way",
            not_covered="the order of those sums",
            cost="the truncated sums are there for performance",
            checked=DOCUMENTED,
            source=ACCURACY,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.CALL,
            name="torch.backends.cudnn.conv.fp32_precision",
            value='"ieee"',
            fixes="that convolutions in float32 do not read only 10 bits of their inputs (TF32)",
            not_covered="matrix products, which use TF32 only if asked to",
            cost="TF32 is there for speed",
            checked=DOCUMENTED,
            source=ACCURACY,
            device=Device.GPU,
        ),
        Flag(
            kind=Kind.CALL,
            name=f"torch.set_num_threads({THREADS})",
            value="",
            fixes="the count of PyTorch's threads, whatever the variables say",
            not_covered="NumPy's BLAS; has to come before anything is computed",
            cost="none stated",
            checked=TORCH,
            source="https://docs.pytorch.org/docs/stable/generated/torch.set_num_threads.html",
            is_set=False,
        ),
    ),
    leaks=(
        *CPU_LEAKS,
        Leak(
            name="kernels-chosen-by-timing",
            happens=times_kernels,
            why="max-autotune chooses kernels by how fast they run, and another run may choose "
            "others",
            way_out="Set TORCHINDUCTOR_DETERMINISTIC=1, or unset TORCHINDUCTOR_MAX_AUTOTUNE.",
            source=DETERMINISTIC,
        ),
    ),
    not_covered=(
        "A product of one row need not equal that row of a larger product: no flag changes that "
        f"({ACCURACY}).",
        "Other releases of PyTorch, other processors and GPUs give other bits with all flags set "
        f"({NOTES}).",
        "max-autotune asked for in the program, as torch.compile(mode=...), is not seen from here.",
    ),
)
