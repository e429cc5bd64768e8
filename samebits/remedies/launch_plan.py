"""Plans the environment that a command runs in, and refuses what is known to leak.

Takes the variables that are there as a mapping and gives a new one; sets nothing itself.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samebits.errors import ConfigError
from samebits.lock.variables import VARIABLES, select_variables
from samebits.remedies.flags.table import Device, EngineFlags, Flag, Kind, Leak, Setup
from samebits.remedies.launch_command import Command
from samebits.remedies.seeds_unread import UnreadSeed, check_seeds

JOINT = "XLA_FLAGS"
"""The one variable that holds many flags, with spaces between them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user asks for."""

    device: Device
    threads: int
    settings: Mapping[str, str]
    """Variables that the user decides; an empty value takes the variable away."""
    add_options: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a command will be run."""

    engine: EngineFlags
    device: Device
    threads: int
    command: Command
    words: tuple[str, ...]
    """The command, with the options that the user let us add."""
    environment: Mapping[str, str]
    """All of it."""
    added: Mapping[str, str]
    """Variables that are other than in the user's environment."""
    removed: tuple[str, ...]
    kept: Mapping[str, str]
    """Variables on the allow-list that were there and stay."""
    options: tuple[Flag, ...]
    """Options that the command lacks: added if the user said so."""
    differing: tuple[tuple[Flag, str], ...]
    """Options that the command gives otherwise, with its value."""
    calls: tuple[Flag, ...]
    """What only the program itself can set."""
    unread: tuple[UnreadSeed, ...]
    adds_options: bool


def make_plan(
    command: Command, engine: EngineFlags, variables: Mapping[str, str], asked: Asked
) -> Plan:
    """Plan how to run a command.

    Raises:
        ConfigError: A setting that no variable takes, variables of the user that say otherwise,
            or a combination known to leak.
    """
    check_settings(asked.settings)
    check_threads(asked.threads)
    wanted = want_variables(engine, variables, asked)
    environment = {**variables, **wanted, **asked.settings}
    # An empty variable of the user's says something: CUDA_VISIBLE_DEVICES= hides every GPU.
    taken = {name for name, value in asked.settings.items() if not value}
    environment = {name: value for name, value in environment.items() if name not in taken}
    options = [flag for flag in engine.on(asked.device) if flag.kind is Kind.OPTION]
    lacking = tuple(
        flag for flag in options if flag.is_set and name_of(flag) not in command.options
    )
    words = command.words
    if asked.add_options:
        words += tuple(part for flag in lacking for part in flag.spell(asked.threads).split())
    added = {name_of(flag): flag.value for flag in lacking if asked.add_options}
    given = {**command.options, **added}
    setup = Setup(variables=environment, options=given, device=asked.device)
    check_leaks(engine.leaks, setup)
    return Plan(
        engine=engine,
        device=asked.device,
        threads=asked.threads,
        command=command,
        words=words,
        environment=environment,
        added={k: v for k, v in environment.items() if variables.get(k) != v},
        removed=tuple(sorted(variables.keys() - environment.keys())),
        kept=select_variables({k: v for k, v in environment.items() if variables.get(k) == v}),
        options=lacking,
        differing=tuple(list_differing(options, command, asked.threads)),
        calls=tuple(x for x in engine.on(asked.device) if x.kind is Kind.CALL and x.is_set),
        unread=check_seeds(command.options, engine.name, "server"),
        adds_options=asked.add_options,
    )


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse variables that steer no numbers, and values that their variable does not take."""
    for name, value in settings.items():
        variable = VARIABLES.get(name)
        if variable is None:
            raise ConfigError(
                expected="--set with a variable that steers numbers",
                found=name,
                remedy="Set others before the command: env NAME=VALUE samebits run ...",
            )
        if value and not re.fullmatch(variable.shape, value, re.ASCII | re.IGNORECASE):
            raise ConfigError(expected=f"--set {name} to a value that it takes", found=repr(value))


def check_threads(threads: int) -> None:
    """Refuse a count that is none."""
    if threads < 1:
        raise ConfigError(expected="--threads of at least 1", found=str(threads))


def want_variables(
    engine: EngineFlags, variables: Mapping[str, str], asked: Asked
) -> dict[str, str]:
    """Give the variables to set, where the user has not set them and does not decide them.

    Raises:
        ConfigError: The user has set some of them to something else; names them all.
    """
    flags = [x for x in engine.on(asked.device) if x.kind is Kind.VARIABLE and x.is_set]
    flags = [flag for flag in flags if flag.name not in asked.settings]
    joint = [flag for flag in flags if flag.name == JOINT]
    single = [flag for flag in flags if flag.name != JOINT]
    found = {x.name: variables.get(x.name, "") for x in single}
    against = [x for x in single if found[x.name] and not x.takes(found[x.name], asked.threads)]
    texts = [f"{x.name}={show(x.name, found[x.name])}" for x in against]
    wanted = [x.spell(asked.threads) for x in against]
    merged, others = merge_joint(joint, variables.get(JOINT, ""))
    if texts or others:
        raise refuse_contradiction(wanted + [x for _, x in others], texts + [x for x, _ in others])
    new = {x.name: x.fill(asked.threads) for x in single if not found[x.name]}
    return new | ({JOINT: merged} if joint else {})


def merge_joint(flags: Sequence[Flag], text: str) -> tuple[str, list[tuple[str, str]]]:
    """Add flags to those that a variable holds already; list those that are there otherwise."""
    words = text.split()
    there = {word.partition("=")[0]: word for word in words}
    others = []
    for flag in flags:
        name = flag.value.partition("=")[0]
        if name not in there:
            words.append(flag.value)
        elif there[name] != flag.value:
            others.append((show(JOINT, there[name]), flag.value))
    return " ".join(words), others


def show(name: str, value: str) -> str:
    """Show a value of the user's if it looks like one of its variable; flag by flag if joint."""
    words = value.split() if name == JOINT else [value]
    return " ".join(select_variables({name: word}).get(name, "") for word in words)


def refuse_contradiction(wanted: Sequence[str], found: Sequence[str]) -> ConfigError:
    """Make the error for variables that the user has set to something else."""
    threads = any("THREADS" in text for text in found)
    remedy = "Unset them, or decide: --set NAME=VALUE (--set NAME= unsets it for the command)"
    return ConfigError(
        expected=f"{', '.join(wanted)}, or unset",
        found=f"{', '.join(found)} in your environment",
        remedy=f"{remedy}{'; for threads: --threads N' if threads else ''}.",
    )


def name_of(flag: Flag) -> str:
    """Give the name of an option as commands are read."""
    return flag.name.lstrip("-")


def list_differing(
    options: Sequence[Flag], command: Command, threads: int
) -> list[tuple[Flag, str]]:
    """List recommended options that the command gives with another value."""
    return [
        (flag, command.options[name_of(flag)])
        for flag in options
        if flag.is_set
        and name_of(flag) in command.options
        and flag.value
        and not flag.takes(command.options[name_of(flag)], threads)
    ]


def check_leaks(leaks: Sequence[Leak], setup: Setup) -> None:
    """Refuse the first combination that is known to leak.

    Raises:
        ConfigError: Names it, its source and the way out.
    """
    for leak in leaks:
        if leak.happens(setup):
            raise ConfigError(
                expected="no combination that is known to leak",
                found=f"{leak.name}: {leak.why} ({leak.source})",
                remedy=leak.way_out,
            )
