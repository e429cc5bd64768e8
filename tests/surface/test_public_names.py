"""The public surface is a file: a change of a name or signature shows in the diff of a review.

To accept a change: python tests/surface/test_public_names.py
"""

import inspect
from collections.abc import Iterator
from pathlib import Path

import samebits

SNAPSHOT = Path(__file__).with_name("public_names.txt")


def signature_lines(name: str, value: object) -> Iterator[str]:
    """Yield one line for a public object and one for each public member it defines."""
    if isinstance(value, str):
        yield f"{name}: str"
        return
    if not isinstance(value, type):
        assert callable(value)
        yield f"{name}{inspect.signature(value)}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases}){init_text(value)}"
    for member_name, member in sorted(vars(value).items()):
        if not member_name.startswith("_"):
            yield f"    {member_text(member_name, member)}"


def init_text(value: type) -> str:
    return str(inspect.signature(value)).removesuffix(" -> None")


def member_text(name: str, member: object) -> str:
    if isinstance(member, classmethod | staticmethod):
        return f"{type(member).__name__} {name}{inspect.signature(member.__func__)}"
    if inspect.isfunction(member):
        return f"{name}{inspect.signature(member)}"
    if isinstance(member, property):
        assert member.fget is not None
        return f"property {name} -> {inspect.signature(member.fget).return_annotation}"
    return name


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
        f"a public name changed; if that is meant: python tests/surface/{Path(__file__).name}"
    )


if __name__ == "__main__":
    SNAPSHOT.write_text(surface_text(), encoding="utf-8")
