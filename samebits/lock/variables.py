"""Environment variables that steer numbers: an allow-list, and the shape of each one's values.

Names are listed one by one, since a pattern such as VLLM_* would take in keys and tokens. A value
of another shape than its variable takes is not recorded: it may be a secret in the wrong place.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

HIDDEN = "(set, not shown)"
"""Stands for a value that does not look like one."""

KERNELS = "other kernels are chosen"
SPLITS = "sums are split by thread counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """What is known of one variable."""

    shape: str
    """Regular expression of its values, in any case of letters."""
    effect: str
    """What another value can do; empty if nothing."""


def choose(words: str) -> str:
    """Make the shape of a variable that takes one of these words."""
    return "|".join(map(re.escape, words.split()))


FLAG = "0|1|true|false|on|off|yes|no"
COUNTS = r"\d{1,5}(,\d{1,5}){0,7}"
SIZE = r"\d{1,9}[bkmg]?"
RANGES = r"\{?\d{1,4}([-:,{}| ]{1,3}\d{1,4}){0,63}\}?"
ONEDNN_ISAS = choose(
    "default all sse41 avx avx2 avx2_vnni avx2_vnni_2 avx512_core avx512_core_vnni "
    "avx512_core_bf16 avx512_core_fp16 avx512_core_amx avx512_core_amx_fp16 avx10_1_512 "
    "avx10_1_512_amx avx10_1_512_amx_fp16 avx10_2_512 avx10_2_512_amx_2"
)
MKL_ISAS = choose("sse4_2 avx avx2 avx2_e1 avx512 avx512_e1 avx512_e2 avx512_e3 avx512_e4 avx10")
CBWR = choose(
    "auto compatible off branch_off sse2 sse3 ssse3 sse4_1 sse4_2 avx avx2 avx512 avx512_e1 "
    "avx512_mic avx512_mic_e1"
)
BLAS_CORES = choose(
    "generic prescott core2 penryn dunnington nehalem sandybridge haswell skylakex cooperlake "
    "sapphirerapids atom barcelona bobcat bulldozer piledriver steamroller excavator zen armv8 "
    "armv8sve armv9sme cortexa53 cortexa55 cortexa57 cortexa72 cortexa73 cortexa76 cortexx1 "
    "neoversen1 neoversen2 neoversev1 thunderx thunderx2t99 vortex vortexm4"
)
XLA_ISAS = choose("sse4_2 avx avx2 avx512 avx512_vnni avx512_bf16 amx amx_fp16")
XLA_FLAG = (
    r"--xla_((gpu_(deterministic_ops|exclude_nondeterministic_ops)|allow_excess_precision)"
    rf"(=(true|false|0|1))?|gpu_autotune_level=\d|cpu_max_isa=({XLA_ISAS}))"
)
ATTENTIONS = choose(
    "flash_attn flashinfer torch_sdpa xformers triton_attn flex_attention tree_attn cpu_attn "
    "rocm_flash flashmla triton_mla cutlass_mla"
)
NUMPY_ISAS = choose(
    "sse sse2 sse3 ssse3 sse41 popcnt sse42 avx f16c xop fma4 fma3 avx2 avx512f avx512cd "
    "avx512_knl avx512_knm avx512_skx avx512_clx avx512_cnl avx512_icl avx512_spr x86_v2 x86_v3 "
    "x86_v4 neon neon_fp16 neon_vfpv4 asimd fphp asimdhp asimddp asimdfhm sve vsx vsx2 vsx3 "
    "vsx4 vx vxe vxe2"
)
LIBC_ISAS = choose(
    "avx avx2 avx512f avx512vl avx512bw avx512dq avx512cd fma fma4 avx_usable avx2_usable "
    "fma_usable fma4_usable avx_fast_unaligned_load erms fsrm rtm xsave xsavec sse4_1 sse4_2 "
    "ssse3 bmi1 bmi2 lzcnt movbe popcnt prefer_no_vzeroupper prefer_no_avx512_probing"
)
TABLE = (
    (
        SPLITS,
        COUNTS,
        "OMP_NUM_THREADS OMP_THREAD_LIMIT OMP_MAX_ACTIVE_LEVELS MKL_NUM_THREADS "
        "OPENBLAS_NUM_THREADS GOTO_NUM_THREADS BLIS_NUM_THREADS VECLIB_MAXIMUM_THREADS "
        "NUMEXPR_NUM_THREADS VLLM_CPU_NUM_OF_RESERVED_CPU",
    ),
    (SPLITS, FLAG, "OMP_DYNAMIC OMP_NESTED MKL_DYNAMIC"),
    (SPLITS, r"((non)?monotonic:)?(static|dynamic|guided|auto)(,\d{1,6})?", "OMP_SCHEDULE"),
    (SPLITS, r"(mkl_)?(domain_)?(all|blas|fft|vml|pardiso)[=,:]\d{1,4}", "MKL_DOMAIN_NUM_THREADS"),
    (SPLITS, f"nobind|auto|all|{RANGES}", "VLLM_CPU_OMP_THREADS_BIND"),
    (KERNELS, "default|avx2|avx512|vsx|zvector|sve|sve128|sve256", "ATEN_CPU_CAPABILITY"),
    (KERNELS, ONEDNN_ISAS, "ONEDNN_MAX_CPU_ISA DNNL_MAX_CPU_ISA"),
    (KERNELS, "prefer_ymm|no_hints", "ONEDNN_CPU_ISA_HINTS DNNL_CPU_ISA_HINTS"),
    (
        KERNELS,
        "strict|bf16|f16|tf32|any",
        "ONEDNN_DEFAULT_FPMATH_MODE DNNL_DEFAULT_FPMATH_MODE",
    ),
    (KERNELS, MKL_ISAS, "MKL_ENABLE_INSTRUCTIONS"),
    (KERNELS, f"(branch=)?({CBWR})(,strict)?", "MKL_CBWR"),
    (KERNELS, "intel|gnu|sequential|tbb|pgi", "MKL_THREADING_LAYER"),
    (KERNELS, BLAS_CORES, "OPENBLAS_CORETYPE BLIS_ARCH_TYPE"),
    (KERNELS, "generic|avx2|avx512|avx512vnni", "SAMEBITS_MAX_ISA"),
    (
        KERNELS,
        rf"({NUMPY_ISAS})([, ]{{1,2}}({NUMPY_ISAS})){{0,39}}",
        "NPY_DISABLE_CPU_FEATURES NPY_ENABLE_CPU_FEATURES",
    ),
    (
        KERNELS,
        rf"glibc\.cpu\.hwcaps=[-+]?({LIBC_ISAS})(,[-+]?({LIBC_ISAS})){{0,31}}",
        "GLIBC_TUNABLES",
    ),
    (KERNELS, r"\d{1,9}", "OPENBLAS_L2_SIZE OPENBLAS_BLOCK_FACTOR"),
    (KERNELS, r":\d{1,6}:\d{1,4}(:\d{1,6}:\d{1,4}){0,3}", "CUBLAS_WORKSPACE_CONFIG"),
    (
        KERNELS,
        FLAG,
        "NVIDIA_TF32_OVERRIDE TORCH_ALLOW_TF32_CUBLAS_OVERRIDE TORCH_COMPILE_DISABLE "
        "TORCHDYNAMO_DISABLE TORCHINDUCTOR_MAX_AUTOTUNE TORCHINDUCTOR_MAX_AUTOTUNE_GEMM "
        "TORCHINDUCTOR_MAX_AUTOTUNE_POINTWISE TORCHINDUCTOR_FREEZING TORCHINDUCTOR_DETERMINISTIC "
        "TORCHINDUCTOR_BATCH_INVARIANT FORCE_DETERMINISTIC FORCE_ATTENTION_KERNEL_DETERMINISTIC "
        "FORCE_ALL_REDUCE_DETERMINISTIC FORCE_MOE_KERNEL_DETERMINISTIC "
        "TRTLLM_MOE_DISABLE_FINALIZE_FUSION VLLM_CPU_ATTN_SPLIT_KV VLLM_ENABLE_V1_MULTIPROCESSING "
        "TORCH_BLAS_PREFER_CUBLASLT PYTORCH_JIT VLLM_BATCH_INVARIANT VLLM_CPU_SGL_KERNEL "
        "VLLM_CPU_MOE_PREPACK VLLM_USE_V1 VLLM_USE_FLASHINFER_SAMPLER VLLM_USE_DEEP_GEMM "
        "FLASH_ATTENTION_DETERMINISTIC NVTE_ALLOW_NONDETERMINISTIC_ALGO TF_DETERMINISTIC_OPS "
        "TF_CUDNN_DETERMINISTIC TF_ENABLE_ONEDNN_OPTS JAX_ENABLE_X64 GGML_CUDA_FORCE_MMQ "
        "GGML_CUDA_FORCE_CUBLAS",
    ),
    (
        KERNELS,
        "default|fastest|highest|high|float32|tensorfloat32|bfloat16(_3x)?",
        "JAX_DEFAULT_MATMUL_PRECISION",
    ),
    (KERNELS, "highest|high|medium", "VLLM_FLOAT32_MATMUL_PRECISION"),
    (KERNELS, ATTENTIONS, "VLLM_ATTENTION_BACKEND"),
    (KERNELS, f"{XLA_FLAG}( {XLA_FLAG}){{0,7}}", "XLA_FLAGS"),
    (KERNELS, f"{FLAG}|auto|enabled|disabled", "LLAMA_ARG_FLASH_ATTN LLAMA_ARG_CACHE_PROMPT"),
    (SPLITS, r"-?\d{1,9}", "LLAMA_ARG_N_PARALLEL LLAMA_ARG_THREADS"),
    (KERNELS, r"-?\d{1,9}", "LLAMA_ARG_CACHE_RAM LLAMA_ARG_CACHE_REUSE"),
    (KERNELS, "ring|tree|collnetdirect|collnetchain|nvls|nvlstree|pat", "NCCL_ALGO"),
    (KERNELS, r"\^?(ll|ll128|simple)(,(ll|ll128|simple)){0,2}", "NCCL_PROTO"),
    ("", r"random|\d{1,10}", "PYTHONHASHSEED"),
    ("", f"{FLAG}|close|spread|primary|master", "OMP_PROC_BIND"),
    ("", rf"(threads|cores|sockets)(\(\d{{1,4}}\))?|{RANGES}", "OMP_PLACES GOMP_CPU_AFFINITY"),
    ("", "active|passive", "OMP_WAIT_POLICY"),
    ("", r"\d{1,9}|infinite|infinity", "KMP_BLOCKTIME GOMP_SPINCOUNT"),
    (
        "",
        "(granularity=(fine|core|thread),)?(compact|scatter|balanced|none)(,\\d){0,2}",
        "KMP_AFFINITY",
    ),
    ("", SIZE, "OMP_STACKSIZE VLLM_CPU_KVCACHE_SPACE"),
)
"""Rows of effect, shape and names."""
VARIABLES: Mapping[str, Variable] = {
    name: Variable(shape=shape, effect=effect)
    for effect, shape, names in TABLE
    for name in names.split()
}
"""Name to what is known of it; LD_PRELOAD besides, of which only names of libraries are read."""
LIBRARY = r"lib[A-Za-z0-9_+-]{1,40}\.(so|dylib)(\.\d{1,4}){0,4}"


def select_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Give those that steer numbers and are set, in order of name.

    Returns:
        Values as they stand; `HIDDEN` for one that its variable would not take.
    """
    return dict(sorted(list_set(variables)))


def list_set(variables: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """List those that steer numbers and are set."""
    for name, variable in VARIABLES.items():
        if text := variables.get(name, ""):
            fits = re.fullmatch(variable.shape, text, re.ASCII | re.IGNORECASE)
            yield name, text if fits else HIDDEN
    if text := variables.get("LD_PRELOAD", ""):
        yield "LD_PRELOAD", spell_preload(text)


def spell_preload(text: str) -> str:
    """Give the names of preloaded libraries without their folders, which may tell of a user."""
    names = [part.rpartition("/")[2] for part in re.split(r"[:\s]+", text) if part]
    return " ".join(name if re.fullmatch(LIBRARY, name, re.ASCII) else HIDDEN for name in names)
