"""The processes of bench.vllm_guard: the guard's installation, and passes over fixed prompts."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench.page import ROOT
from bench.vllm_server import SETTINGS, run
from bench.workload import MIXED_TEXT
from samebits.audit.prompts import load_built_in
from samebits.model.files import open_model

TOKENS = 24
CUTS = ((12, 40), (16, 260))
"""How many prompts are cut out of mixed_text.txt, and of how many tokens."""
STRIDE = 60
"""Tokens from the start of one to the start of the next."""
TOP = 20
"""Logits of a step that are compared, the greatest of either side; vLLM gives no more."""
TESTS = ROOT / "tests" / "remedies" / "test_vllm_guard.py"
PART_NAMES = ("remedies/guard", "remedies/vllm", "engine", "model", "numerics")
PARTS = tuple(f"samebits/{name}/" for name in PART_NAMES)
"""What reaches the guard's decisions and cost."""
Pass = tuple[int, dict[str, Any] | None]
"""How many prompts at once, and what each asks of the guard."""


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
    """Give 64 prompts, chosen before any was run: all 36 texts of an audit, then 12 and 16 cuts.

    In this order they make two batches of short ones, one of middle ones and one of long ones.
    """
    tokenizer = open_model(model).tokenizer
    built_in = load_built_in()
    texts = [each.text or "" for each in (*built_in.prompts, *built_in.companions)]
    mixed = tokenizer.encode(MIXED_TEXT.read_text(encoding="utf-8"))
    cuts = [
        mixed[place * STRIDE : place * STRIDE + length]
        for count, length in CUTS
        for place in range(count)
    ]
    return [*map(tokenizer.encode, texts), *cuts]


class Bench:
    """Runs jobs in vLLM's environment."""

    def __init__(self, folder: Path, model: Path, programs: Path, cores: str = "auto") -> None:
        self.folder = folder
        self.model = model
        self.programs = programs
        self.cores = cores
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
        command += ["-o", "filterwarnings=default", str(TESTS)]
        variables = {**os.environ, **SETTINGS, "PYTHONPATH": path}
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
        """Run passes in a fresh process: batch size and the guard's arguments, by name.

        What was run before with the same inputs and the same guard is read again.
        """
        files = {
            kind: self.folder / f"run-{name}.{kind}" for kind in ("job", "out", "log", "guard")
        }
        job = json.dumps(self.make_job(engine, passes, files["guard"], has_guard))
        if not (files["out"].exists() and files["job"].read_text() == job):
            files["guard"].unlink(missing_ok=True)
            files["out"].unlink(missing_ok=True)
            files["job"].write_text(job)
            self.run_worker(name, files, has_guard)
        return {key: Run(**value) for key, value in json.loads(files["out"].read_text()).items()}

    def run_worker(self, name: str, files: Mapping[str, Path], has_guard: bool) -> None:
        """Run bench.vllm_guard_worker to its end, or end with it."""
        path = [*([str(self.guard)] if has_guard else []), str(ROOT)]
        variables = {**os.environ, **SETTINGS, "PYTHONPATH": os.pathsep.join(path)}
        variables["VLLM_CPU_OMP_THREADS_BIND"] = self.cores
        command = [str(self.programs / "python"), "-m", "bench.vllm_guard_worker"]
        command += [str(files["job"]), str(files["out"])]
        print("+", *command, file=sys.stderr, flush=True)
        with files["log"].open("w") as log:
            done = subprocess.run(command, env=variables, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise SystemExit(f"expected {name} to succeed; it failed, see {files['log']}")

    def digest_guard(self) -> str:
        """Digest the guard's sources and kernels as they are installed."""
        (record,) = self.guard.glob("samebits-*.dist-info/RECORD")
        lines = [line for line in record.read_text().splitlines() if line.startswith(PARTS)]
        kept = sorted(line for line in lines if "__pycache__" not in line)
        return hashlib.sha256("\n".join(kept).encode()).hexdigest()

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
            "guard": self.digest_guard() if has_guard else None,
            "model": str(self.model),
            "cores": self.cores,
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
