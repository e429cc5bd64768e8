"""Digests of the bits of tensors. Runs where torch is."""

import hashlib

import torch
from torch import Tensor

DIGITS = 16
"""Hexadecimal digits of a step's digest, as in audits."""


def digest_bits(values: Tensor) -> str:
    """Give the first 16 hexadecimal digits of the SHA-256 of an array's bytes."""
    data = values.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(data.tobytes()).hexdigest()[:DIGITS]
