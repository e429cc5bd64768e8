"""How two locks differ: each difference by name, with its severity and what it can change."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace

from samebits.errors import LockMismatch
from samebits.lock.asked import find_ignored
from samebits.lock.capture import PACKAGES
from samebits.lock.compare import (
    KERNELS,
    OTHER_BUILD,
    PACKAGE_EFFECTS,
    Difference,
    Severity,
    compare_machines,
    compare_maps,
    make_difference,
    package_effect,
    spell,
)
from samebits.lock.contents import Lock, ModelDigests, Package
from samebits.lock.variables import SPLITS

ORDER = tuple(Severity)
WEIGHTS = "another model"
TOKENS = "prompts may become other tokens"
PROBED = "this environment computes it otherwise: results of models move with it"
OTHER_CODE = "other code"
TORCH_EFFECTS: Mapping[str, str] = {
    "version": OTHER_BUILD,
    "capability": KERNELS,
    "threads": SPLITS,
    "interop_threads": "",
    "mkl_threads": SPLITS,
    "mkl": "other kernels",
    "onednn": "other kernels",
    "cuda": "other kernels",
    "deterministic": KERNELS,
    "matmul_precision": "products are rounded to fewer bits",
}
FLAG_EFFECT = "the engine batches, places or computes otherwise"
STEERING = frozenset(PACKAGES) | {
    *("flash-attn", "flashinfer-python", "xformers", "bitsandbytes", "intel-extension-for-pytorch"),
    *("mkl", "intel-openmp", "nvidia-cublas-cu12", "nvidia-cudnn-cu12", "nvidia-cuda-runtime-cu12"),
    *("torchao", "torchvision", "sgl-kernel", "auto-gptq", "autoawq", "compressed-tensors"),
    *("numba", "ctranslate2", "tensorrt", "tensorrt-llm", "sentencepiece", "tiktoken"),
}
"""Packages that are known to steer numbers or to make tokens; of others it is not known."""


def compare_locks(a: Lock, b: Lock) -> tuple[Difference, ...]:
    """List every difference by name, those that can move bits first."""
    found = [
        *compare_machines(replace(a.machine, packages={}), replace(b.machine, packages={})),
        *compare_one("gpus", list_gpu_names(a), list_gpu_names(b), KERNELS),
        *compare_packages(a.packages, b.packages),
        *compare_torch(a, b),
        *compare_maps("probe", a.probe, b.probe, lambda _: PROBED),
        *compare_one("lacks", a.lacks, b.lacks, "the probe sees another part of the environment"),
        *compare_one("threads", a.threads, b.threads, SPLITS),
        *compare_models(a.model, b.model),
        *compare_flags(a, b),
        *compare_git(a, b),
    ]
    return tuple(sorted(found, key=lambda item: ORDER.index(item.severity)))


def check_lock(locked: Lock, now: Lock) -> None:
    """Refuse an environment that is not the locked one, or ignores what it is asked.

    Args:
        now: As `capture_lock` gives it, of the same model, flags and threads.
    Raises:
        LockMismatch: Its `differences` name each.
    """
    ignored, found = find_ignored(now), compare_locks(locked, now)
    told = [f"{x.field}: {x.a}, in force {x.b}" for x in ignored]
    told += [f"{x.field}: {x.a}, now {x.b}" for x in found]
    if told:
        raise LockMismatch(
            expected="the locked environment, with all that is asked in force",
            found="; ".join(told)[:2000],
            remedy="Restore what differs, or make a new lock.",
            differences=(*ignored, *found),
        )


def is_excepted(item: Difference, names: Iterable[str]) -> bool:
    """Answer whether a difference is one of those named, or lies below one."""
    return any(item.field == name or item.field.startswith(f"{name}.") for name in names)


def list_gpu_names(lock: Lock) -> tuple[str, ...]:
    """Spell the graphics processors."""
    spelled = (f"{x.name}, driver {x.driver or '?'}, {x.capability or '?'};" for x in lock.gpus)
    return tuple(spelled) or ("none",)


def compare_one(field: str, a: object, b: object, effect: str) -> Iterator[Difference]:
    """Compare one value."""
    if a != b:
        yield make_difference(field, a, b, effect)


def compare_packages(a: Mapping[str, Package], b: Mapping[str, Package]) -> Iterator[Difference]:
    """Compare packages: version first, then what the wheel held and where it came from."""
    for name in sorted(a.keys() | b.keys()):
        one, other = a.get(name), b.get(name)
        if one is None or other is None:
            versions = one and one.version, other and other.version
            yield judge_package(name, f"packages.{name}", *versions)
            continue
        for part in ("version", "record", "origin"):
            old, new = getattr(one, part), getattr(other, part)
            if old != new:
                label = f"packages.{name}" + ("" if part == "version" else f".{part}")
                yield judge_package(name, label, old, new)


def judge_package(name: str, field: str, a: object, b: object) -> Difference:
    """Say what another package can do, as far as that is known."""
    if name in PACKAGE_EFFECTS or name in STEERING:
        return make_difference(field, a, b, package_effect(name))
    return Difference(
        field=field,
        a=spell(a),
        b=spell(b),
        severity=Severity.UNKNOWN,
        effect="not known to steer numbers, nor known not to",
    )


def compare_torch(a: Lock, b: Lock) -> Iterator[Difference]:
    """Compare what PyTorch is built with and has in force."""
    if a.torch is None or b.torch is None:
        versions = a.torch and a.torch.version, b.torch and b.torch.version
        yield from compare_one("torch", *versions, TORCH_EFFECTS["version"])
        return
    for field in fields(a.torch):
        one, other = getattr(a.torch, field.name), getattr(b.torch, field.name)
        yield from compare_one(f"torch.{field.name}", one, other, TORCH_EFFECTS[field.name])


def compare_models(a: ModelDigests | None, b: ModelDigests | None) -> Iterator[Difference]:
    """Compare models: files by name, then tokenizer and template."""
    if a is None or b is None:
        names = a and "digests of a model", b and "digests of a model"
        yield from compare_one("model", *names, WEIGHTS)
        return
    yield from compare_maps("model.files", a.files, b.files, lambda _: WEIGHTS)
    yield from compare_one("model.tokenizer", a.tokenizer, b.tokenizer, TOKENS)
    yield from compare_one("model.template", a.template, b.template, TOKENS)


def compare_flags(a: Lock, b: Lock) -> Iterator[Difference]:
    """Compare settings of the engine."""
    if a.flags is None or b.flags is None:
        names = a.flags and "settings of an engine", b.flags and "settings of an engine"
        yield from compare_one("flags", *names, FLAG_EFFECT)
        return
    yield from compare_maps("flags", a.flags.values, b.flags.values, lambda _: FLAG_EFFECT)
    left_out = a.flags.num_left_out, b.flags.num_left_out
    yield from compare_one("flags.left_out", *left_out, "settings that are not on the list")


def compare_git(a: Lock, b: Lock) -> Iterator[Difference]:
    """Compare which code the folder holds."""
    if a.git is None or b.git is None:
        yield from compare_one("git", a.git and a.git.commit, b.git and b.git.commit, OTHER_CODE)
        return
    yield from compare_one("git.commit", a.git.commit, b.git.commit, OTHER_CODE)
    states = ("clean", "changed since the commit")
    yield from compare_one("git.state", states[a.git.is_dirty], states[b.git.is_dirty], OTHER_CODE)
