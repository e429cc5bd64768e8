"""The lines that an audit and its workers send each other: one JSON object a line.

A request names what to do, a reply has one key that says what it is. Errors travel by the name of
their class, so that they are raised again as what they were.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from samebits import errors
from samebits.audit.condition import Call, Process, take
from samebits.audit.observation import Answer
from samebits.audit.probe import NearTie, Operands, Place, Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.errors import InvariantBroken, RecordCorrupt, SamebitsError, TargetError

Part = TypeVar("Part", Process, Call)
KINDS: Mapping[str, type[SamebitsError]] = {
    kind.__name__: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, SamebitsError)
}


def write_line(value: Mapping[str, Any]) -> bytes:
    """Spell one message.

    Raises:
        InvariantBroken: A number that JSON does not have.
    """
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except ValueError as error:
        raise InvariantBroken(expected="finite numbers", found=str(error)) from error


def read_line(line: bytes) -> dict[str, Any]:
    """Read one message.

    Raises:
        TargetError: It is cut off or no JSON object.
    """
    try:
        value = json.loads(line)
    except ValueError as error:
        raise TargetError(expected="a whole line of JSON from a worker", found=str(error)) from None
    if not isinstance(value, dict):
        raise TargetError(expected="a JSON object from a worker", found=type(value).__name__)
    return value


def write_error(error: SamebitsError) -> dict[str, Any]:
    """Spell an error."""
    return {
        "kind": type(error).__name__,
        "expected": error.expected,
        "found": error.found,
        "remedy": error.remedy,
    }


def read_error(value: Mapping[str, str]) -> SamebitsError:
    """Make the error again."""
    facts = {name: value[name] for name in ("expected", "found", "remedy")}
    return KINDS.get(value["kind"], TargetError)(**facts)


def read_process(value: Mapping[str, Any]) -> Process:
    """Make a process again from `asdict`.

    Raises:
        RecordCorrupt: An unknown name, or a value of another type.
    """
    return read_part(Process, value)


def read_part(kind: type[Part], value: Mapping[str, Any]) -> Part:
    """Make a Process or a Call again."""
    left = dict(value)
    part: Part = take(kind, left)
    if left:
        raise RecordCorrupt(expected=f"the fields of {kind.__name__}", found=", ".join(left))
    return part


def read_ask(value: Mapping[str, Any]) -> Ask:
    """Make an ask again from `asdict`."""
    return Ask(
        call=read_part(Call, value["call"]),
        prompts=tuple(map(read_prompt, value["prompts"])),
        max_tokens=value["max_tokens"],
        block=value["block"],
        companions=tuple(map(read_prompt, value["companions"])),
    )


def read_prompt(value: Mapping[str, Any]) -> AuditPrompt:
    """Make a prompt again from `asdict`."""
    return AuditPrompt(**freeze(value))


def read_answer(value: Mapping[str, Any]) -> Answer:
    """Make an answer again from `asdict`."""
    return Answer(**freeze(value))


def read_facts(value: Mapping[str, Any]) -> TargetFacts:
    """Make facts again from `write_facts`."""
    return TargetFacts(**freeze(value))


def write_facts(facts: TargetFacts) -> dict[str, Any]:
    """Spell facts; settings in force may be any mapping."""
    return asdict(facts) | {"in_force": dict(facts.in_force)}


def read_probe(value: Mapping[str, Any]) -> Probe:
    """Make a probe again from `asdict`."""
    parts = freeze(value)
    return Probe(
        **parts
        | {
            "places": tuple(Place(**place) for place in parts["places"]),
            "operands": parts["operands"] and Operands(**parts["operands"]),
            "tie": parts["tie"] and NearTie(**parts["tie"]),
        }
    )


def freeze(value: Any) -> Any:
    """Turn lists into tuples, at every depth."""
    if isinstance(value, Mapping):
        return {name: freeze(item) for name, item in value.items()}
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return tuple(freeze(item) for item in value) if is_list else value
