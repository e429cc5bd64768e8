"""What an audit takes over from the record that it goes on with."""

from collections import Counter

from samebits.audit.asking import Asker
from samebits.audit.axes import BASE
from samebits.audit.condition import Condition
from samebits.audit.plan import num_repeats
from samebits.audit.record import AuditRecord
from samebits.audit.target import TargetFacts
from samebits.errors import ConfigError
from samebits.record.canonical import canonical_bytes, parse_json
from samebits.record.mend import mend
from samebits.record.typed import plain_value


def check_same_target(before: TargetFacts, now: TargetFacts) -> None:
    """Refuse to go on with a record of another target.

    Raises:
        ConfigError: Something in force is not as it was; names it.
    """
    old, new = (mend(plain_value(facts, whole=True)) for facts in (before, now))
    if names := [n for n in new if canonical_bytes(new[n]) != canonical_bytes(old[n])]:
        raise ConfigError(
            expected="the target of the record that is resumed",
            found=f"another {', '.join(names)}",
            remedy="Begin a new record, or set the target up as it was.",
        )


def take_past(asker: Asker, past: AuditRecord) -> None:
    """Take over what was seen and spent before; what had no answer is asked again."""
    prompts = {prompt.id: prompt for prompt in asker.options.prompts}
    conditions: dict[str, Condition] = {}
    for seen in past.observations:
        if seen.condition not in conditions:
            conditions[seen.condition] = Condition.from_value(parse_json(seen.condition))
        condition = conditions[seen.condition]
        asker.meter.add(condition.call, prompts[seen.prompt], seen.answer)
        asker.seen.append(seen)
        if seen.answer.error is None:
            place = (seen.condition, seen.prompt, seen.round, seen.repeat)
            asker.answered.setdefault(place, set()).add(seen.attempt)
    forget_half_repeats(asker)
    asker.done = len(asker.answered)


def forget_half_repeats(asker: Asker) -> None:
    """Have repeats of the base asked again whole: they are compared within one session."""
    base = [place for place in asker.answered if place[0] == BASE.key]
    counts = Counter((prompt, number) for _, prompt, number, _ in base)
    for place in base:
        _, prompt, number, _ = place
        if counts[prompt, number] < num_repeats(number):
            del asker.answered[place]
