"""The prompts of an audit: the user's file, or those that lie beside this one."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPrompt:
    """One thing to ask; a cluster of the statistics."""

    id: str
    text: str | None = None
    """Sent as it is; None if messages are given."""
    messages: tuple[tuple[str, str], ...] | None = None
    """(role, content) for the chat template."""
    answer: str | None = None
    """The right answer, if the prompt is a task."""
