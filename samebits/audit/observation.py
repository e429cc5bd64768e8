"""What was seen: one answer of a target, and where in the audit it was given.

Plain values only: an observation is a line of a record, and reports read nothing else.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a target gave for one prompt under one condition.

    A field is None where the target cannot report it; it is never made up.
    """

    text: str = ""
    token_ids: tuple[int, ...] | None = None
    tokens: tuple[str, ...] | None = None
    """Spelling of each token, for targets that report no ids."""
    finish_reason: str | None = None
    steps: tuple[str, ...] | None = None
    """Bits of each step: the first 16 hexadecimal digits of the SHA-256 of its raw logits,
    or of the spelling of the chosen token's log-probability. Equal only if the bits are."""
    margins: tuple[float, ...] | None = None
    """Largest logit minus second largest at each step, in nats."""
    seconds: tuple[int | str, ...] | None = None
    """The second-best token of each step, as id or spelling."""
    logprobs: tuple[float, ...] | None = None
    """Log-probability of each chosen token, in nats."""
    others: tuple[str, ...] = ()
    """Texts of the further samples if n > 1."""
    prompt_text: str | None = None
    """The rendered prompt, if the target renders it."""
    num_prompt_tokens: int | None = None
    num_tokens: int | None = None
    """Output tokens as the target counts them."""
    fingerprint: str | None = None
    """What a hosted service says of its own configuration; nothing is concluded from it."""
    elapsed_s: float = 0.0
    error: str | None = None
    """Why there is no answer; all else is empty then. A missing answer is never a difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """An answer and its place."""

    condition: str
    """Key of the condition."""
    prompt: str
    """Id of the prompt."""
    round: int
    """0 is the first look at all prompts; later ones repeat where something differed."""
    repeat: int
    """Counts the calls of one condition, prompt and round."""
    attempt: int
    """How often the audit had been resumed; calls that lean on each other share one."""
    session: int
    """Counts the processes, or connections, that the target opened."""
    answer: Answer
