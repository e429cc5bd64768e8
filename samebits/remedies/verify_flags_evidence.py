"""Gathers, in processes like the command's, what the libraries say of themselves."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from samebits.errors import ConfigError, RecordCorrupt
from samebits.lock.probe import ProbeResult, run_probe
from samebits.record.canonical import parse_json
from samebits.remedies.verify_flags_child import MARK

CHILD = Path(__file__).with_name("verify_flags_child.py")
TIMEOUT_S = 300.0
VERBOSE = {"MKL_VERBOSE": "1", "ONEDNN_VERBOSE": "1"}
"""Makes the libraries talk; they compute the same."""
HASH_CODE = "print(hash('samebits'))"
MKL = re.compile(r"CNR:([\w,]+)\s+Dyn:(\d)", re.ASCII)
ONEDNN = re.compile(r"onednn_verbose,(?:v\d,)?info,cpu,isa:(.+)", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What was seen."""

    probe: ProbeResult
    """Of two starts, in the very environment of the command."""
    variables: Mapping[str, str]
    """As they stood in a third process after the libraries were loaded."""
    hashes: tuple[str, str]
    """Of one text, in two processes."""
    omp_dynamic: int | None
    mkl_branch: str
    """As MKL_VERBOSE prints it: AUTO,STRICT; empty if MKL did not talk, here and below."""
    mkl_dynamic: str
    onednn_isa: str
    """As ONEDNN_VERBOSE prints it: Intel AVX2."""


def gather_evidence(
    interpreter: str, environment: Mapping[str, str], names: Sequence[str]
) -> Evidence:
    """Start the interpreter four times and read what it and its libraries say.

    Args:
        environment: All variables of the command.
        names: Variables to look at.
    Raises:
        ConfigError: It does not start, ends early or says something else.
    """
    probe = run_probe(interpreter, environment)
    talk = run_python([interpreter, str(CHILD), *names], {**environment, **VERBOSE})
    lines = [line for line in talk.splitlines() if line.startswith(MARK)]
    try:
        report = parse_json(lines[-1].removeprefix(MARK) if lines else "")
    except RecordCorrupt as error:
        raise refuse_talk("it does not say so") from error
    mkl = MKL.search(talk)
    onednn = ONEDNN.search(talk)
    other = run_python([interpreter, "-c", HASH_CODE], environment)
    dynamic = report["omp_dynamic"]
    return Evidence(
        probe=probe,
        variables={str(name): str(value) for name, value in report["variables"].items()},
        hashes=(str(report["hash"]), other.strip()),
        omp_dynamic=None if dynamic is None else int(dynamic),
        mkl_branch=mkl.group(1) if mkl else "",
        mkl_dynamic=mkl.group(2) if mkl else "",
        onednn_isa=onednn.group(1).strip() if onednn else "",
    )


def run_python(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run a Python and give its output."""
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise refuse_talk(type(error).__name__) from error
    if done.returncode:
        raise refuse_talk(f"it ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def refuse_talk(found: str) -> ConfigError:
    """Make the error for a Python that does not do what it should."""
    return ConfigError(
        expected="the command's Python to tell what is in force in this environment",
        found=found,
        remedy="Start it by hand with these variables: samebits run --dry-run lists them.",
    )
