"""What a comparison of two records found, as plain values: the reports read only this."""

from dataclasses import dataclass
from enum import StrEnum

from samebits.audit.results import Rate, Verdict
from samebits.lock.compare import Difference


class Footing(StrEnum):
    """Whether a difference between two records can have one cause."""

    EQUAL = "made under equal conditions"
    UNEQUAL = "not made under equal conditions"
    NOTHING = "nothing in common to compare"


class ScoreVerdict(StrEnum):
    """How the right answers of two records compare."""

    SAME_ITEMS = "the same items are right"
    EQUAL_MEANS = "equal means, but different items"
    DIFFERENT = "different items and different means"


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptComparison:
    """One prompt under one condition; every answer of A against every answer of B."""

    prompt: str
    """Id."""
    num_a: int
    """Answers, without missing ones, here and below."""
    num_b: int
    tokens_differ: bool
    """Whether some pair across differs in tokens; in texts, where nothing finer is reported."""
    first_token: int | None
    """Earliest token, from 0, that differs across; None if none does or only texts are known."""
    bits_differ: bool | None
    """Whether bits differ across, up to the first token that does; None: not reported."""
    first_bits: int | None
    """Earliest step, from 0, whose bits differ across."""
    a_repeats: bool | None
    """Whether A's answers agree among themselves in tokens; None if there is only one."""
    b_repeats: bool | None
    a_text: str
    """First answer of A, as evidence; empty if tokens agree. Likewise below."""
    b_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flips:
    """Right and wrong answers, item by item: the first answer of each prompt counts."""

    verdict: ScoreVerdict
    num_items: int
    """Prompts with an expected answer that both answered."""
    mean_a: float
    """Share of right items. Never to be shown without the flips."""
    mean_b: float
    right_to_wrong: tuple[str, ...]
    """Ids: right in A, wrong in B."""
    wrong_to_right: tuple[str, ...]
    p_value: float
    """McNemar, exact and two-sided: were a flip as likely either way."""
    unsteady_a: tuple[str, ...]
    """Ids that A itself answers both right and wrong. Likewise below."""
    unsteady_b: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionComparison:
    """One condition that both records have, by the answers of round 0.

    Later rounds repeat what differed, in each record for itself.
    """

    condition: str
    """Key; "{}" is the base."""
    verdict: Verdict
    reason: str
    """Why it cannot be told; empty otherwise."""
    tokens_differ: Rate
    """Prompts with some pair across that differs in tokens."""
    bits_differ: Rate | None
    """None: not both records report bits."""
    a_noise: Rate
    """Prompts asked more than once whose answers in A differ in tokens among themselves."""
    b_noise: Rate
    a_bits_noise: Rate | None
    b_bits_noise: Rate | None
    p_tokens: float
    """The greater of two exact ones, by `statistics.exchangeability_p`: A as the base, and B."""
    p_bits: float | None
    num_missing: int
    """Answers that were errors."""
    prompts: tuple[PromptComparison, ...]
    """All compared, in A's order."""
    flips: Flips | None
    """None without expected answers, or if none was answered on both sides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordComparison:
    """Two records."""

    footing: Footing
    """Said before anything else."""
    verdict: Verdict
    """The worst over conditions."""
    a_digest: str
    """Of the record."""
    b_digest: str
    a_name: str
    """The target, as asked for."""
    b_name: str
    machine: tuple[Difference, ...]
    """Differences of the machines, those within a resumed record too."""
    asked: tuple[Difference, ...]
    """Differences of what was asked and is in force: options, target, prompts."""
    only_a: tuple[str, ...]
    """Ids of prompts that A alone has."""
    only_b: tuple[str, ...]
    changed: tuple[str, ...]
    """Ids of prompts whose text, messages or expected answer differ; they are not compared."""
    conditions: tuple[ConditionComparison, ...]
    """The base first."""
    conditions_only_a: tuple[str, ...]
    """Keys, without those with marked prompts, which are other prompts in each record."""
    conditions_only_b: tuple[str, ...]

    def exit_code(self, need: str) -> int:
        """Give 0 if nothing that is needed differs, 1 if something does, 3 if it cannot be told.

        Args:
            need: bits or tokens.
        """
        if self.verdict is Verdict.CANNOT_TELL:
            return 3
        if self.verdict is Verdict.CHANGES_TOKENS:
            return 1
        if need == "tokens":
            # Tokens that differ too rarely to be sure may stand beside bits that are found.
            return 3 if any(one.tokens_differ.num for one in self.conditions) else 0
        if all(one.bits_differ is None for one in self.conditions):
            return 3
        return 1 if self.verdict is Verdict.MOVES_BITS else 0
