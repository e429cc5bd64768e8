"""What the mathematics of a decoder needs to know, whatever file it came from.

A family file (families/) turns GGUF metadata or a Hugging Face config.json into one of these, and
refuses every key that would change the mathematics and is not implemented here.
"""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from samebits.errors import ConfigError

MAX_CONTEXT_TOKENS = 1 << 20
"""More is refused: the RoPE tables alone would fill gigabytes."""

_LEAST_BINARY32 = 2.0**-126
_MOST_BINARY32 = (2.0 - 2.0**-23) * 2.0**127


class Activation(Enum):
    """The function applied to the gate half of a gated feed-forward block."""

    SILU = "silu"
    GELU_TANH = "gelu_tanh"


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """Rotary position embedding of one kind of layer."""

    theta: float
    """Base of the geometric sequence of wavelengths."""
    scaling: str = "none"
    """none, linear or llama3."""
    factor: float = 1.0
    """Stretch of the wavelengths (linear), or of the long ones (llama3)."""
    low_freq_factor: float = 1.0
    """llama3 only."""
    high_freq_factor: float = 4.0
    """llama3 only."""
    original_context: int = 0
    """llama3 only: context length before stretching, in tokens."""

    def __post_init__(self) -> None:
        """Check what no mathematics makes sense without.

        Raises:
            ConfigError: A number is outside the range of binary32, or theta is not above 1.
        """
        _check_range("rope theta", self.theta, above=1.0)
        for name in ("factor", "low_freq_factor", "high_freq_factor"):
            _check_range(f"rope {name}", getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A decoder-only transformer."""

    family: str
    """llama, mistral, qwen2, qwen3 or gemma3."""
    num_layers: int
    width: int
    """Residual width D."""
    num_heads: int
    num_kv_heads: int
    head_dim: int
    ffn_width: int
    vocab_size: int
    context_len: int
    """Longest supported sequence, in tokens."""
    norm_eps: float
    activation: Activation
    rope: RopeConfig
    """RoPE of global layers."""
    rope_local: RopeConfig | None = None
    """RoPE of sliding-window layers; None means the same as rope."""
    window_tokens: int = 0
    """Sliding window: a row at position p sees positions > p - window_tokens. 0: no window."""
    window_layers: tuple[bool, ...] = ()
    """Per layer, whether the window applies; empty means on no layer."""
    attention_scale: float = 0.0
    """Factor on q·k; family files always set it (usually head_dim ** -0.5)."""
    embedding_scale: float = 1.0
    """Factor on embeddings, already rounded to the precision the family trained with."""
    attention_bias: bool = False
    """q, k and v have biases (Qwen 2)."""
    qk_norm: bool = False
    """RMSNorm on each head of q and k before RoPE (Qwen 3, Gemma 3)."""
    post_norms: bool = False
    """RMSNorm after attention and after the feed-forward block too (Gemma 3)."""
    tied_head: bool = True
    """The output matrix is the embedding matrix."""

    def __post_init__(self) -> None:
        """Check the numbers that the tensors of a file do not confirm.

        Raises:
            ConfigError: One is outside the range of binary32 or beyond reason; names it.
        """
        _check_range("norm_eps", self.norm_eps, most=1.0)
        _check_range("attention_scale", self.attention_scale)
        _check_range("embedding_scale", self.embedding_scale)
        if not 1 <= self.context_len <= MAX_CONTEXT_TOKENS:
            raise ConfigError(
                expected=f"a context length from 1 to {MAX_CONTEXT_TOKENS} tokens",
                found=str(self.context_len),
                remedy="If the model is right, lower the context length in its config: "
                "max_position_embeddings of config.json, context_length of a GGUF file.",
            )

    def describe(self) -> dict[str, Any]:
        """Give every field as plain JSON values, for a digest."""
        fields = asdict(self)
        fields["activation"] = self.activation.value
        fields["window_layers"] = list(self.window_layers)
        return fields


def _check_range(
    name: str, value: float, *, above: float = 0.0, most: float = _MOST_BINARY32
) -> None:
    if not max(above, _LEAST_BINARY32) <= value <= most or value == above:
        bound = f"above {above:g}" if above else f"from {_LEAST_BINARY32:.3g}"
        raise ConfigError(
            expected=f"{name} {bound}, up to {most:.3g}",
            found=repr(value),
            remedy="The model's config is damaged.",
        )
