"""A tiny Llama with random weights, in a Hugging Face folder, for tests of the hf target."""

from pathlib import Path

TEMPLATE = (
    "{% if strftime_now is defined %}{{ strftime_now('%d %b %Y') }}\n{% endif %}"
    "{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
EOS = "<end>"


def write_folder(folder: Path, dtype: str = "float32") -> Path:
    """Write the same weights in a dtype: 2 layers of width 64, bytes as tokens."""
    write_tokenizer(folder)
    write_weights(folder, dtype)
    return folder


def write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: place for place, letter in enumerate([*letters, EOS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, eos_token=EOS
    )
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)


def write_weights(folder: Path, dtype: str) -> None:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=257,
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        eos_token_id=256,
        bos_token_id=None,
        initializer_range=0.2,
    )
    torch.manual_seed(1)
    LlamaForCausalLM(config).to(getattr(torch, dtype)).save_pretrained(folder)
