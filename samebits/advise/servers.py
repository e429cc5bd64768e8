"""What serves requests under each remedy. Runs in a worker process only.

Torch is loaded by the servers that need it; our engine's process stays without it, so that its
memory can be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

from samebits.audit.condition import Process
from samebits.audit.prompts import AuditPrompt, as_messages
from samebits.audit.target import TargetFacts
from samebits.audit.targets.engine import EngineSettings
from samebits.audit.targets.engine_facts import describe_engine
from samebits.audit.targets.engine_session import load_audited
from samebits.audit.targets.hf import HfSettings
from samebits.engine import Completion, SamplingParams
from samebits.record.digest import STEP_DIGITS

KV_TOKENS = 8192
"""What fits into our engine's pool at once; requests beyond it wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a server starts from."""

    serve: str
    """Names the server."""
    model: HfSettings
    process: Process
    options: Mapping[str, Any]
    """Of the rung."""
    is_pinned: bool
    companions: tuple[str, ...]
    """Texts to calibrate with; never observed."""


class Server(Protocol):
    """Serves groups of prompts."""

    @property
    def facts(self) -> TargetFacts:
        """What is in force, and what could be elsewhere."""
        ...

    def serve(self, prompts: Sequence[AuditPrompt], max_tokens: int) -> list[dict[str, Any]]:
        """Answer prompts that came together, greedily; the fields of an Answer for each."""
        ...

    def counts(self) -> Mapping[str, Any]:
        """Say what was counted since the start, by name."""
        ...


class EngineServer:
    """Serves through our engine."""

    def __init__(self, start: Start) -> None:
        settings = EngineSettings(
            model=start.model.path,
            name=start.model.name,
            arithmetic=start.options["arithmetic"],
            threads=start.model.threads,
        )
        self.engine = load_audited(settings, start.process, KV_TOKENS)
        self.found = describe_engine(self.engine, settings)

    @property
    def facts(self) -> TargetFacts:
        """What is in force, and what could be elsewhere."""
        return self.found

    def serve(self, prompts: Sequence[AuditPrompt], max_tokens: int) -> list[dict[str, Any]]:
        """Answer prompts that came together."""
        params = SamplingParams(temperature=0.0, max_tokens=max_tokens)
        asked = [prompt.text or as_messages(prompt) for prompt in prompts]
        done = self.engine.generate(asked, params, receipt=True)
        return [make_fields(completion) for completion in done]

    def counts(self) -> Mapping[str, Any]:
        """Count nothing."""
        return {}


def make_fields(completion: Completion) -> dict[str, Any]:
    """Give the fields of an answer; the bits of its steps are in the receipt."""
    [output] = completion.outputs
    assert completion.receipt is not None
    [sample] = completion.receipt.samples
    return {
        "text": output.text,
        "token_ids": output.token_ids,
        "finish_reason": output.finish_reason,
        "steps": tuple(step.rpartition(":")[2][:STEP_DIGITS] for step in sample.steps),
        "num_prompt_tokens": len(completion.prompt_ids),
        "num_tokens": len(output.token_ids),
    }


SERVERS: Mapping[str, str] = {
    "engine": "servers:EngineServer",
    "batch": "torch_servers:BatchServer",
    "stable": "torch_servers:StableServer",
    "guard": "guard_server:GuardServer",
    "cache": "cache_server:CacheServer",
}
"""By the name that rungs have for it: module of this package and class, imported when needed."""


def make_server(start: Start) -> Server:
    """Make the server that a rung names.

    Raises:
        ConfigError, ModelFileError: It cannot be brought about with this model.
    """
    module, _, name = SERVERS[start.serve].partition(":")
    server: Server = getattr(import_module(f"samebits.advise.{module}"), name)(start)
    return server
