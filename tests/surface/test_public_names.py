"""The public surface is a file: a change of a name or signature shows in the diff of a review.

Types are left out: how they are spelt differs between versions of Python and NumPy, and mypy reads
them anyway. To accept a change: python -m tests.surface.test_public_names
"""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path

import samebits

SNAPSHOT = Path(__file__).with_name("public_names.txt")


def signature_lines(name: str, value: object) -> Iterator[str]:
    """Yield one line for a public object and one for each public member it defines."""
    if isinstance(value, str):
        yield f"{name}: str"
        return
    if inspect.isfunction(value):
        yield f"{name}{parameters_of(value)}"
        return
    assert isinstance(value, type)
    bases = ", ".join(base.__name__ for base in value.__bases__)
    yield f"class {name}({bases}): {parameters_of(value)}"
    for member_name, member in sorted(vars(value).items()):
        if not member_name.startswith("_"):
            yield f"    {member_text(member_name, member)}"


def parameters_of(function: Callable[..., object]) -> str:
    """Write names, kinds and defaults."""
    signature = inspect.signature(function)
    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


def member_text(name: str, member: object) -> str:
    if isinstance(member, classmethod | staticmethod):
        return f"{type(member).__name__} {name}{parameters_of(member.__func__)}"
    if inspect.isfunction(member):
        return f"{name}{parameters_of(member)}"
    return f"property {name}" if isinstance(member, property) else name


def surface_text() -> str:
    names = samebits.__all__
    return "".join(
        f"{line}\n" for name in names for line in signature_lines(name, getattr(samebits, name))
    )


def test_public_names_are_sorted_and_unique() -> None:
    assert samebits.__all__ == sorted(set(samebits.__all__))


def test_every_public_name_is_listed_by_dir() -> None:
    assert set(samebits.__all__) <= set(dir(samebits))


def test_public_names_and_signatures_match_the_snapshot() -> None:
    assert surface_text() == SNAPSHOT.read_text(encoding="utf-8"), (
        "a public name changed; if that is meant: python -m tests.surface.test_public_names"
    )


if __name__ == "__main__":
    SNAPSHOT.write_text(surface_text(), encoding="utf-8")
