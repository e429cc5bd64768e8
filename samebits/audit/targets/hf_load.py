"""Loading a transformers model, and what is then known of it. Runs in the worker only."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from samebits.audit.condition import Process
from samebits.audit.target import TargetFacts
from samebits.audit.targets.hf import ATTENTIONS, DTYPES, HfSettings, check_folder
from samebits.errors import ConfigError, ModelFileError, TargetError
from samebits.remedies.batch import list_stop_ids

COMPILERS = ("c++", "g++", "clang++")
READ_BYTES = 1 << 20
LEVELS = ("default", "avx2", "avx512")
"""Of ATEN_CPU_CAPABILITY, lowest first."""
REPORTS = ("text", "token_ids", "steps", "margins", "logprobs")

_FOREIGN = (OSError, ValueError, KeyError, TypeError, AttributeError, RuntimeError, SafetensorError)
"""What transformers raises on a folder that it cannot load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model that is ready, with all that was decided on the way."""

    model: Any
    tokenizer: Any
    stop_ids: frozenset[int]
    pad_id: int
    settings: HfSettings
    process: Process
    facts: TargetFacts


def load(settings: HfSettings, process: Process) -> Loaded:
    """Load a model and its tokenizer for one process.

    Raises:
        ConfigError: There is no such folder, or a setting is impossible.
        ModelFileError: transformers cannot load it.
        TargetError: It loads, but not for a process like this.
    """
    folder = check_folder(settings.path)
    threads = process.threads or settings.threads
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        model = load_model(settings, process)
    except ModelFileError as error:
        if process == Process():
            raise
        raise TargetError(expected=error.expected, found=error.found) from error
    tokenizer = translate(AutoTokenizer.from_pretrained, folder, local_files_only=True)
    stop_ids = list_stop_ids(model)
    if process.compile:
        model.compile(dynamic=True)
    return Loaded(
        model=model,
        tokenizer=tokenizer,
        stop_ids=frozenset() if settings.ignore_eos else stop_ids,
        pad_id=next((x for x in (tokenizer.pad_token_id, *sorted(stop_ids)) if x is not None), 0),
        settings=settings,
        process=process,
        facts=make_facts(settings, process, model, tokenizer),
    )


def load_model(settings: HfSettings, process: Process) -> Any:
    """Load the weights in the dtype and with the attention that are asked for."""
    dtype = process.dtype or settings.dtype
    attention = process.attention or settings.attention
    for value, known in ((dtype, (*DTYPES, None)), (attention, ATTENTIONS)):
        if value not in known:
            names = ", ".join(str(name) for name in known if name)
            raise ConfigError(expected=f"one of {names}", found=repr(value))
    model = translate(
        AutoModelForCausalLM.from_pretrained,
        settings.path,
        dtype=getattr(torch, dtype) if dtype else read_dtype(settings.path),
        attn_implementation=attention,
        local_files_only=True,
    )
    return model.eval()


def read_dtype(path: str) -> torch.dtype:
    """Read the dtype that a folder's configuration names; float32 if it names none."""
    config = translate(AutoConfig.from_pretrained, path, local_files_only=True)
    named = getattr(config, "dtype", None)
    return named if isinstance(named, torch.dtype) else torch.float32


def translate(load_it: Any, path: str | Path, **options: Any) -> Any:
    """Call a loader of transformers, whose errors become ours."""
    try:
        return load_it(path, **options)
    except _FOREIGN as error:
        raise ModelFileError(
            expected=f"a model that transformers {transformers.__version__} loads",
            found=f"{type(error).__name__}: {error}",
        ) from error


def make_facts(settings: HfSettings, process: Process, model: Any, tokenizer: Any) -> TargetFacts:
    """Say what is in force, and what could be tried instead."""
    dtype = str(model.dtype).removeprefix("torch.")
    attention = str(model.config._attn_implementation)
    level = torch.backends.cpu.get_cpu_capability().lower()
    threads = torch.get_num_threads()
    no_compile = explain_no_compile(settings)
    return TargetFacts(
        kind="hf",
        name=settings.name or settings.path,
        in_force=describe(model, tokenizer)
        | {"dtype": dtype, "attention": attention, "threads": threads, "level": level}
        | {"ignore_eos": settings.ignore_eos, "compile": process.compile}
        | ({"no_compile": no_compile} if no_compile else {})
        | ({"files": digest_files(Path(settings.path))} if process == Process() else {})
        | {"variables_without_effect": list_idle_variables()},
        reports=REPORTS,
        dtypes=tuple(x for x in ("float32", "bfloat16") if x != dtype),
        attentions=tuple(x for x in ("eager", "sdpa") if x != attention),
        isas=LEVELS[: LEVELS.index(level)] if level in LEVELS else (),
        threads=tuple(x for x in dict.fromkeys((1, max(2, threads // 2))) if x != threads),
        variables=list_variables(level),
        can_compile=not no_compile,
    )


def describe(model: Any, tokenizer: Any) -> dict[str, Any]:
    """Describe the model and the libraries."""
    return {
        "model": type(model).__name__,
        "layers": model.config.get_text_config().num_hidden_layers,
        "vocabulary": model.config.get_text_config().vocab_size,
        "chat_template": bool(tokenizer.chat_template),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "mkl": has_mkl(),
        "onednn": has_onednn(),
        "seeding": "torch's one generator, seeded once for each call",
    }


def has_mkl() -> bool:
    """Answer whether this torch is built with MKL."""
    return bool(torch.backends.mkl.is_available())  # type: ignore[no-untyped-call]


def has_onednn() -> bool:
    """Answer whether this torch is built with oneDNN."""
    return bool(torch.backends.mkldnn.is_available())  # type: ignore[no-untyped-call]


def explain_no_compile(settings: HfSettings) -> str:
    """Say why the compile axis is not tried; empty if it can be."""
    if not settings.compile:
        return "compiling takes minutes and was not asked for"
    if not any(shutil.which(name) for name in COMPILERS):
        return "there is no C++ compiler"
    return ""


def list_variables(level: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """List the settings of variables that can act on this build of torch."""
    offers: list[tuple[str, str]] = []
    if has_mkl():
        offers += [("MKL_CBWR", "COMPATIBLE"), ("MKL_CBWR", "AVX2")]
    if has_onednn():
        lower = ["AVX2"] if level == "avx512" else []
        offers += [("ONEDNN_MAX_CPU_ISA", isa) for isa in ("SSE41", *lower)]
    return tuple((offer,) for offer in offers)


def list_idle_variables() -> Mapping[str, str]:
    """Say of the variables that are not tried why they could not act."""
    idle = {"OPENBLAS_CORETYPE": "torch does not use OpenBLAS here"}
    if not has_mkl():
        idle = {"MKL_CBWR": "this torch is built without MKL"}
    if not has_onednn():
        idle["ONEDNN_MAX_CPU_ISA"] = "this torch is built without oneDNN"
    return idle


def digest_files(folder: Path) -> dict[str, str]:
    """Digest the files that make the model what it is."""
    kinds = {".json", ".safetensors", ".bin", ".model", ".jinja"}
    files = sorted(x for x in folder.iterdir() if x.suffix in kinds and x.is_file())
    return {file.name: digest_file(file) for file in files}


def digest_file(file: Path) -> str:
    """Digest one file."""
    digest = hashlib.sha256()
    with open(file, "rb") as stream:
        while part := os.read(stream.fileno(), READ_BYTES):
            digest.update(part)
    return f"sha256:{digest.hexdigest()}"
