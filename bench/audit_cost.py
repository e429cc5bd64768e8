"""What an audit costs beside its target, and what a large record takes to analyse and draw.

    python -m bench.audit_cost [--observations 10000] [--latency-ms 20]

The target is scripted and answers after a fixed time, so that all else is the audit's own. The
report is made in a fresh process, whose peak memory and time include the imports.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.page import ROOT
from samebits.audit.axes import AXES
from samebits.audit.record_reader import read_record
from samebits.cli import run_line

CAUSES = "batch:0.5,concurrency>=5:1@0.5/40,threads:1e-6"
CALLS_A_PROMPT = 104
"""Of all axes on the scripted target, about."""
FEW_AXES = "repeat,batch,stream,logprobs,n"
MIB = 2**20


def main() -> None:
    """Measure both and print them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--observations", type=int, default=10_000)
    parser.add_argument("--latency-ms", type=float, default=20.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(measure_own(Path(folder), options.latency_ms))
        for share in (4, 2, 1):
            print(measure_report(Path(folder), options.observations // share))


def measure_own(folder: Path, latency_ms: float) -> str:
    """Audit a target that answers after a fixed time."""
    record = folder / "own.jsonl"
    script = f"stub:seed=3,batch:0.5,latency_s={latency_ms / 1000}"
    run_line(
        ["audit", script, "--axes", FEW_AXES, "--out", str(record), "--html", f"{record}.html"]
    )
    end = read_record(record).ends[-1]
    return f"own time beside a target of {latency_ms:g} ms: {end.own_s / end.target_s:.1%}"


def measure_report(folder: Path, num: int) -> str:
    """Make a record of about `num` observations, and the time and memory of its report."""
    record, prompts = folder / f"{num}.jsonl", folder / f"{num}.txt"
    count = max(1, num // CALLS_A_PROMPT)
    prompts.write_text("".join(f"prompt number {i} {'word ' * (i % 40)}\n" for i in range(count)))
    axes = ",".join(axis.key for axis in AXES if axis.key != "first-call")
    options = ["--axes", axes, "--prompts", str(prompts), "--out", str(record)]
    run_line(["audit", f"stub:seed=3,{CAUSES}", *options])
    page = str(folder / "page.html")
    words = ["report", str(record), "--out", page]
    command = f"from samebits.cli import run_line; run_line({words!r})"
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", command], cwd=ROOT, check=True)
    wall_s = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / MIB
    seen = len(read_record(record).observations)
    size = record.stat().st_size / MIB
    return f"{seen} observations ({size:.1f} MiB): {wall_s:.2f} s, peak so far {peak:.0f} MiB"


if __name__ == "__main__":
    main()
