"""What a family is to the rest of the package, and the names its tensors have in files.

Canonical names are those of layers.py; a GGUF and a Hugging Face file each have their own.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from samebits.model.config import ModelConfig
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family of architectures."""

    name: str
    from_gguf: Callable[[Settings, Mapping[str, RowSource]], ModelConfig]
    """Settings without the architecture's prefix, and the file's tensors, to a config."""
    from_folder: Callable[[Settings], ModelConfig]
    """The settings of config.json to a config."""
    folder_names: Mapping[str, str]
    """Canonical name within a layer -> name in a Hugging Face folder."""
    gguf_halves_rows: bool = False
    """In GGUF the rows of q and k are in pairs (matrix.HalvedRows)."""
    folder_norms_less_one: bool = False
    """In a Hugging Face folder norm weights are stored as their distance from one."""


GGUF_TOP = {"embed": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
FOLDER_TOP = {
    "embed": "model.embed_tokens.weight",
    "norm": "model.norm.weight",
    "head": "lm_head.weight",
}

GGUF_LAYER = {
    "attn_norm": "attn_norm.weight",
    "q": "attn_q.weight",
    "k": "attn_k.weight",
    "v": "attn_v.weight",
    "o": "attn_output.weight",
    "q_bias": "attn_q.bias",
    "k_bias": "attn_k.bias",
    "v_bias": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "attn_post_norm": "post_attention_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
    "ffn_post_norm": "post_ffw_norm.weight",
}

FOLDER_LAYER = {
    "attn_norm": "input_layernorm.weight",
    "q": "self_attn.q_proj.weight",
    "k": "self_attn.k_proj.weight",
    "v": "self_attn.v_proj.weight",
    "o": "self_attn.o_proj.weight",
    "q_bias": "self_attn.q_proj.bias",
    "k_bias": "self_attn.k_proj.bias",
    "v_bias": "self_attn.v_proj.bias",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}

NORM_NAMES = frozenset(
    {"norm", "attn_norm", "q_norm", "k_norm", "attn_post_norm", "ffn_norm", "ffn_post_norm"}
)
"""Canonical last parts of names that are norm weights."""
