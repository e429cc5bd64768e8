"""What our engine says of itself to an audit, and what else it offers to try on this machine."""

import platform
from importlib.metadata import version
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

from samebits.audit.target import TargetFacts
from samebits.audit.targets.engine import EngineSettings
from samebits.audit.targets.processor import refuse_variables
from samebits.engine import Engine
from samebits.lock.processor import read_cpu_flags
from samebits.numerics.choice import Choice
from samebits.numerics.native.kernels import find_library
from samebits.numerics.plain import PRECISIONS
from samebits.numerics.select import count_processors, describe_choice, list_allowed
from samebits.numerics.threads import BlasThreads
from samebits.record.receipt import CONTRACT

MAX_CONCURRENCY = 16
MAX_LOGPROBS = 20
THREADS = (1, 2, 4)
"""Tried, as far as there are processors; two always, since the bits may depend on the split."""
DTYPES = {
    "plain-f32": ("plain-bf16", "plain-f64"),
    "plain-bf16": ("plain-f32", "plain-f64"),
    "plain-f64": ("plain-bf16", "plain-f32"),
}
CORE_TYPES = ("Nehalem", "Sandybridge", "Haswell", "SkylakeX")
"""OpenBLAS's kernels for one processor after the other, plainest first."""
NUMPY_SWITCH = "NPY_DISABLE_CPU_FEATURES"
CORE_SWITCH = "OPENBLAS_CORETYPE"
THREADS_SWITCH = "OPENBLAS_NUM_THREADS"

Variables = tuple[tuple[tuple[str, str], ...], ...]


def describe_engine(engine: Engine, settings: EngineSettings) -> TargetFacts:
    """Say what is in force and what can be tried besides."""
    arithmetic = engine.decoder.arithmetic
    choice = describe_choice(arithmetic)
    return TargetFacts(
        kind="engine",
        name=settings.name or settings.model,
        in_force=list_in_force(engine, choice, settings),
        reports=("text", "token_ids", "steps", "margins", "logprobs"),
        dtypes=DTYPES.get(arithmetic.name, ()),
        isas=list_isas(choice, settings.max_isa),
        threads=list_threads(choice),
        variables=list_variables() if choice.kernels in ("numpy", "portable") else (),
        max_concurrency=MAX_CONCURRENCY,
        max_logprobs=MAX_LOGPROBS,
    )


def list_in_force(engine: Engine, choice: Choice, settings: EngineSettings) -> dict[str, Any]:
    """List the settings in force, by name."""
    arithmetic, identity = engine.decoder.arithmetic, engine.identity
    is_plain = arithmetic.name in PRECISIONS
    return {
        "arithmetic": arithmetic.name,
        "contract": None if is_plain else CONTRACT,
        "weights": None if is_plain else settings.weights,
        "threads": choice.threads,
        "kernels": choice.kernels,
        "level": choice.level,
        "weight_file": identity.weight_file,
        "weights_digest": identity.weights,
        "tokenizer": identity.tokenizer,
        "template": identity.template,
        "ignore_eos": settings.ignore_eos,
        "version": version("samebits"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": describe_blas(),
    }


def describe_blas() -> str | None:
    """Name NumPy's BLAS, its version and its kernels in force; None: none that is known."""
    for library in list_blas():
        words = (library.get("internal_api"), library.get("version"), library.get("architecture"))
        return " ".join(str(word) for word in words if word)
    return None


def list_blas() -> list[dict[str, Any]]:
    """List the BLAS libraries of this process."""
    return [library for library in threadpool_info() if library["user_api"] == "blas"]


def list_isas(choice: Choice, max_isa: str | None) -> tuple[str, ...]:
    """List the other levels that run here, and NumPy alone; none under a plain arithmetic."""
    if choice.kernels != "native" or find_library() is None:
        return ()
    levels = [level for level in list_allowed(max_isa) if level != choice.level]
    return (*levels, "portable")


def list_threads(choice: Choice) -> tuple[int, ...]:
    """List other thread counts that really come into force."""
    most = max(2, count_processors())
    wanted = sorted({*(n for n in THREADS if n <= most), most} - {choice.threads})
    if choice.kernels == "native":
        return tuple(wanted)
    try:
        return tuple(n for n in wanted if BlasThreads(n).apply() == n)
    finally:
        BlasThreads(choice.threads).apply()


def list_variables() -> Variables:
    """List settings of environment variables that steer NumPy's kernels on this processor."""
    blas = [library for library in list_blas() if library["internal_api"] == "openblas"]
    settings: list[tuple[str, str]] = []
    if blas:
        in_force, flags = blas[0].get("architecture"), read_cpu_flags()
        others = [(CORE_SWITCH, name) for name in CORE_TYPES if name != in_force]
        settings += [other for other in others if not refuse_variables([other], flags)]
    if features := list_features():
        settings.append((NUMPY_SWITCH, " ".join(features)))
    if blas:
        settings.append((THREADS_SWITCH, "1"))
    return tuple((setting,) for setting in settings)


def list_features() -> list[str]:
    """List the processor features that NumPy found and can do without."""
    config = np.show_config(mode="dicts") or {}
    return sorted(config.get("SIMD Extensions", {}).get("found", ()))
