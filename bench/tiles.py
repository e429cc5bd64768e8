"""How fast the register tiles of a kernel library are: GMAC/s of one thread, by its own CPU time.

    python -m bench.tiles [LIBRARY ...]

Without arguments, the installed library. To compare tiles (docs/decisions/0003), build the library
with other macros in level.c and name both. Each line is the better quartile of many calls.
"""

import sys
import time
from pathlib import Path

import numpy as np

from samebits.numerics.native import kernels as native
from samebits.numerics.values import Weight, pack_weight

SHAPES = ((3072, 576), (576, 1536))
"""(N, K) of SmolLM2's gate-and-up and down."""
ROWS = (1, 32, 256)


def make_weight(kernels: native.NativeKernels, n: int, k: int, bits: int) -> Weight:
    """Make a packed weight of normal numbers; N is a multiple of 16."""
    w = np.random.default_rng(0).standard_normal((n, k)).astype(np.float32)
    q, scale = kernels.quantise_weight(w, bits)
    return Weight(
        packed=pack_weight(q), scale=scale, bias=None, num_outputs=n, num_inputs=k, bits=bits
    )


def measure(kernels: native.NativeKernels, weight: Weight, num_rows: int) -> float:
    """Time linears of `num_rows` rows; GMAC/s."""
    x = np.random.default_rng(1).standard_normal((num_rows, weight.num_inputs))
    rows = x.astype(np.float32)
    times = []
    for _ in range(300 if num_rows == 1 else max(5, 1200 // num_rows)):
        start = time.thread_time()
        kernels.linear(rows, weight)
        times.append(time.thread_time() - start)
    work = num_rows * weight.num_outputs * weight.num_inputs
    return work / sorted(times)[len(times) // 4] / 1e9


def main() -> None:
    """Print a table."""
    print("| library | bits | N x K | " + " | ".join(f"{m} rows" for m in ROWS) + " |")
    print("|---" * (3 + len(ROWS)) + "|")
    for name in sys.argv[1:] or [str(native.find_library())]:
        native.load_library.cache_clear()
        native.find_library = lambda name=name: Path(name)  # type: ignore[misc]
        kernels = native.NativeKernels(level=native.list_levels()[0], threads=1)
        for bits in (16, 8):
            for n, k in SHAPES:
                weight = make_weight(kernels, n, k, bits)
                cells = (f"{measure(kernels, weight, m):.1f}" for m in ROWS)
                print(f"| {Path(name).parent.name} | {bits} | {n} x {k} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
