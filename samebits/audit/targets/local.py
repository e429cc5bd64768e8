"""A target that lives on this machine: each session is a worker process of its own.

What a kind can bring about, and which variables spell its instruction-set level, its rules say;
they are modules of this folder that import neither torch nor the engine.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

from samebits.audit.condition import Condition, Process
from samebits.audit.target import TargetFacts
from samebits.audit.targets.processor import refuse_variables
from samebits.audit.targets.worker import WorkerSession, open_worker
from samebits.errors import ConfigError
from samebits.lock.processor import read_cpu_flags


class Rules(Protocol):
    """What a kind of target says in the parent, without opening anything."""

    def refuse(self, condition: Condition, facts: TargetFacts) -> str:
        """Say why a condition cannot be brought about; empty if it can."""
        ...

    def list_variables(self, process: Process) -> tuple[tuple[str, str], ...]:
        """List the environment variables that bring a process about."""
        ...


RULES = {"hf": "samebits.audit.targets.hf", "engine": "samebits.audit.targets.engine"}
"""Kind to the module of its rules."""


class LocalTarget:
    """Something to audit in worker processes."""

    def __init__(
        self, kind: str, settings: Mapping[str, Any], base_variables: Mapping[str, str]
    ) -> None:
        """Keep what every session starts from.

        Args:
            kind: hf or engine.
            settings: Plain values, as the session of this kind takes them.
            base_variables: The environment that workers start in, whole.
        """
        self.kind = kind
        self.settings = settings
        self.base_variables = base_variables
        # By name, so that a kind is imported only when it is audited.
        self.rules = cast(Rules, import_module(RULES[kind]))

    def refuse(self, condition: Condition, facts: TargetFacts) -> str:
        """Say why a condition cannot be brought about here; empty if it can."""
        variables = self.rules.list_variables(condition.process)
        return self.rules.refuse(condition, facts) or refuse_variables(variables, read_cpu_flags())

    def open(self, process: Process) -> AbstractContextManager[WorkerSession]:
        """Start a session in a process of its own.

        Raises:
            ConfigError: A variable asks for instructions that this processor lacks.
        """
        variables = self.rules.list_variables(process)
        reason = refuse_variables(variables, read_cpu_flags())
        if reason:
            raise ConfigError(expected="instructions that this processor has", found=reason)
        whole = replace(process, variables=variables)
        return open_worker(self.kind, self.settings, whole, self.base_variables)
