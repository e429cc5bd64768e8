"""A session that serves requests under one remedy. Runs in a worker process only.

The prompts of an ask come together: they are one group. In an audit's sessions they stand alone.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from samebits.advise.servers import Server, Start, make_server
from samebits.audit.condition import Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.hf import HfSettings
from samebits.errors import RequestError, UnsupportedInput


def open_session(settings: Mapping[str, Any], process: Process) -> "RemedySession":
    """Load a model and bring a remedy about.

    Args:
        settings: serve, model, options, is_pinned and companions, as bench.py writes them.
    Raises:
        ConfigError: There is no such folder, or the remedy does not take this model.
        ModelFileError: It cannot be loaded.
    """
    start = Start(
        serve=settings["serve"],
        model=HfSettings(**settings["model"]),
        process=process,
        options=settings["options"],
        is_pinned=settings["is_pinned"],
        companions=tuple(settings["companions"]),
    )
    return RemedySession(make_server(start))


class RemedySession:
    """Serves groups of prompts."""

    def __init__(self, server: Server) -> None:
        self.server = server

    @property
    def facts(self) -> TargetFacts:
        """What is in force now, with what was counted since the start."""
        found = self.server.facts
        return replace(found, in_force={**found.in_force, **self.server.counts()})

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer all prompts of an ask together; each is given its part of the time."""
        began = time.perf_counter()
        try:
            made: list[dict[str, Any]] = self.server.serve(ask.prompts, ask.max_tokens)
        except (UnsupportedInput, RequestError) as error:
            made = [{"error": str(error)}] * len(ask.prompts)
        except (RuntimeError, MemoryError) as error:  # How torch reports that memory ran out.
            made = [{"error": f"{type(error).__name__}: {error}"}] * len(ask.prompts)
        part_s = (time.perf_counter() - began) / len(ask.prompts)
        for fields in made:
            yield Answer(**fields, elapsed_s=part_s)

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        """Look at nothing: an advice asks what differs, not why."""
        return None
