"""Settings that say nothing about the mathematics, and those all families share.

A key stands here only if transformers or llama.cpp compute the same with and without it.
"""

from collections.abc import Mapping

from samebits.errors import ConfigError
from samebits.model.settings import Settings
from samebits.model.tensor import RowSource

_TRAINING = frozenset({"attention_dropout", "hidden_dropout", "initializer_range", "use_cache"})
_TOKEN_IDS = frozenset({"bos_token_id", "eos_token_id", "pad_token_id"})
_ORIGIN = frozenset(
    {
        "_name_or_path",
        "_attn_implementation_autoset",
        "architectures",
        "cache_implementation",
        "dtype",
        "is_llama_config",
        "model_type",
        "torch_dtype",
        "torchscript",
        "transformers.js_config",
        "transformers_version",
        "unsloth_fixed",
        "unsloth_version",
        "use_bfloat16",
        "tf_legacy_loss",
    }
)
_OUTPUTS = frozenset(
    {
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "return_dict_in_generate",
        "output_scores",
        "chunk_size_feed_forward",
        "id2label",
        "label2id",
        "num_labels",
        "problem_type",
        "finetuning_task",
        "task_specific_params",
        "prefix",
        "tokenizer_class",
        "remove_invalid_values",
        "sep_token_id",
        "decoder_start_token_id",
    }
)
# Older configs carried the defaults of generation; none of them touches the logits.
_GENERATION = frozenset(
    {
        "bad_words_ids",
        "begin_suppress_tokens",
        "diversity_penalty",
        "do_sample",
        "early_stopping",
        "encoder_no_repeat_ngram_size",
        "exponential_decay_length_penalty",
        "forced_bos_token_id",
        "forced_eos_token_id",
        "length_penalty",
        "max_length",
        "min_length",
        "no_repeat_ngram_size",
        "num_beam_groups",
        "num_beams",
        "num_return_sequences",
        "repetition_penalty",
        "suppress_tokens",
        "temperature",
        "top_k",
        "top_p",
        "typical_p",
    }
)

HARMLESS_IN_FOLDER = _TRAINING | _TOKEN_IDS | _ORIGIN | _OUTPUTS | _GENERATION
"""Keys of config.json that no family needs to read."""

_KINDS = {"full_attention": False, "sliding_attention": True}


def check_folder(settings: Settings) -> None:
    """Refuse what is left in a config.json after a family has taken its settings.

    Raises:
        ConfigError: A key is unknown, or has a value that changes the mathematics.
    """
    for key in ("is_encoder_decoder", "add_cross_attention", "cross_attention_hidden_size"):
        settings.require(key, False)
    for key in ("is_decoder", "tie_encoder_decoder"):
        settings.require(key, False, True)
    settings.require("pruned_heads", {})
    settings.check_all_taken(HARMLESS_IN_FOLDER)


def take_window_layers(settings: Settings, num_layers: int) -> tuple[bool, ...] | None:
    """Take layer_types: per layer, whether a sliding window applies; None when absent.

    Raises:
        ConfigError: A layer is of another kind, or their number is wrong.
    """
    kinds = settings.take("layer_types")
    if kinds is None:
        return None
    is_list = isinstance(kinds, list)
    if not is_list or len(kinds) != num_layers or not all(_is_kind(kind) for kind in kinds):
        raise ConfigError(
            expected=f"{num_layers} layer_types of {' or '.join(_KINDS)} in {settings.where}",
            found=f"{kinds!r:.200}",
        )
    return tuple(_KINDS[kind] for kind in kinds)


def _is_kind(kind: object) -> bool:
    return isinstance(kind, str) and kind in _KINDS


def take_head_dim(settings: Settings, width: int, num_heads: int) -> int:
    """Take head_dim of a config.json, by default width / heads.

    Raises:
        ConfigError: It is odd, or the default is not a whole number.
    """
    if settings.take("head_dim") is None and width % num_heads:
        raise ConfigError(
            expected=f"a hidden_size that is a multiple of {num_heads} in {settings.where}",
            found=str(width),
        )
    return check_head_dim(settings.take_int("head_dim", width // num_heads), settings)


def check_head_dim(head_dim: int, settings: Settings) -> int:
    """Return an even head_dim.

    Raises:
        ConfigError: RoPE cannot pair the halves of an odd head.
    """
    if head_dim % 2:
        raise ConfigError(expected=f"an even head size in {settings.where}", found=str(head_dim))
    return head_dim


def check_heads(num_heads: int, num_kv_heads: int, settings: Settings) -> None:
    """Check that query heads share key heads evenly.

    Raises:
        ConfigError: They do not.
    """
    if num_heads % num_kv_heads:
        raise ConfigError(
            expected=f"a number of heads that is a multiple of {num_kv_heads} in {settings.where}",
            found=str(num_heads),
        )


def vocab_size_of(settings: Settings, tensors: Mapping[str, RowSource]) -> int:
    """Take vocab_size of GGUF metadata, by default the rows of the embedding.

    Raises:
        ConfigError: There is neither.
    """
    embed = tensors.get("token_embd.weight")
    return settings.take_int("vocab_size", None if embed is None else embed.shape[0])
