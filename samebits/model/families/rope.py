"""RoPE settings of both kinds of file, in their old and new spellings.

Refuses every scaling but none, linear and llama3.
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from samebits.errors import ConfigError
from samebits.model.config import RopeConfig
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource

DEFAULT_THETA = 10000.0
"""The base where a file names none."""

# Llama 3.1, 3.2 and 3.3 all have these; a GGUF file does not say them.
_LLAMA3_LOW, _LLAMA3_HIGH, _LLAMA3_CONTEXT = 1.0, 4.0, 8192
_GGUF_FACTORS = "rope_freqs.weight"


def rope_from_folder(settings: Settings, theta: float = DEFAULT_THETA) -> RopeConfig:
    """Take the RoPE settings of a config.json whose layers are all of one kind.

    Raises:
        ConfigError: The scaling is not implemented, or a setting of it is unknown.
    """
    settings.require("partial_rotary_factor", 1.0)
    settings.require("rope_interleaved", False)
    theta = settings.take_float("rope_theta", theta)
    new = settings.take_settings("rope_parameters")
    old = settings.take_settings("rope_scaling")
    if new is not None and old is not None:
        raise ConfigError(
            expected=f"rope_parameters or rope_scaling in {settings.where}", found="both"
        )
    part = new or old
    return RopeConfig(theta=theta) if part is None else rope_from_part(part, theta)


def rope_from_part(part: Settings, theta: float) -> RopeConfig:
    """Take all settings of one rope_parameters or rope_scaling mapping.

    Raises:
        ConfigError: The scaling is not implemented, or a setting of it is unknown.
    """
    theta = part.take_float("rope_theta", theta)
    part.require("partial_rotary_factor", 1.0)
    old_name = part.take_text("type", "default")
    scaling = part.take_text("rope_type", old_name)
    if scaling in ("default", "none"):
        rope = RopeConfig(theta=theta)
    elif scaling == "linear":
        rope = RopeConfig(theta=theta, scaling="linear", factor=part.take_float("factor"))
    elif scaling == "llama3":
        rope = _llama3_from_part(part, theta)
    else:
        raise ConfigError(
            expected=f"default, linear or llama3 as rope_type in {part.where}", found=scaling
        )
    part.check_all_taken()
    return rope


def _llama3_from_part(part: Settings, theta: float) -> RopeConfig:
    low = part.take_float("low_freq_factor")
    high = part.take_float("high_freq_factor")
    if not low < high:
        raise ConfigError(
            expected=f"low_freq_factor below high_freq_factor in {part.where}",
            found=f"{low} and {high}",
        )
    return RopeConfig(
        theta=theta,
        scaling="llama3",
        factor=part.take_float("factor"),
        low_freq_factor=low,
        high_freq_factor=high,
        original_context=part.take_int("original_max_position_embeddings"),
    )


def rope_from_gguf(
    settings: Settings,
    tensors: Mapping[str, RowSource],
    head_dim: int,
    theta: float = DEFAULT_THETA,
) -> RopeConfig:
    """Take the RoPE settings of GGUF metadata, and of the tensor that stands for llama3 scaling.

    Raises:
        ConfigError: The scaling is not implemented.
    """
    settings.require("rope.dimension_count", head_dim)
    settings.require("rope.scaling.finetuned", False, True)
    settings.take("rope.scaling.original_context_length")
    theta = settings.take_float("rope.freq_base", theta)
    settings.require("rope.scaling.type", "none", "linear")
    is_linear = settings.take("rope.scaling.type") == "linear"
    old_factor = settings.take_float("rope.scale_linear", 1.0)
    factor = settings.take_float("rope.scaling.factor", old_factor)
    has_type = settings.take("rope.scaling.type") is not None
    if factor != 1.0 and ((has_type and not is_linear) or _GGUF_FACTORS in tensors):
        raise ConfigError(
            expected=f"rope.scaling.factor 1 without linear scaling in {settings.where}",
            found=str(factor),
            remedy="The file contradicts itself: name linear as rope.scaling.type, or no factor.",
        )
    if _GGUF_FACTORS in tensors:
        return _llama3_from_factors(tensors[_GGUF_FACTORS], head_dim, theta, is_linear)
    if factor == 1.0:
        return RopeConfig(theta=theta)
    return RopeConfig(theta=theta, scaling="linear", factor=factor)


def _llama3_from_factors(
    source: RowSource, head_dim: int, theta: float, is_linear: bool
) -> RopeConfig:
    """Find the llama3 scaling whose divisors the file lists.

    The converter writes one divisor per frequency and forgets the settings they came from.
    """
    if is_linear or source.shape != (1, head_dim // 2):
        raise ConfigError(
            expected=f"{_GGUF_FACTORS} of {head_dim // 2} factors and no other RoPE scaling",
            found=f"shape {source.shape}" + (" and linear scaling" if is_linear else ""),
        )
    found = source.read_rows(0, 1)[0].astype(np.float64)
    rope = RopeConfig(
        theta=theta,
        scaling="llama3",
        factor=float(found.max()),
        low_freq_factor=_LLAMA3_LOW,
        high_freq_factor=_LLAMA3_HIGH,
        original_context=_LLAMA3_CONTEXT,
    )
    # The converter computes in float32: some 1e-6 apart, where a wrong setting is 1e-2 apart.
    if not np.allclose(found, llama3_factors(rope, head_dim), rtol=1e-4, atol=0):
        raise ConfigError(
            expected=f"{_GGUF_FACTORS} of llama3 scaling from {_LLAMA3_CONTEXT} tokens",
            found="other factors",
            remedy="Use the safetensors folder of this model: its config.json has the settings.",
        )
    return rope


def llama3_factors(rope: RopeConfig, head_dim: int) -> NDArray[np.float64]:
    """Compute the divisor of each frequency under llama3 scaling, (head_dim / 2,).

    Only to recognise the factors of a GGUF file; the tables come from numerics/rope.py.
    """
    frequencies = rope.theta ** -(np.arange(0, head_dim, 2, dtype=np.float64) / head_dim)
    turns = rope.original_context * frequencies / (2 * math.pi)
    low, high = rope.low_freq_factor, rope.high_freq_factor
    smooth = np.clip((turns - low) / (high - low), 0.0, 1.0)
    factors: NDArray[np.float64] = 1.0 / ((1.0 - smooth) / rope.factor + smooth)
    return factors
