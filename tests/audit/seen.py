"""Makes what an audit would have seen, for tests of its analysis."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from samebits.audit.axes import BASE, Contrast, with_call, with_process
from samebits.audit.condition import Condition
from samebits.audit.judge import judge_contrasts
from samebits.audit.observation import Answer, Observation
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import AuditRecord, End, NotTested, Why
from samebits.audit.target import TargetFacts
from tests.audit.audit_records import make_header

NUM_PROMPTS = 16
PROMPTS = tuple(f"p{i}" for i in range(NUM_PROMPTS))
REPEAT = Contrast(axis="repeat", level="again", base=BASE, treated=BASE)
Give = Callable[[Condition, int, int, int], Answer]
"""Condition, number of the prompt, round and repeat to an answer."""


def batch(value: int) -> Contrast:
    """Make a contrast of the batch axis."""
    return Contrast(axis="batch", level=str(value), base=BASE, treated=with_call(BASE, batch=value))


def restart() -> Contrast:
    """Make the contrast of the restart axis."""
    treated = with_process(BASE, instance=1)
    return Contrast(axis="restart", level="another process", base=BASE, treated=treated)


def threads(value: int) -> Contrast:
    """Make a contrast of the threads axis."""
    return Contrast(
        axis="threads", level=str(value), base=BASE, treated=with_process(BASE, threads=value)
    )


def say(token: int = 0, bits: int | None = 0, **others: Any) -> Answer:
    """Make an answer of three tokens, of which the last varies; no bits if None."""
    steps = None if bits is None else ("a", "b", f"{bits}-{token}")
    return Answer(text=f"1 2 {token}", token_ids=(1, 2, token), steps=steps, **others)


def observe(
    condition: Condition,
    prompt: str,
    answer: Answer,
    *,
    round: int = 0,
    repeat: int = 0,
    attempt: int = 0,
    session: int = 0,
) -> Observation:
    """Make an observation."""
    return Observation(
        condition=condition.key,
        prompt=prompt,
        round=round,
        repeat=repeat,
        attempt=attempt,
        session=session,
        answer=answer,
    )


def ask_round(
    contrasts: Iterable[Contrast],
    give: Give,
    *,
    number: int = 0,
    prompts: Sequence[str] = PROMPTS,
) -> list[Observation]:
    """Ask all conditions of one round, 2 + number times each."""
    conditions = dict.fromkeys(c for one in contrasts for c in (one.base, one.treated))
    return [
        observe(condition, prompt, give(condition, i, number, repeat), round=number, repeat=repeat)
        for condition in conditions
        for i, prompt in enumerate(prompts)
        for repeat in range(2 + number)
    ]


FACTS = TargetFacts(
    kind="stub",
    name="made up",
    in_force={},
    reports=("text", "token_ids", "steps"),
    threads=(1,),
    max_concurrency=8,
    max_logprobs=5,
)


def make_record(
    observations: Iterable[Observation],
    *,
    axes: Sequence[str] = ("repeat", "batch"),
    asked: Mapping[str, Any] | None = None,
    not_tested: Sequence[NotTested] = (),
    notes: Sequence[Mapping[str, Any]] = (),
    prompts: Sequence[AuditPrompt] | None = None,
    why: Why | None = Why.COMPLETE,
    facts: TargetFacts = FACTS,
) -> AuditRecord:
    """Put observations into a record."""
    made = [AuditPrompt(id=name, text="x" * (i + 1)) for i, name in enumerate(PROMPTS)]
    header = make_header(
        asked=asked or {}, target=facts, prompts=tuple(prompts or made), axes=tuple(axes)
    )
    return AuditRecord(
        header=header,
        observations=tuple(observations),
        not_tested=tuple(not_tested),
        notes=tuple(notes),
        ends=() if why is None else (End(why=why, own_s=1.0, target_s=2.0),),
        is_ended=why is not None,
        digest="sha256:0",
    )


def audit(contrasts: Sequence[Contrast], give: Give, *, rounds: int = 3) -> list[Observation]:
    """Ask as the runner does: again only what differs and is not decided."""
    seen = ask_round(contrasts, give)
    for number in range(1, rounds):
        judged = judge_contrasts(contrasts, seen, look=number - 1)
        again = [(one, j.again) for one, j in zip(contrasts, judged, strict=True) if j.again]
        if not again:
            break
        for condition in dict.fromkeys(c for one, _ in again for c in (one.base, one.treated)):
            wanted = {p for one, ids in again if condition in (one.base, one.treated) for p in ids}
            seen += [
                observe(
                    condition,
                    PROMPTS[i],
                    give(condition, i, number, repeat),
                    round=number,
                    repeat=repeat,
                )
                for i in range(NUM_PROMPTS)
                if PROMPTS[i] in wanted
                for repeat in range(2 + number)
            ]
    return seen
