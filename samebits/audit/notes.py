"""Every sentence that an analysis gives, in English; reports translate them.

A name in braces stands for a value.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a verdict is not sharper."""

    NO_CALLS = "no calls were made"
    MISSING = "more than half of the answers are missing"
    FEW_PROMPTS = "too few prompts"
    NOISE = "repeats differ among themselves in too many prompts"
    FEW_TOKENS = "tokens differ in too few prompts to rule out chance"
    FEW_BITS = "bits differ in too few prompts to rule out chance"
    BITS_AND_FEW_TOKENS = "bits move, and tokens differ in too few prompts to rule out chance"
    RESTART = "a restart alone changes it"
    SEED_FAILS = "the same seed does not repeat"
    GREEDY_NOISE = "repeats without sampling differ as well"


class Note(StrEnum):
    """Findings special to an axis."""

    BITS_NOT_VISIBLE = "bits were not visible: this is about tokens only"
    PROMPT_CLOCK = "the rendered prompt contains the clock"
    FINGERPRINT = "the fingerprint stayed the same while the text changed: do not trust it"
    SEED_IGNORED = "the seed is ignored or not enough"
    SEED_NO_EFFECT = "another seed changes nothing"
    SEED_OMITTED_CONSTANT = "an omitted seed is a constant"
    SEED_NULL_CONSTANT = "a null seed is a constant"
    SEED_ZERO_DROPPED = "seed 0 does not repeat: zero is not taken as a value"
    SAMPLES_DIFFER = "further samples of one request differ at temperature 0"


class Only(StrEnum):
    """What affected prompts share."""

    TOKENS_OR_MORE = "prompts of {n} tokens or more"
    TOKENS_OR_FEWER = "prompts of {n} tokens or fewer"
    CHARACTERS_OR_MORE = "prompts of {n} characters or more"
    CHARACTERS_OR_FEWER = "prompts of {n} characters or fewer"
