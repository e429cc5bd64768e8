"""How two machines differ, and what each difference can do."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from samebits.lock.facts import MachineFacts, ThreadPool
from samebits.lock.variables import SPLITS, VARIABLES

ABSENT = "absent"


class Severity(StrEnum):
    """What a difference can do to the outcome."""

    MOVES_BITS = "can move bits"
    UNKNOWN = "not known to move bits"
    HARMLESS = "harmless"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One named thing that is not the same on both sides."""

    field: str
    """Such as "processor", "packages.torch" or "variables.OMP_NUM_THREADS"."""
    a: str
    """As spelled for people; "absent" if there is none."""
    b: str
    severity: Severity
    effect: str
    """What it can change; empty if nothing."""


KERNELS = "libraries choose kernels by it"
EFFECTS: Mapping[str, str] = {
    "processor": KERNELS,
    "architecture": KERNELS,
    "isa": KERNELS,
    "cores": f"default thread counts follow it: {SPLITS}",
    "system": "another build of every library",
    "libc": "its exp, log and sin round differently",
}
"""Fields that can move bits; the other plain fields are harmless."""
OTHER_BUILD = "other kernels or another order of operations"
PACKAGE_EFFECTS: Mapping[str, str] = {
    **dict.fromkeys(("safetensors",), ""),
    **dict.fromkeys(("tokenizers", "transformers"), "prompts may become other tokens"),
}
"""What another version may do, where it is not other kernels."""
POOL_EFFECTS: Mapping[str, str] = {
    "name": KERNELS,
    "version": "other kernels",
    "architecture": KERNELS,
    "threading": SPLITS,
    "threads": SPLITS,
}


def compare_machines(a: MachineFacts, b: MachineFacts) -> tuple[Difference, ...]:
    """List every difference by name, those that can move bits first."""
    found = [
        *compare_fields(a, b),
        *compare_maps("packages", a.packages, b.packages, package_effect),
        *compare_pools(a.pools, b.pools),
        *compare_maps("variables", a.variables, b.variables, variable_effect),
    ]
    return tuple(sorted(found, key=lambda item: item.severity is Severity.HARMLESS))


def make_difference(field: str, a: object, b: object, effect: str) -> Difference:
    """Make a difference; without an effect it is harmless."""
    severity = Severity.MOVES_BITS if effect else Severity.HARMLESS
    return Difference(field=field, a=spell(a), b=spell(b), severity=severity, effect=effect)


def spell(value: object) -> str:
    """Spell a value for people."""
    if value is None:
        return ABSENT
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def compare_fields(a: MachineFacts, b: MachineFacts) -> Iterator[Difference]:
    """Compare the plain fields."""
    plain = ("processor", "architecture", "isa", "cores", "system", "kernel", "libc", "python")
    for name in plain:
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            yield make_difference(name, one, other, EFFECTS.get(name, ""))


def compare_maps(
    field: str, a: Mapping[str, str], b: Mapping[str, str], effect: Callable[[str], str]
) -> Iterator[Difference]:
    """Compare two mappings, name by name; `effect` tells what another value can do."""
    for name in sorted(a.keys() | b.keys()):
        if a.get(name) != b.get(name):
            yield make_difference(f"{field}.{name}", a.get(name), b.get(name), effect(name))


def package_effect(name: str) -> str:
    """Tell what another version of a package can do."""
    return PACKAGE_EFFECTS.get(name, OTHER_BUILD)


def variable_effect(name: str) -> str:
    """Tell what another value of a variable can do."""
    # LD_PRELOAD is no row of the table: it replaces libraries.
    return VARIABLES[name].effect if name in VARIABLES else "other libraries are loaded"


def compare_pools(a: tuple[ThreadPool, ...], b: tuple[ThreadPool, ...]) -> Iterator[Difference]:
    """Compare thread pools by library; one that only one side has loaded is named whole."""
    ours, theirs = name_pools(a), name_pools(b)
    for name in sorted(ours.keys() | theirs.keys()):
        one, other = ours.get(name), theirs.get(name)
        if one is None or other is None:
            yield make_difference(
                f"pools.{name}", spell_pool(one), spell_pool(other), "another library"
            )
            continue
        for field, effect in POOL_EFFECTS.items():
            if getattr(one, field) != getattr(other, field):
                yield make_difference(
                    f"pools.{name}.{field}", getattr(one, field), getattr(other, field), effect
                )


def spell_pool(pool: ThreadPool | None) -> str | None:
    """Spell a library for people; None if there is none."""
    return None if pool is None else f"{pool.name} {pool.version or 'of unknown version'}"


def name_pools(pools: tuple[ThreadPool, ...]) -> dict[str, ThreadPool]:
    """Name pools by their files; the second of one name gets a number."""
    named: dict[str, ThreadPool] = {}
    for pool in pools:
        count = sum(1 for other in named.values() if other.prefix == pool.prefix)
        named[f"{pool.prefix}#{count + 1}" if count else pool.prefix] = pool
    return named
