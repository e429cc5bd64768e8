"""From the TARGET of a command line to something that can be audited."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samebits.cli.environment import read_environment, read_key, read_variables
from samebits.errors import ConfigError

if TYPE_CHECKING:
    from samebits.audit.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAsk:
    """What the user says of the target; each kind reads its own options and refuses others."""

    target: str
    model: str | None = None
    arithmetic: str = "sb1"
    weights: str = "w16"
    dtype: str | None = None
    attention: str | None = None
    compile: bool = False
    threads: int | None = None
    api: str = "auto"
    key_variable: str = "OPENAI_API_KEY"
    rate_limit: float | None = None
    most_at_once: int = 16
    timeout: float = 120.0

    def asked(self) -> dict[str, Any]:
        """Give what is part of the question, as options by name."""
        kind = find_kind(self.target)
        return {"target": self.target, **{name: getattr(self, name) for name in OPTIONS[kind]}}


OPTIONS: Mapping[str, tuple[str, ...]] = {
    "http": ("model", "api"),
    "hf": ("dtype", "attention", "threads", "compile"),
    "engine": ("arithmetic", "weights", "threads"),
    "stub": (),
}
"""Options of each kind that are part of the question."""
BESIDES = {"http": ("key_variable", "rate_limit", "most_at_once", "timeout")}
"""Options of a kind that are not."""
KINDS = {"http": "http", "https": "http", "hf": "hf", "engine": "engine", "stub": "stub"}
HOW = "http://HOST:PORT/v1, https://…, hf:FOLDER or engine:MODEL"


def find_kind(target: str) -> str:
    """Tell the kind of a target from its beginning.

    Raises:
        ConfigError: It has none of those known.
    """
    head, colon, rest = target.partition(":")
    kind = KINDS.get(head.lower())
    if kind is None or not colon or not rest:
        raise ConfigError(
            expected=f"a target: {HOW}",
            found=repr(target),
            remedy=f"For a folder of transformers: hf:{target}" if Path(target).is_dir() else "",
        )
    return kind


def make_target(ask: TargetAsk) -> "Target":
    """Build the target; nothing is opened yet.

    Raises:
        ConfigError: An option of another kind, or a value nobody implements.
        ModelFileError: A model cannot be found or fetched.
    """
    kind = find_kind(ask.target)
    own = (*OPTIONS[kind], *BESIDES.get(kind, ()))
    for option in fields(ask):
        is_given = option.name != "target" and getattr(ask, option.name) != option.default
        if is_given and option.name not in own:
            raise ConfigError(
                expected=f"options of a target of kind {kind}: {', '.join(own) or 'none'}",
                found=f"--{option.name.replace('_', '-')}",
            )
    return MAKERS[kind](ask)


def make_http(ask: TargetAsk) -> "Target":
    """Describe an endpoint."""
    from samebits.audit.targets.http import HttpTarget

    return HttpTarget(
        ask.target,
        model=ask.model,
        api_key=read_key(ask.key_variable),
        api=ask.api,
        max_concurrency=ask.most_at_once,
        rate_limit=ask.rate_limit,
        timeout_s=ask.timeout,
    )


def make_hf(ask: TargetAsk) -> "Target":
    """Describe a folder of transformers; a missing one is told before torch is loaded."""
    from samebits.audit.targets.hf import HfSettings, check_folder
    from samebits.audit.targets.local import LocalTarget

    path = ask.target.partition(":")[2]
    check_folder(path)
    settings = HfSettings(
        path=path,
        name=ask.target,
        dtype=ask.dtype,
        attention=ask.attention or "sdpa",
        threads=ask.threads,
        compile=ask.compile,
    )
    return LocalTarget("hf", settings.value(), read_variables())


def make_engine(ask: TargetAsk) -> "Target":
    """Describe a model in our engine; fetch it if need be."""
    from samebits.audit.targets.engine import EngineSettings
    from samebits.audit.targets.local import LocalTarget
    from samebits.cli.loading import find_model

    environment = read_environment()
    settings = EngineSettings(
        model=str(find_model(ask.target.partition(":")[2], environment)),
        name=ask.target,
        arithmetic=ask.arithmetic,
        weights=ask.weights,
        threads=ask.threads,
        max_isa=environment.max_isa,
    )
    return LocalTarget("engine", settings.value(), read_variables())


def make_stub(ask: TargetAsk) -> "Target":
    """Make a scripted target, to see what an audit shows of a known cause."""
    from samebits.audit.targets.stub import Stub
    from samebits.audit.targets.stub_causes import read_script

    return Stub(read_script(ask.target.partition(":")[2]))


MAKERS: Mapping[str, Callable[[TargetAsk], "Target"]] = {
    "http": make_http,
    "hf": make_hf,
    "engine": make_engine,
    "stub": make_stub,
}
