"""How large the engine's pool and steps are. They reach speed and refusals, never bits."""

from dataclasses import dataclass

from samebits.errors import ConfigError
from samebits.model.config import ModelConfig
from samebits.numerics.values import PANEL

KV_BYTES = 2**30
"""Default size of the key-value pool, whatever memory the machine has."""
MAX_SIZE = 2**30
"""Largest size of anything here: more is a slip of the keyboard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes of the pool and of one step."""

    page_tokens: int = 64
    """Tokens a page; a multiple of 16."""
    kv_tokens: int
    """Tokens the pool holds; rounded down to whole pages."""
    max_rows: int = 256
    """Most tokens computed in one step."""
    chunk_tokens: int = 256
    """Most tokens of one sequence computed in one step."""
    max_batch: int = 32
    """Most sequences running at once."""

    def __post_init__(self) -> None:
        for name in ("page_tokens", "kv_tokens", "max_rows", "chunk_tokens", "max_batch"):
            value = getattr(self, name)
            is_integer = isinstance(value, int) and not isinstance(value, bool)
            if not is_integer or not 1 <= value <= MAX_SIZE:
                raise ConfigError(expected=f"{name} from 1 to {MAX_SIZE}", found=repr(value))
        if self.page_tokens % PANEL:
            raise ConfigError(
                expected=f"page_tokens a multiple of {PANEL}", found=str(self.page_tokens)
            )
        if self.kv_tokens < self.page_tokens:
            raise ConfigError(
                expected=f"kv_tokens >= page_tokens ({self.page_tokens})",
                found=str(self.kv_tokens),
            )

    @property
    def num_pages(self) -> int:
        """Pages in the pool."""
        return self.kv_tokens // self.page_tokens


def default_kv_tokens(config: ModelConfig, *, max_batch: int, page_tokens: int) -> int:
    """Size the pool: 1 GiB of sb1 keys and values, at most `max_batch` contexts, at least a page.

    A token costs, a layer and key-value head, two rows of int16 and two int16 exponents. Memory is
    touched only as pages are first used, lowest first.
    """
    token_bytes = config.num_layers * config.num_kv_heads * (4 * config.head_dim + 4)
    tokens = min(KV_BYTES // token_bytes, max_batch * config.context_len)
    return max(tokens, page_tokens)
