"""What the guard's actions do to flips of a transformers model, and what they cost.

python -m bench.guard_transformers FOLDER: 20 prompts alone, against ragged batches of 5 and 20.
Epsilon is calibrated on other prompts. Prints a table; times are processor seconds.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from samebits.remedies.guard import (
    Calibration,
    Escalate,
    Guard,
    Guarded,
    LowestId,
    Oracle,
    RecomputeAlone,
    RecomputePrecise,
    Shape,
    calibrate,
    guarded_generate,
)

BATCHES = (5, 20)
SHAPES = (Shape(), Shape(num_rows=4), Shape(num_rows=8, padding=3))
CALIBRATION_PROMPTS = 8
Ids = tuple[int, ...]


def read_prompts(name: str, tokenizer: Any) -> list[Ids]:
    """Read prompts that come with the package."""
    table = json.loads((files("samebits.audit") / name).read_text(encoding="utf-8"))
    rows = table["prompts"] if isinstance(table, dict) else table
    texts = (row if isinstance(row, str) else row["prompt"] for row in rows)
    return [tuple(tokenizer(text).input_ids) for text in texts]


def run(
    model: Any, prompts: Sequence[Ids], guard: Guard, num_rows: int, max_tokens: int
) -> tuple[list[Ids], list[Guarded], float]:
    """Complete all prompts in batches; give the tokens, what was tallied, and the time."""
    start = time.process_time()
    batches = [
        guarded_generate(model, prompts[at : at + num_rows], guard, max_tokens=max_tokens)
        for at in range(0, len(prompts), num_rows)
    ]
    spent_s = time.process_time() - start
    return [tokens for batch in batches for tokens in batch.tokens], batches, spent_s


def list_guards(model: Any, found: dict[str, Calibration]) -> Iterator[tuple[str, Guard]]:
    """List the guards to compare; each epsilon is that of its oracle."""
    alone, precise = found["alone"], found["float32"]
    yield "none", Guard(epsilon=0)
    yield "lowest id", Guard.calibrated(alone, LowestId())
    yield "escalate, alone", Guard.calibrated(alone, Escalate(RecomputeAlone(model)))
    yield "escalate, float32", Guard.calibrated(precise, Escalate(RecomputePrecise(model)))


def describe(name: str, num_rows: int, batches: Sequence[Guarded]) -> str:
    """Sum up what was tallied."""
    counts = [batch.tally.counts() for batch in batches]
    steps, fired = sum(c.steps for c in counts), sum(c.fired for c in counts)
    drift = max(c.largest_drift for c in counts)
    return f"{name:18} {num_rows:3} rows  {fired:4} of {steps} steps fired  drift {drift:.3f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--max-tokens", type=int, default=24)
    asked = parser.parse_args()
    model: Any = AutoModelForCausalLM.from_pretrained(asked.folder, dtype=torch.bfloat16)
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(asked.folder)
    others = read_prompts("demo_prompts.json", tokenizer)[:CALIBRATION_PROMPTS]
    prompts = read_prompts("audit_prompts.json", tokenizer)
    oracles: dict[str, Oracle] = {
        "alone": RecomputeAlone(model),
        "float32": RecomputePrecise(model),
    }
    found = {}
    for name, oracle in oracles.items():
        found[name] = calibrate(model, others, oracle, shapes=SHAPES, max_tokens=12)
        print(name, "epsilon", found[name].epsilon, found[name].value()["quantiles"], flush=True)
    plain: dict[int, float] = {}
    for name, guard in list_guards(model, found):
        alone, *_ = run(model, prompts, guard, 1, asked.max_tokens)
        for num_rows in BATCHES:
            tokens, batches, spent_s = run(model, prompts, guard, num_rows, asked.max_tokens)
            plain.setdefault(num_rows, spent_s)
            flips = sum(a != b for a, b in zip(alone, tokens, strict=True))
            cost = spent_s / plain[num_rows]
            line = describe(name, num_rows, batches)
            print(f"{line}  {flips} of {len(prompts)} flip  time × {cost:.2f}", flush=True)


if __name__ == "__main__":
    main()
