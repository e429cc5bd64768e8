"""What an audit found, as plain values: reports read only this.

Made from a record by analyse.py, and by nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from samebits.audit.probe import Probe


class Verdict(StrEnum):
    """What can be said of an axis, or of the whole."""

    NO_EFFECT = "no effect seen"
    MOVES_BITS = "moves bits, not tokens"
    CHANGES_TOKENS = "changes tokens"
    CANNOT_TELL = "cannot tell"
    NOT_TESTED = "not tested"
    NOT_EXPLAINED = "not explained by the axes tested"


class Outcome(StrEnum):
    """At which level two answers are compared."""

    BITS = "bits"
    TOKENS = "tokens"
    """Token ids, or spellings, or the text: the finest that both answers have."""
    ANSWER = "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share with its 95 % interval (Clopper-Pearson)."""

    num: int
    of: int
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Base against treated at one outcome level; clusters are prompts."""

    outcome: Outcome
    differ: Rate
    """Prompts with some pair across the two conditions that differs."""
    base_noise: Rate
    """Prompts whose base calls differ among themselves."""
    treated_noise: Rate
    pairs: int
    """Pairs compared across, all prompts."""
    pairs_differ: int
    p_value: float
    """Exact, by `statistics.exchangeability_p`, at the look that found it, else at the last. 0 or 1
    where repeats that must agree need no test."""
    is_found: bool
    """Whether p_value stands after control of the false-discovery rate."""
    smallest_rate: float
    """Share of prompts that would have been seen with 95 % probability: by the prompts whose
    repeats agree, since where they do not an effect could hide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelResult:
    """One contrast."""

    axis: str
    level: str
    verdict: Verdict
    reason: str
    """Why it was not tested, or cannot be told; empty otherwise."""
    base: str
    """Key of the condition, here and below."""
    treated: str
    num_prompts: int
    num_calls: int
    num_missing: int
    """Calls without an answer."""
    comparisons: Mapping[str, Comparison]
    """By outcome; bits are absent where the target does not report them."""
    first_divergence: int | None
    """Earliest token, from 0, that differs."""
    affected: tuple[str, ...]
    """Ids of the prompts that differ in tokens; in bits if none does."""
    only_if: str
    """What the affected prompts share and the others lack, such as "prompts of 57 tokens or
    more"; empty if nothing was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisResult:
    """One axis: the worst of its levels."""

    key: str
    verdict: Verdict
    reason: str
    levels: tuple[LevelResult, ...]
    threshold: tuple[str, str] | None
    """Largest level without an effect and smallest with one, where levels are ordered."""
    notes: tuple[str, ...]
    """Findings special to the axis, such as "an omitted seed is a constant"; English sentences
    from notes.py, as are all reasons but those that a target gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """Repeats of the base condition, everything held."""

    num_prompts: int
    repeats: int
    """Calls a prompt, the least over prompts."""
    unique_outputs: tuple[tuple[int, int], ...]
    """(number of distinct outputs over all conditions whose outputs must match, prompts that have
    it)."""
    tar_raw: Rate
    """TARr@N: prompts whose N repeats of the base agree in every token."""
    tar_answer: Rate | None
    """TARa@N: the same of extracted answers; None without an extractor."""
    noise_pairs: Rate
    """Rerun noise: pairs of repeats that differ; interval by prompts."""
    mean_score: float | None
    """Mean of right answers; None without expected answers. Below: its two errors."""
    sampling_se: float | None
    """Standard error from the choice of prompts."""
    rerun_se: float | None
    """Standard error from repeating the same prompts."""
    pass_all: Rate | None
    """pass^k: prompts right in every one of the k repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """Share of pairs of one axis that still agree after so many tokens (Kaplan-Meier)."""

    axis: str
    num_pairs: int
    tokens: tuple[int, ...]
    alive: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Near-ties: how often the margin lies within the drift."""

    num_steps: int
    edges: tuple[float, ...]
    """Histogram of margins in nats: edges of the bins; the last bin has no upper end."""
    counts: tuple[int, ...]
    num_exact_ties: int
    ties_to_lowest: int | None
    """Exact ties that went to the lower id; None if ids are not known."""
    drift_median: float
    """|change of the margin| between the conditions of found axes, same tokens before: nats."""
    drift_p95: float
    drift_axis: str
    """The axis whose drift it is: the one that changes most tokens; empty if none moves bits."""
    share_within: float
    """Steps whose margin is at most drift_p95."""
    expected_flips: float
    """Per 1,000 tokens, were drift and margin independent."""
    observed_flips: Rate
    """First divergences over steps at risk, of that axis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """Everything a report says."""

    verdict: Verdict
    """The worst over axes; NOT_EXPLAINED if repeats differ and no axis accounts for it."""
    need: str
    """tokens or bits: what `exit_code` is about."""
    exit_code: int
    """0 stable, 1 unstable, 3 cannot tell."""
    header: Mapping[str, Any]
    """The record's first line: what was asked and in force, facts of target and machine."""
    axes: tuple[AxisResult, ...]
    stability: Stability
    survival: tuple[Survival, ...]
    census: Census | None
    probes: tuple[Probe, ...]
    heat: Mapping[str, Mapping[str, str]]
    """axis, then prompt id, to "same", "bits", "tokens" or "missing"; prompts that were not asked
    are absent."""
    positive_control: str
    """Whether a prompt changed by a little was seen to change the answer: "differs", "same", or
    "not made"."""
    num_observations: int
    num_missing: int
    is_complete: bool
    """False if the audit was interrupted or its budget ended."""
    ended: str
    """Why the audit ended, from its last line; empty if it has none."""
    false_discovery_rate: float
    own_s: float | None
    target_s: float | None
    record_digest: str
