"""Peak memory of loading and generating, against what it may be; and the time of `samebits --help`.

    python -m bench.memory MODEL.gguf

May be: 1.15 times the quantised weights, plus the keys and values of the tokens used, plus 200 MB
for Python, NumPy, the tokenizer and the model file's embedding rows. Peak is the maximum resident
set of a process that loads, generates and ends. Exits with 1 if it is more.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.page import ROOT, describe_commit, describe_machine, describe_packages, make_table

OVERHEAD_BYTES = 200e6
WEIGHTS_FACTOR = 1.15
HELP_RUNS = 5
PROMPT_TOKENS = 512
NEW_TOKENS = 64


def peak_bytes() -> int:
    """Give the largest resident set of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def use(model: Path, weights: str) -> dict[str, float]:
    """Load and generate in this process; give bytes of the parts and the peaks."""
    from samebits.engine import Engine, SamplingParams

    start = peak_bytes()
    with Engine.load(model, weights=weights, threads=2) as engine:
        decoder = engine.decoder
        held = [decoder.head, *linears(decoder)]
        arrays = [a for weight in held for a in decoder.arithmetic.weight_arrays(weight)]
        loaded = peak_bytes()
        prompt = [(7 * i) % decoder.config.vocab_size for i in range(PROMPT_TOKENS)]
        engine.generate([prompt], SamplingParams(max_tokens=NEW_TOKENS, ignore_eos=True))
        config = decoder.config
        token_bytes = config.num_layers * config.num_kv_heads * (4 * config.head_dim + 4)
        num_tokens = PROMPT_TOKENS + NEW_TOKENS
    return {
        "imports": start,
        "weights": sum(array.nbytes for array in arrays),
        "kv": num_tokens * token_bytes,
        "loaded": loaded,
        "peak": peak_bytes(),
    }


def linears(decoder: Any) -> list[Any]:
    """List the linears of all layers."""
    names = ("qkv", "o", "gate_up", "down")
    return [getattr(layer, name) for layer in decoder.layers for name in names]


def measure(model: Path, weights: str) -> dict[str, float]:
    """Do so in a process of its own."""
    command = [sys.executable, "-m", "bench.memory", str(model.resolve()), "--inside", weights]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    parts: dict[str, float] = json.loads(done.stdout)
    parts["allowed"] = WEIGHTS_FACTOR * parts["weights"] + parts["kv"] + OVERHEAD_BYTES
    return parts


def time_help() -> list[float]:
    """Time `samebits --help`, after one run that fills the caches."""
    seconds = []
    for _ in range(HELP_RUNS + 1):
        start = time.perf_counter()
        command = [sys.executable, "-c", "from samebits.cli import main; main()", "--help"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def main() -> int:
    """Print parts and peaks in MB (10**6 bytes), and the time of the help."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--inside", choices=("w16", "w8"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        print(json.dumps(use(args.model, args.inside)))
        return 0
    found = {weights: measure(args.model, weights) for weights in ("w16", "w8")}
    columns = ("imports", "weights", "kv", "loaded", "peak", "allowed")
    rows = [[name, *(f"{parts[c] / 1e6:.0f}" for c in columns)] for name, parts in found.items()]
    print(make_table(["MB", *columns], rows))
    seconds = time_help()
    told = f"median {median(seconds):.2f} s, most {max(seconds):.2f} s of {HELP_RUNS} runs"
    print(f"\nsamebits --help: {told}")
    place = (describe_machine(), describe_packages("samebits", "numpy"), describe_commit())
    print("\n" + "; ".join(place))
    return int(any(parts["peak"] > parts["allowed"] for parts in found.values()))


if __name__ == "__main__":
    sys.exit(main())
