"""What the guard's actions do to flips of a transformers model, and what they cost.

    python -m bench.guard_transformers FOLDER [--max-tokens 24] [--threads 1] [--write]

20 prompts alone, against ragged batches of 5 and 20, in bfloat16. Epsilon is calibrated on other
prompts, against each oracle. Times are processor seconds. --write puts the table into the page.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from bench.page import (
    ROOT,
    describe_command,
    describe_commit,
    describe_machine,
    describe_packages,
    make_table,
    write_between,
)
from samebits import Engine
from samebits.remedies.guard import (
    Calibration,
    Escalate,
    Guard,
    Guarded,
    LowestId,
    Oracle,
    Priority,
    RecomputeAlone,
    Shape,
    calibrate,
    guarded_generate,
)
from samebits.remedies.guard.engine_oracle import AskEngine

PAGE = ROOT / "docs" / "guard.md"
BATCHES = (5, 20)
SHAPES = (Shape(), Shape(num_rows=4), Shape(num_rows=8, padding=3))
CALIBRATION_PROMPTS = 8
PRIORITY = (0, 1, 2)
"""SmolLM2's tokens that begin and end a text, a turn: the list that suits any prompt."""
HEADER = ("guard", "ε", "rows", "flips against alone", "steps fired", "largest drift", "time")
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


def list_guards(
    oracles: dict[str, Oracle], found: dict[str, Calibration]
) -> Iterator[tuple[str, Guard]]:
    """List the guards to compare; each epsilon is that of its oracle."""
    alone = found["alone"]
    yield "none", Guard(epsilon=0)
    yield "lowest id", Guard.calibrated(alone, LowestId())
    yield "priority", Guard.calibrated(alone, Priority(PRIORITY))
    for name, oracle in oracles.items():
        yield f"escalate, {name}", Guard.calibrated(found[name], Escalate(oracle))


def measure(
    model: Any, prompts: Sequence[Ids], guards: Iterator[tuple[str, Guard]], max_tokens: int
) -> Iterator[tuple[str, ...]]:
    """Give the lines of the table; each is printed as it comes."""
    plain: dict[int, float] = {}
    for name, guard in guards:
        alone, *_ = run(model, prompts, guard, 1, max_tokens)
        for num_rows in BATCHES:
            tokens, batches, spent_s = run(model, prompts, guard, num_rows, max_tokens)
            flips = sum(a != b for a, b in zip(alone, tokens, strict=True))
            cost = spent_s / plain.setdefault(num_rows, spent_s)
            counts = [batch.tally.counts() for batch in batches]
            line = (
                name,
                f"{guard.epsilon:.3g}",
                str(num_rows),
                f"{flips} of {len(prompts)}",
                f"{sum(c.fired for c in counts)} of {sum(c.steps for c in counts)}",
                f"{max(c.largest_drift or 0 for c in counts):.3g}",
                f"{cost:.2f}",
            )
            print(" | ".join(line), flush=True)
            yield line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    model: Any = AutoModelForCausalLM.from_pretrained(asked.folder, dtype=torch.bfloat16)
    model.eval()
    tokenizer = AutoTokenizer.from_pretrained(asked.folder)
    others = read_prompts("demo_prompts.json", tokenizer)[:CALIBRATION_PROMPTS]
    prompts = read_prompts("audit_prompts.json", tokenizer)
    engine = Engine.load(asked.folder, threads=asked.threads)
    oracles: dict[str, Oracle] = {
        "alone": RecomputeAlone(model),
        "sb1": AskEngine(engine, asked.folder),
    }
    found = {
        name: calibrate(model, others, oracle, shapes=SHAPES, max_tokens=12)
        for name, oracle in oracles.items()
    }
    lines = list(measure(model, prompts, list_guards(oracles, found), asked.max_tokens))
    text = "\n\n".join(
        (
            f"{len(prompts)} prompts, {asked.max_tokens} tokens each at most, bfloat16,"
            f" {describe_machine()}, {describe_packages('torch', 'transformers')},"
            f" {describe_commit()}, by `{describe_command('bench.guard_transformers')}`.",
            make_table(HEADER, lines),
            "\n".join(f"- ε against {name}: {each}" for name, each in found.items()),
        )
    )
    print(text)
    if asked.write:
        write_between(PAGE, "figures", text)


if __name__ == "__main__":
    main()
