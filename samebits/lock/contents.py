"""What a lock holds: the machine, and all else that reaches a model's answers from outside.

No clock, host name, user, path or address stands in it; values are kept only in a known shape.
Normative: docs/formats.md, "Lock file".
"""

from collections.abc import Mapping
from dataclasses import dataclass

from samebits.lock.facts import MachineFacts
from samebits.lock.probe import TorchFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """An installed package."""

    version: str
    """With its local tag, such as 2.13.0+cpu."""
    record: str | None
    """Digest of what its wheel held; None without a RECORD."""
    origin: str = ""
    """Empty: an index; else folder, editable folder, file, or commit with its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A graphics processor."""

    name: str
    driver: str
    """Version of its driver; empty if not told, here and below."""
    capability: str
    """Compute capability, such as 9.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDigests:
    """Digests of a model's files, and of the two parts of them that are easily overlooked."""

    files: Mapping[str, str]
    """By name; "weights" for a single file, whose name may tell anything."""
    tokenizer: str | None
    """None if it could not be read apart from the files."""
    template: str | None
    """None if there is no chat template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFlags:
    """Settings of an engine, after its defaults."""

    values: Mapping[str, str]
    """Those on the list of flags.py."""
    num_left_out: int
    """Those that are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitState:
    """Which code the folder holds."""

    commit: str
    is_dirty: bool
    """Whether tracked files differ from the commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """An environment."""

    machine: MachineFacts
    """Pools and packages are those of the probed interpreter, after it has computed."""
    gpus: tuple[Gpu, ...]
    packages: Mapping[str, Package]
    """All that are installed, by normalized name."""
    torch: TorchFacts | None
    probe: Mapping[str, str]
    """Digests of fixed results."""
    lacks: tuple[str, ...]
    """What the probe did not find."""
    threads: int | None
    """That the engine was asked to use; None if nothing but variables asks."""
    model: ModelDigests | None
    flags: EngineFlags | None
    git: GitState | None
    """None outside a repository."""
