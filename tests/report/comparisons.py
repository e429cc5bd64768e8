"""Comparisons of two records written by hand."""

from samebits.audit.compare_results import (
    ConditionComparison,
    Flips,
    Footing,
    PromptComparison,
    RecordComparison,
    ScoreVerdict,
)
from samebits.audit.results import Rate, Verdict
from samebits.lock.compare import Difference, Severity
from tests.report.audit_results import DIGEST, HOSTILE

NONE = Rate(num=0, of=3, low=0.0, high=0.7)
SOME = Rate(num=1, of=3, low=0.01, high=0.9)
MACHINE = Difference(
    field="packages.torch",
    a="2.12",
    b="absent",
    severity=Severity.MOVES_BITS,
    effect="other kernels or another order of operations",
)
ASKED = Difference(field="asked.out", a="a.jsonl", b=HOSTILE, severity=Severity.HARMLESS, effect="")


def make_prompt(name: str, token: int | None, text: str = "") -> PromptComparison:
    return PromptComparison(
        prompt=name,
        num_a=2,
        num_b=1,
        tokens_differ=token is not None or bool(text),
        first_token=token,
        bits_differ=token is not None,
        first_bits=token,
        a_repeats=True,
        b_repeats=None,
        a_text="The sky is blue." if text else "",
        b_text=text,
    )


def make_flips() -> Flips:
    return Flips(
        verdict=ScoreVerdict.EQUAL_MEANS,
        num_items=3,
        mean_a=2 / 3,
        mean_b=2 / 3,
        right_to_wrong=("p01",),
        wrong_to_right=("p02",),
        p_value=1.0,
        unsteady_a=(),
        unsteady_b=("p02",),
    )


def make_condition() -> ConditionComparison:
    return ConditionComparison(
        condition="{}",
        verdict=Verdict.CANNOT_TELL,
        reason="tokens of 2 prompts differ, but a side was asked only once",
        tokens_differ=SOME,
        bits_differ=None,
        a_noise=NONE,
        b_noise=Rate(num=0, of=0, low=0.0, high=1.0),
        a_bits_noise=None,
        b_bits_noise=None,
        p_tokens=0.3,
        p_bits=None,
        num_missing=0,
        prompts=(
            make_prompt("p00", None),
            make_prompt("p01", 4),
            make_prompt("p02", None, HOSTILE),
        ),
        flips=make_flips(),
    )


def make_unequal() -> RecordComparison:
    """Another torch, two changed prompts, equal means."""
    return RecordComparison(
        footing=Footing.UNEQUAL,
        verdict=Verdict.CANNOT_TELL,
        a_digest=DIGEST,
        b_digest=DIGEST,
        a_name="model-a",
        b_name=HOSTILE,
        machine=(MACHINE,),
        asked=(ASKED,),
        only_a=("q1",),
        only_b=(),
        changed=("q2",),
        conditions=(make_condition(),),
        conditions_only_a=('{"batch":8}',),
        conditions_only_b=(),
    )


def make_nothing() -> RecordComparison:
    """Nothing in common."""
    return RecordComparison(
        footing=Footing.NOTHING,
        verdict=Verdict.CANNOT_TELL,
        a_digest=DIGEST,
        b_digest=DIGEST,
        a_name="a",
        b_name="b",
        machine=(),
        asked=(),
        only_a=(),
        only_b=(),
        changed=(),
        conditions=(),
        conditions_only_a=(),
        conditions_only_b=(),
    )


COMPARISONS = {"unequal": make_unequal, "nothing": make_nothing}
"""By name."""
