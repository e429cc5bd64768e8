"""Digests of the bits of tensors. Runs where torch is."""

import hashlib

import torch
from torch import Tensor

from samebits.record.digest import STEP_DIGITS


def digest_bits(values: Tensor) -> str:
    """Give the first 16 hexadecimal digits of the SHA-256 of an array's bytes."""
    return hashlib.sha256(spell_bits(values)).hexdigest()[:STEP_DIGITS]


def spell_bits(values: Tensor) -> bytes:
    """Give the bytes of values in order."""
    data = values.detach().contiguous().cpu().reshape(-1).view(torch.uint8).numpy()
    return data.tobytes()
