"""transformers in the race: float32 from the same GGUF, sdpa, a bare loop with a cache."""

import argparse
import inspect
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from bench.contender import Ids, serve

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Transformers:
    """See contender.py."""

    def __init__(self, model: Path, dtype: str, threads: int) -> None:
        torch.set_num_threads(threads)
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            str(model.parent),
            gguf_file=model.name,
            dtype=DTYPES[dtype],
            attn_implementation="sdpa",
        )
        self.model = loaded.eval()
        names = inspect.signature(self.model.forward).parameters
        self.cache_name = "past_key_values" if "past_key_values" in names else "cache"
        self.dtype = dtype
        self.clear(1, 0)

    def describe(self) -> str:
        """Give versions and threads."""
        return (
            f"transformers {version('transformers')}, torch {torch.__version__}, {self.dtype}, "
            f"sdpa, DynamicCache, logits of the last position, {torch.get_num_threads()} threads"
        )

    def clear(self, num_sequences: int, capacity: int) -> None:
        """Start a new cache; it grows by itself."""
        self.cache: Any = DynamicCache(config=self.model.config)

    def rewind(self, length: int) -> None:
        """Cut the cache."""
        surplus = self.cache.get_seq_length() - length
        if surplus:
            self.cache.crop(-surplus)

    @torch.inference_mode()
    def append(self, token_ids: Ids) -> Ids:
        """Run the model once."""
        arguments = {self.cache_name: self.cache, "use_cache": True, "logits_to_keep": 1}
        out = self.model(input_ids=torch.from_numpy(token_ids), **arguments)
        best: Ids = out.logits[:, -1].argmax(-1).numpy()
        return best


def main() -> None:
    """Serve one precision."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="float32")
    parser.add_argument("--threads", type=int, required=True)
    args = parser.parse_args()
    serve(lambda: Transformers(args.model, args.dtype, args.threads))


if __name__ == "__main__":
    main()
