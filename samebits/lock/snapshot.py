"""Captures an environment: looks at the machine, and has the probe compute on it."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from samebits.lock.capture import PACKAGES, capture_machine
from samebits.lock.contents import EngineFlags, Lock, ModelDigests, Package
from samebits.lock.facts import MachineFacts
from samebits.lock.git import read_git
from samebits.lock.gpu import list_gpus
from samebits.lock.packages import list_by_name
from samebits.lock.probe import ProbeResult, run_probe

Progress = Callable[[float, str], None]
"""Told the share done, in [0, 1], and what is under way."""


def capture_lock(
    variables: Mapping[str, str],
    *,
    python: str | None = None,
    threads: int | None = None,
    model: ModelDigests | None = None,
    flags: EngineFlags | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
) -> Lock:
    """Capture the environment that a model runs in, a few seconds long.

    Two captures of an unchanged environment are equal. Nothing is set: what is asked and not in
    force is told by `find_ignored`.

    Args:
        variables: The environment. Only names on the allow-list are kept.
        python: Interpreter that the engine runs in; this one if None.
        threads: That the engine is asked to use, if it is told otherwise than by variables.
        model: As `samebits.model.digests.digest_model` gives them.
        flags: As `read_flags` or `select_flags` gives them.
        folder: Whose git state counts; the current one if None.
    Raises:
        ConfigError: The probe cannot run in that interpreter.
    """
    tell = progress or (lambda _fraction, _doing: None)
    tell(0.0, "looking at the machine")
    machine, gpus = capture_machine(variables), list_gpus(variables)
    git = read_git(folder or Path.cwd(), variables)
    tell(0.2, "numeric probe")
    probe = run_probe(python or sys.executable, variables)
    tell(1.0, "captured")
    packages = list_by_name(probe.packages)
    return Lock(
        machine=see_from_inside(machine, probe, packages),
        gpus=gpus,
        packages=packages,
        torch=probe.torch,
        probe=dict(sorted(probe.digests.items())),
        lacks=probe.lacks,
        threads=threads,
        model=model,
        flags=flags,
        git=git,
    )


def see_from_inside(
    machine: MachineFacts, probe: ProbeResult, packages: Mapping[str, Package]
) -> MachineFacts:
    """Give the machine as the probed interpreter sees it: its Python, libraries and packages."""
    return replace(
        machine,
        python=probe.python,
        libc=probe.libc,
        pools=probe.pools,
        packages={name: packages[name].version for name in PACKAGES if name in packages},
    )
