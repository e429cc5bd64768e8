"""samebits run: a command in an environment whose settings are fixed, and seen to be in force."""

import os
import signal
import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from samebits.cli.names import EngineOption

if TYPE_CHECKING:
    from samebits.remedies.flags.table import Device
    from samebits.remedies.launch_plan import Plan

GPU_FILES = ("/dev/nvidiactl", "/dev/kfd")
"""There where a driver of NVIDIA or AMD is."""


class DeviceName(StrEnum):
    """What the command computes on."""

    AUTO = "auto"
    CPU = "cpu"
    GPU = "gpu"


def run(
    command: Annotated[
        list[str], typer.Argument(help="The command, after --.", show_default=False)
    ],
    engine: EngineOption = None,
    threads: Annotated[
        int | None, typer.Option(help="Threads of every library; all cores if not given.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Decide a variable; NAME= takes it away. Repeat."
        ),
    ] = None,
    device: Annotated[
        DeviceName, typer.Option(help="What the command computes on; auto looks for a driver.")
    ] = DeviceName.AUTO,
    add_options: Annotated[
        bool, typer.Option("--add-options", help="Add the options that the engine's table has.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Plan, check and print, but do not run.")
    ] = False,
) -> None:
    """Run a command with kernels, threads and order fixed, after seeing that the settings act.

    Prints what is set, refuses combinations known to leak, starts the command's own Python to
    compare asked with effective, then becomes the command: its exit code and signals are its own.
    Exit code 2, before it starts: refused, or not found.
    """
    from samebits.cli.environment import read_variables
    from samebits.remedies.launch_words import list_checks, list_next, list_plan
    from samebits.remedies.verify_flags import refuse_ignored, verify_flags

    variables = read_variables()
    plan = plan_run(command, variables, engine, threads, set_ or [], device, add_options)
    say(list_plan(plan, is_guessed=engine is None), dry_run)
    checks = verify_flags(plan.command.interpreter, plan.environment)
    say(list_checks(checks), dry_run)
    refuse_ignored(checks)
    say(list_next(plan), dry_run)
    if not dry_run:
        become(plan)


def plan_run(
    words: list[str],
    variables: Mapping[str, str],
    engine: str | None,
    threads: int | None,
    settings: list[str],
    device: DeviceName,
    add_options: bool,
) -> "Plan":
    """Resolve what the user left open, and plan.

    Raises:
        ConfigError: The command, the engine or a setting is not possible, or known to leak.
    """
    from samebits.errors import ConfigError
    from samebits.lock.processor import count_cores
    from samebits.remedies.flags.engines import ENGINES, find_engine
    from samebits.remedies.launch_command import read_command
    from samebits.remedies.launch_plan import Asked, make_plan

    command = read_command(words, variables)
    name = engine or command.engine
    if not name:
        raise ConfigError(
            expected="a command whose engine can be told",
            found=words[0],
            remedy=f"Name it: --engine {'|'.join(ENGINES)}.",
        )
    asked = Asked(
        device=find_device(device, variables),
        threads=count_cores() if threads is None else threads,
        settings=dict(map(read_setting, settings)),
        add_options=add_options,
    )
    return make_plan(command, find_engine(name), variables, asked)


def find_device(device: DeviceName, variables: Mapping[str, str]) -> "Device":
    """Look for a GPU's driver, unless the user says; hidden GPUs are none."""
    from samebits.remedies.flags.table import Device

    if device is not DeviceName.AUTO:
        return Device(device.value)
    is_hidden = variables.get("CUDA_VISIBLE_DEVICES") in ("", "-1")
    has_driver = any(os.path.exists(path) for path in GPU_FILES)
    return Device.GPU if has_driver and not is_hidden else Device.CPU


def read_setting(text: str) -> tuple[str, str]:
    """Read NAME=VALUE.

    Raises:
        ConfigError: There is no sign of equality, or no name.
    """
    from samebits.errors import ConfigError

    name, joint, value = text.partition("=")
    if not joint or not name:
        raise ConfigError(expected="--set NAME=VALUE", found=repr(name or text))
    return name, value


def say(lines: Iterable[str], dry_run: bool) -> None:
    """Print lines where they do not mix with what the command prints."""
    for line in lines:
        print(f"samebits: {line}", file=sys.stdout if dry_run else sys.stderr)


def become(plan: "Plan") -> None:
    """Replace this process by the command, so that nothing stands between it and its caller.

    Raises:
        ConfigError: The system does not start it.
    """
    from samebits.errors import ConfigError

    sys.stdout.flush()
    sys.stderr.flush()
    # Python ignores these, and what is ignored stays so in the program that replaces us.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execve(plan.command.program, list(plan.words), dict(plan.environment))
    except OSError as error:
        raise ConfigError(
            expected=f"{plan.command.program} to start", found=error.strerror or str(error)
        ) from error
