"""The lines that an audit and its workers send each other: one JSON object a line.

A request names what to do, a reply has one key that says what it is. Errors travel by the name of
their class, so that they are raised again as what they were.
"""

import json
from collections.abc import Mapping
from typing import Any

from samebits import errors
from samebits.audit.condition import Call
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask
from samebits.errors import InvariantBroken, SamebitsError, TargetError
from samebits.record.typed import read_typed

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


def read_ask(value: Mapping[str, Any]) -> Ask:
    """Make an ask again from `plain_value`."""
    prompts, companions = (
        tuple(read_typed(AuditPrompt, item, name) for item in value[name])
        for name in ("prompts", "companions")
    )
    return Ask(
        call=read_typed(Call, value["call"], "call"),
        prompts=prompts,
        max_tokens=value["max_tokens"],
        block=value["block"],
        companions=companions,
    )
