"""llama.cpp in the race, through the C interface of llama-cpp-python.

The F16 and Q8_0 files are made once from the given file, by llama.cpp itself.
"""

import argparse
import ctypes
from importlib.metadata import version
from pathlib import Path
from typing import Any

import llama_cpp as llama
import numpy as np

from bench.contender import Ids, serve

FILE_TYPES = {"F16": llama.LLAMA_FTYPE_MOSTLY_F16, "Q8_0": llama.LLAMA_FTYPE_MOSTLY_Q8_0}
BATCH_TOKENS = 512


def requantise(model: Path, kind: str, folder: Path) -> Path:
    """Make the file of one kind, unless it is there."""
    final = folder / f"{model.stem}.{kind}.gguf"
    if not final.exists():
        folder.mkdir(parents=True, exist_ok=True)
        params = llama.llama_model_quantize_default_params()
        params.ftype, params.allow_requantize, params.nthread = FILE_TYPES[kind], True, 2
        partial = final.with_suffix(".partial")
        paths = [str(path).encode() for path in (model, partial)]
        if llama.llama_model_quantize(*paths, ctypes.byref(params)):
            raise SystemExit(f"llama.cpp could not make {final.name}")
        partial.rename(final)
    return final


class Llama:
    """See contender.py."""

    def __init__(self, model: Path, threads: int, flash_attention: bool) -> None:
        llama.llama_backend_init()
        params = llama.llama_model_default_params()
        params.load_mode = llama.LLAMA_LOAD_MODE_NONE
        self.model = llama.llama_model_load_from_file(str(model).encode(), params)
        if not self.model:
            raise SystemExit(f"llama.cpp could not load {model.name}")
        self.vocab_size = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self.model))
        self.threads = threads
        self.flash_attention = flash_attention
        self.context: Any = None
        self.size = (0, 0)
        self.length = 0

    def describe(self) -> str:
        """Give version, settings, and what the processor offers to llama.cpp."""
        return (
            f"llama-cpp-python {version('llama-cpp-python')}, {self.threads} threads, "
            f"n_batch = n_ubatch = {BATCH_TOKENS}, "
            f"flash attention {'on' if self.flash_attention else 'off'}, no mmap; "
            f"{llama.llama_print_system_info().decode().strip()}"
        )

    def clear(self, num_sequences: int, capacity: int) -> None:
        """Empty the caches; for another size make a new context, one cache a sequence."""
        self.length = 0
        if self.size == (num_sequences, capacity):
            llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
            return
        if self.context:
            llama.llama_free(self.context)
        self.size = (num_sequences, capacity)
        params = llama.llama_context_default_params()
        params.n_ctx = num_sequences * -(-capacity // 256) * 256
        params.n_seq_max = num_sequences
        params.n_batch = params.n_ubatch = BATCH_TOKENS
        params.n_threads = params.n_threads_batch = self.threads
        params.flash_attn_type = int(self.flash_attention)
        params.no_perf = True
        self.context = llama.llama_init_from_model(self.model, params)
        if not self.context:
            raise SystemExit(f"llama.cpp could not make a context of {params.n_ctx} tokens")

    def rewind(self, length: int) -> None:
        """Remove later tokens."""
        memory = llama.llama_get_memory(self.context)
        llama.llama_memory_seq_rm(memory, -1, length, -1)
        self.length = length

    def append(self, token_ids: Ids) -> Ids:
        """Decode in batches of up to BATCH_TOKENS tokens, sequences side by side."""
        num_sequences, num_tokens = token_ids.shape
        size = max(1, BATCH_TOKENS // num_sequences)
        for start in range(0, num_tokens, size):
            part = token_ids[:, start : start + size]
            self.decode(part, wants_logits=start + size >= num_tokens)
        return np.array([self.logits(i).argmax() for i in self.wanted], np.int64)

    def decode(self, token_ids: Ids, *, wants_logits: bool) -> None:
        """Decode one batch (S, T)."""
        num_tokens = token_ids.shape[1]
        batch = llama.llama_batch_init(token_ids.size, 0, 1)
        batch.n_tokens = token_ids.size
        self.wanted = []
        for i, token_id in enumerate(token_ids.reshape(-1)):
            sequence, offset = divmod(i, num_tokens)
            is_last = offset == num_tokens - 1
            batch.token[i], batch.pos[i] = int(token_id), self.length + offset
            batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
            batch.logits[i] = wants_logits and is_last
            if is_last:
                self.wanted.append(i)
        status = llama.llama_decode(self.context, batch)
        llama.llama_batch_free(batch)
        if status:
            raise SystemExit(f"llama_decode gave {status}")
        self.length += num_tokens

    def logits(self, index: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """View the logits of one token of the last batch."""
        pointer = llama.llama_get_logits_ith(self.context, index)
        return np.ctypeslib.as_array(pointer, (self.vocab_size,))


def main() -> None:
    """Serve one file type."""
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--kind", choices=tuple(FILE_TYPES), required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--flash-attention", action="store_true")
    args = parser.parse_args()

    def make() -> Llama:
        path = requantise(args.model, args.kind, args.folder)
        return Llama(path, args.threads, args.flash_attention)

    serve(make)


if __name__ == "__main__":
    main()
