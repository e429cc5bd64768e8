"""Philox4x32-10, a counter-based generator: a draw is a function of key and counter, of no state.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
Checked against the known answers its authors publish.
"""

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK = 0xFFFFFFFF


def philox4x32(
    counter: tuple[int, int, int, int], key: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Scramble four 32-bit words under a key of two, in ten rounds."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(ROUNDS):
        a, b = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & MASK, (a >> 32) ^ c3 ^ k1, a & MASK
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return c0, c1, c2, c3


def draw_u64(seed: int, sample_index: int, position: int) -> int:
    """Draw 64 bits for one token of one sample.

    Args:
        seed: key, in [0, 2**64), low word first. sample_index, position: the upper and the lower
            half of the counter, each in [0, 2**64).
    Returns:
        The first two output words, low word first.
    Source: docs/numerics.md, "Sampling".
    """
    counter = (position & MASK, position >> 32, sample_index & MASK, sample_index >> 32)
    low, high, _, _ = philox4x32(counter, (seed & MASK, seed >> 32))
    return high << 32 | low
