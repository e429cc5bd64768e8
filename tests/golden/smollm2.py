"""The golden run of a whole model: greedy tokens of SmolLM2 and a chain over all their logits."""

import hashlib
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from samebits.model.decoder import Decoder
from samebits.model.files import ModelFiles, open_model
from samebits.model.source import resolve_model
from samebits.numerics.order_free import Kernels, OrderFree
from samebits.numerics.values import Rows

PROMPT = "The same prompt gives the same bits because"
NUM_TOKENS = 64
PAGE_TOKENS = 64


class Run(TypedDict):
    """What a run gave."""

    weights: str
    """Digest of the quantised weights."""
    prompt_ids: list[int]
    token_ids: list[int]
    chain: list[str]
    """After each token: sha256 over the digest before and the step's float32 logits."""


def load(kernels: Kernels, bits: int) -> tuple[ModelFiles, Decoder]:
    """Load SmolLM2 from the default cache."""
    files = open_model(resolve_model("smollm2"))
    return files, Decoder(files.config, files.tensors, OrderFree(kernels, bits=bits, threads=2))


def run(decoder: Decoder, prompt_ids: list[int], num_tokens: int) -> tuple[list[int], list[str]]:
    """Generate greedily; give the token ids and the chain."""
    num_pages = -(-(len(prompt_ids) + num_tokens) // PAGE_TOKENS)
    cache = decoder.make_cache(num_pages=num_pages, page_tokens=PAGE_TOKENS)
    kernels: Kernels = decoder.arithmetic.kernels  # type: ignore[attr-defined]
    step, past = prompt_ids, 0
    token_ids: list[int] = []
    chain: list[str] = []
    while len(token_ids) < num_tokens:
        rows = make_rows(past, len(step), num_pages)
        logits = decoder.forward(np.array(step), rows, cache, np.array([len(step) - 1]))
        token_ids.append(int(kernels.argmax(logits)[0]))
        chain.append(extend(chain[-1] if chain else "", logits))
        step, past = token_ids[-1:], past + len(step)
    return token_ids, chain


def extend(link: str, logits: NDArray[np.float32]) -> str:
    """Digest the link before and a step's logits."""
    return hashlib.sha256(link.encode() + logits.astype("<f4").tobytes()).hexdigest()


def make_rows(past: int, count: int, num_pages: int) -> Rows:
    """Lay out one sequence, its pages in order."""
    positions = np.arange(past, past + count)
    return Rows(
        positions=positions.astype(np.int32),
        slots=positions.astype(np.int64),
        starts=np.array([0, count], np.int32),
        pages=np.arange(num_pages, dtype=np.int32)[None],
    )


def make_golden(kernels: Kernels, bits: int) -> Run:
    """Make the golden run of one width of weights."""
    files, decoder = load(kernels, bits)
    prompt_ids = list(files.tokenizer.encode(PROMPT))
    token_ids, chain = run(decoder, prompt_ids, NUM_TOKENS)
    return Run(
        weights=decoder.weights_digest(),
        prompt_ids=prompt_ids,
        token_ids=token_ids,
        chain=chain,
    )
