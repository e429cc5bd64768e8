"""Compares two records: first whether they were made alike, then what changed.

Differences across are never given without those within: an answer that a record itself does not
repeat tells nothing of the other record. What is asked first: compare_setup.py; the answers:
compare_conditions.py.
"""

from collections.abc import Iterable, Sequence

from samebits.audit.blocks import index_observations
from samebits.audit.compare_conditions import Answers, compare_condition, judge_conditions
from samebits.audit.compare_results import ConditionComparison, Footing, RecordComparison
from samebits.audit.compare_setup import compare_machines_of, compare_prompts, compare_setup
from samebits.audit.judge_axes import worst
from samebits.audit.observation import Observation
from samebits.audit.record import AuditRecord
from samebits.audit.record_chain import read_condition
from samebits.audit.results import Verdict
from samebits.lock.compare import Difference, Severity


def compare_records(a: AuditRecord, b: AuditRecord) -> RecordComparison:
    """Compare two records, condition by condition and prompt by prompt.

    Only prompts of the same id, text, messages and expected answer are compared.
    """
    prompts = compare_prompts(a.header.prompts, b.header.prompts)
    machine, asked = compare_machines_of(a, b), compare_setup(a.header, b.header)
    ours, theirs = sort_answers(a), sort_answers(b)
    conditions = judge_conditions(
        compare_condition(key, ours[key], theirs[key], prompts.common, (a.header, b.header))
        for key in order_keys(ours.keys() & theirs.keys())
    )
    return RecordComparison(
        footing=judge_footing((*machine, *asked), conditions),
        verdict=worst(condition.verdict for condition in conditions)
        if conditions
        else Verdict.CANNOT_TELL,
        a_digest=a.digest,
        b_digest=b.digest,
        a_name=a.header.target.name,
        b_name=b.header.target.name,
        machine=machine,
        asked=asked,
        only_a=prompts.only_a,
        only_b=prompts.only_b,
        changed=prompts.changed,
        conditions=conditions,
        conditions_only_a=order_keys(ours.keys() - theirs.keys()),
        conditions_only_b=order_keys(theirs.keys() - ours.keys()),
    )


def sort_answers(record: AuditRecord) -> dict[str, Answers]:
    """Sort the answers of round 0 by condition and prompt; of a call made again the last stands.

    Conditions that mark the prompts are left out: the marks, hence the prompts, are the record's.
    """
    index = index_observations(seen for seen in record.observations if seen.round == 0)
    return {
        key: {
            prompt: [one.answer for one in latest_session(rounds[0])]
            for prompt, rounds in asked.items()
        }
        for key, asked in index.items()
        if not marks_prompts(key)
    }


def latest_session(seen: Sequence[Observation]) -> list[Observation]:
    """Keep the calls of the last process that made some: another process is another condition."""
    return [one for one in seen if one.session == seen[-1].session]


def marks_prompts(key: str) -> bool:
    """Answer whether a condition may put a mark before the prompt."""
    return read_condition(key).call.prefix is not None


def order_keys(keys: Iterable[str]) -> tuple[str, ...]:
    """Order conditions: the base first, then by what differs from it."""
    return tuple(sorted(keys, key=lambda key: (len(read_condition(key).value()), key)))


def judge_footing(
    differences: Sequence[Difference], conditions: Sequence[ConditionComparison]
) -> Footing:
    """Say whether what differs in the answers can have one cause."""
    if not any(condition.prompts for condition in conditions):
        return Footing.NOTHING
    if any(item.severity is Severity.MOVES_BITS for item in differences):
        return Footing.UNEQUAL
    return Footing.EQUAL
