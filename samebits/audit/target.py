"""What an audit asks of whatever it audits.

Two nouns: a Target says what it is and what it can do; a Session is one process or connection of
it. targets/ has one file for each kind.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFacts:
    """What a target says of itself once it is open."""

    kind: str
    """http, hf, engine or stub."""
    name: str
    """The model, as asked for."""
    in_force: Mapping[str, Any]
    """Settings in force: dtype, attention, threads, versions, digests, server and its version …"""
    reports: tuple[str, ...]
    """Which of text, token_ids, tokens, steps, margins, logprobs it reports."""
    dtypes: tuple[str, ...] = ()
    """Other dtypes than the base one that can be tried, here and below; most different first."""
    attentions: tuple[str, ...] = ()
    isas: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    variables: tuple[tuple[tuple[str, str], ...], ...] = ()
    """Settings of environment variables to try, each one or more variables."""
    can_compile: bool = False
    max_concurrency: int = 1
    """Most requests at once that make sense."""
    max_logprobs: int = 0
    is_local: bool = True
    """Whether its session can explain where bits part."""
    keeps_prefixes: bool = False
    """Whether a call may find the prompt's beginning in a cache that an earlier call filled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One call to make for each prompt, in order."""

    call: Call
    prompts: Sequence[AuditPrompt]
    max_tokens: int
    block: str
    """Names the block of calls whose answers are compared; the mark of a cold prefix is made of
    it."""
    companions: Sequence[AuditPrompt]
    """Texts to take neighbours from; never observed."""


class Session(Protocol):
    """One process or connection of a target."""

    @property
    def facts(self) -> TargetFacts:
        """What was found on opening."""
        ...

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer each prompt in order, as it comes.

        Raises:
            TargetError: Nothing more can be had from this target.
        """
        ...

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        """Find where the bits of one prompt part between two calls; None if it cannot look."""
        ...


class Target(Protocol):
    """Something to audit."""

    def refuse(self, condition: Condition, facts: TargetFacts) -> str:
        """Say why a condition cannot be brought about here; empty if it can."""
        ...

    def open(self, process: Process) -> AbstractContextManager[Session]:
        """Start a session.

        Raises:
            TargetError: It cannot be reached, or does not speak the protocol.
            ConfigError: It was asked for something impossible.
        """
        ...
