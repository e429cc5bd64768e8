"""Whether two records were made alike: machines, options, targets and prompts, each by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import AuditRecord, Header
from samebits.lock.compare import Difference, compare_machines, make_difference
from samebits.record.canonical import canonical_bytes

ASKED = "another question is asked"
IN_FORCE = "the target computes otherwise"
BITS_SEEN = "what can be compared"
HARMLESS = frozenset({"axes", "budget", "detect", "need", "prompts", "record"})
"""Options that choose how much is asked, and leave each question as it is; prompts are a file's
name, since their texts are compared for themselves."""
PLACES = frozenset({"target"})
"""Options that say where the target is, not what it is asked."""


class Prompts(NamedTuple):
    """The prompts of two records."""

    common: tuple[AuditPrompt, ...]
    """In A's order."""
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    changed: tuple[str, ...]


def compare_prompts(a: Sequence[AuditPrompt], b: Sequence[AuditPrompt]) -> Prompts:
    """Find the prompts that two records have in common, and name the others."""
    ours, theirs = {prompt.id: prompt for prompt in a}, {prompt.id: prompt for prompt in b}
    return Prompts(
        common=tuple(prompt for prompt in a if theirs.get(prompt.id) == prompt),
        only_a=tuple(name for name in ours if name not in theirs),
        only_b=tuple(name for name in theirs if name not in ours),
        changed=tuple(name for name in ours if name in theirs and ours[name] != theirs[name]),
    )


def compare_machines_of(a: AuditRecord, b: AuditRecord) -> tuple[Difference, ...]:
    """Compare the machines of two records, and those of each record's attempts."""
    across = compare_machines(a.header.machine, b.header.machine)
    return (*across, *compare_attempts("A", a), *compare_attempts("B", b))


def compare_attempts(name: str, record: AuditRecord) -> Iterator[Difference]:
    """Compare the machine that a record began on with those it went on upon."""
    for resumed in record.resumed:
        if resumed.machine is not None:
            for item in compare_machines(record.header.machine, resumed.machine):
                yield replace(item, field=f"{name}, attempt {resumed.attempt}: {item.field}")


def compare_setup(a: Header, b: Header) -> tuple[Difference, ...]:
    """Compare what was asked and what is in force."""
    return (
        *map(judge_option, compare_values("asked", a.asked, b.asked, ASKED)),
        *compare_values("target", name_target(a), name_target(b), ASKED),
        *compare_values("target", list_reports(a), list_reports(b), BITS_SEEN),
        *compare_values("in_force", a.target.in_force, b.target.in_force, IN_FORCE),
    )


def judge_option(found: Difference) -> Difference:
    """Say what another value of an option can do, which its name tells."""
    name = found.field.split(".")[1]
    effect = "" if name in HARMLESS else IN_FORCE if name in PLACES else ASKED
    return make_difference(found.field, found.a, found.b, effect)


def name_target(header: Header) -> dict[str, Any]:
    """Give what names a target."""
    return {"kind": header.target.kind, "name": header.target.name}


def list_reports(header: Header) -> dict[str, Any]:
    """Give what a target reports."""
    return {"reports": sorted(header.target.reports)}


def compare_values(
    field: str, a: Mapping[str, Any], b: Mapping[str, Any], effect: str
) -> Iterator[Difference]:
    """Compare two mappings of plain values by name, mappings within them too."""
    for name in sorted(a.keys() | b.keys()):
        one, other = a.get(name), b.get(name)
        if isinstance(one, Mapping) and isinstance(other, Mapping):
            yield from compare_values(f"{field}.{name}", one, other, effect)
        elif spell(one) != spell(other):
            yield make_difference(f"{field}.{name}", spell(one), spell(other), effect)


def spell(value: Any) -> str | None:
    """Spell a plain value for people; None if there is none."""
    if value is None or isinstance(value, str):
        return value
    return canonical_bytes(value).decode()
