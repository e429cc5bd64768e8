"""Installed packages by normalized name; a name or version of no known shape is not kept."""

import re
from collections.abc import Iterable

from samebits.lock.contents import Package
from samebits.lock.probe import FoundPackage
from samebits.lock.variables import HIDDEN

NAME = re.compile(r"[a-z0-9]([a-z0-9._-]{0,78}[a-z0-9])?", re.IGNORECASE | re.ASCII)
VERSION = re.compile(
    r"v?(\d{1,5}!)?\d{1,14}(\.\d{1,14}){0,6}[._-]?((a|b|c|rc|alpha|beta|pre|preview)[._-]?\d{0,10})?"
    r"(-\d{1,10}|[._-]?(post|rev|r)[._-]?\d{0,14})?([._-]?dev[._-]?\d{0,14})?"
    r"(\+([0-9a-f]{1,40}|[a-z0-9]{1,20})([._-]([0-9a-f]{1,40}|[a-z0-9]{1,20})){0,5})?",
    re.IGNORECASE | re.ASCII,
)
"""As the packaging standard has them; a part of the local tag is short, or hexadecimal."""


def list_by_name(found: Iterable[FoundPackage]) -> dict[str, Package]:
    """Give packages by name, in order; the first of a name is the one that is imported."""
    packages: dict[str, Package] = {}
    for one in found:
        name = normalize(one.name)
        version = one.version if VERSION.fullmatch(one.version) else HIDDEN
        package = Package(version=version, record=one.record, origin=one.origin)
        packages.setdefault(name, package)
    return dict(sorted(packages.items()))


def normalize(name: str) -> str:
    """Spell a name as the standard does: numpy, typing-extensions."""
    return re.sub(r"[-_.]+", "-", name).lower() if NAME.fullmatch(name) else HIDDEN
