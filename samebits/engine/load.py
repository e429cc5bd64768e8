"""From a model's name to an engine: arithmetic, weights, limits.

The one place where the engine meets files and processors.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from samebits.engine.engine import Engine
from samebits.engine.limits import Limits, default_kv_tokens
from samebits.errors import ConfigError
from samebits.model.decoder import Decoder
from samebits.model.files import open_model
from samebits.model.source import resolve_model
from samebits.numerics.select import select_arithmetic

BITS = {"w16": 16, "w8": 8}


def load_engine(
    model: str | Path,
    *,
    weights: str,
    arithmetic: str,
    threads: int | None,
    kernels: str,
    max_isa: str | None,
    kv_tokens: int | None,
    cache_dir: Path | None,
    progress: Callable[[float], None] | None,
    **sizes: Any,
) -> Engine:
    """Load a model: see `Engine.load`."""
    bits = read_bits(weights, arithmetic)
    files = open_model(resolve_model(str(model), cache_dir))
    chosen = select_arithmetic(
        arithmetic,
        bits=bits,
        threads=threads,
        max_isa=max_isa,
        kernels=kernels,
    )
    if kv_tokens is None:
        kv_tokens = default_kv_tokens(
            files.config, max_batch=sizes["max_batch"], page_tokens=sizes["page_tokens"]
        )
    limits = Limits(kv_tokens=kv_tokens, **sizes)
    return Engine(
        Decoder(files.config, files.tensors, chosen, progress),
        files.tokenizer,
        limits=limits,
        template=files.template,
        file_digest=lambda: files.file_digest,
    )


def read_bits(weights: str, arithmetic: str) -> int:
    """Turn w16 or w8 into bits.

    Raises:
        ConfigError: Another name, or w8 with an arithmetic that quantises nothing.
    """
    if weights not in BITS:
        raise ConfigError(expected="weights w16 or w8", found=repr(weights))
    if weights == "w8" and arithmetic != "sb1":
        raise ConfigError(
            expected="weights w8 with the arithmetic sb1 only", found=f"w8 with {arithmetic}"
        )
    return BITS[weights]
