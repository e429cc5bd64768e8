"""Whether companions move the bits of a stable transformers model, and of a plain one.

python -m bench.stable_transformers FOLDER DTYPE SHAPE
"""

import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

import samebits

NUM_TOKENS = 8
NUM_SINGLE = 6
"""Prompts that are asked one at a time; in a fixed shape each costs a whole batch."""
PROMPTS = [
    f"Tell me about number {x}. " + "It matters because it is one of many things. " * (x % 4)
    for x in range(16)
]


def main(folder: str, dtype: str, shape: str) -> None:
    """Print how many answers keep their tokens and bits in other company."""
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    model = loaded.eval()
    stable = samebits.stabilize(model, tokenizer, shape=shape, buckets=(64,))

    def ask(prompts: Sequence[str]) -> list[Any]:
        return list(stable.generate(prompts, max_tokens=NUM_TOKENS))

    start = time.perf_counter()
    whole = ask(PROMPTS)
    print(f"{shape} {dtype}: {time.perf_counter() - start:.1f} s", stable.facts.selftests)
    for size in (8, 2, 1):
        asked = PROMPTS[:NUM_SINGLE] if size == 1 else PROMPTS
        parts = (ask(asked[at : at + size]) for at in range(0, len(asked), size))
        report(f"batches of {size}", whole, [answer for part in parts for answer in part])
    report("reversed", whole, ask(PROMPTS[::-1])[::-1])
    if shape == "fixed":
        compare_plain(model, tokenizer)


def report(name: str, whole: list[Any], other: list[Any]) -> None:
    """Print how many answers agree."""
    pairs = list(zip(whole, other, strict=False))
    tokens = sum(one.token_ids == two.token_ids for one, two in pairs)
    print(f"{name}: tokens {tokens}, bits {sum(x == y for x, y in pairs)} of {len(pairs)}")


def compare_plain(model: Any, tokenizer: Any) -> None:
    """Print how many answers of transformers' own batching agree with those made alone."""
    together = run_plain(model, tokenizer, PROMPTS)
    alone = [run_plain(model, tokenizer, [prompt])[0] for prompt in PROMPTS]
    pairs = list(zip(together, alone, strict=True))
    tokens = sum(x.argmax(-1).tolist() == y.argmax(-1).tolist() for x, y in pairs)
    bits = sum(torch.equal(x, y) for x, y in pairs)
    print(f"plain, 16 against 1: tokens {tokens}, bits {bits} of {len(pairs)}")


def run_plain(model: Any, tokenizer: Any, prompts: list[str]) -> list[Tensor]:
    """Complete one ragged batch; (T, V) logits for each prompt."""
    made = model.generate(
        **tokenizer(prompts, return_tensors="pt", padding=True),
        min_new_tokens=NUM_TOKENS,
        max_new_tokens=NUM_TOKENS,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return list(torch.stack(made.logits, dim=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
