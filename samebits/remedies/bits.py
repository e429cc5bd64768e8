"""Bits of tensors: digests of them, and whether two have the same. Runs where torch is."""

import hashlib

import torch
from torch import Tensor

DIGITS = 16
"""Hexadecimal digits of a step's digest, as in audits."""


def digest_bits(values: Tensor) -> str:
    """Give the first 16 hexadecimal digits of the SHA-256 of an array's bytes."""
    data = values.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(data.tobytes()).hexdigest()[:DIGITS]


def is_same_bits(one: Tensor, other: Tensor) -> bool:
    """Answer whether two arrays have one dtype, one shape and the same bits: -0 is not 0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    pair = [values.contiguous().reshape(-1).view(torch.uint8) for values in (one, other)]
    return torch.equal(*pair)
