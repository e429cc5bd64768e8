"""Blocks: the answers to one prompt in one round of a contrast, and which of them are equal.

Normative: docs/audit.md, "Blocks".
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from samebits.audit.answers import extract_answer
from samebits.audit.axes import Contrast
from samebits.audit.observation import Answer, Observation
from samebits.audit.pairs import finest, first_difference, has_steps, spell_answer
from samebits.audit.statistics import Classes

Rounds = Mapping[int, Sequence[Observation]]
Index = Mapping[str, Mapping[str, Rounds]]
"""Key of the condition, id of the prompt, and round to observations, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """What is compared; labels within it are exchangeable if the contrast does nothing."""

    prompt: str
    """Id."""
    round: int
    base: tuple[Answer, ...]
    """Without missing ones, here and below."""
    treated: tuple[Answer, ...]
    num_base: int
    """Calls, missing answers included, here and below."""
    num_treated: int


class Split(NamedTuple):
    """Which answers of a block are equal: each one's group, numbered from 0."""

    base: tuple[int, ...]
    treated: tuple[int, ...]

    @property
    def is_whole(self) -> bool:
        """Whether both sides answered."""
        return bool(self.base and self.treated)

    @property
    def differs_across(self) -> bool:
        """Whether some base answer differs from some treated one."""
        return self.is_whole and len({*self.base, *self.treated}) > 1

    @property
    def differs_within(self) -> bool:
        """Whether some answers of one side differ."""
        return len(set(self.base)) > 1 or len(set(self.treated)) > 1

    @property
    def num_pairs(self) -> int:
        """Count the pairs across."""
        return len(self.base) * len(self.treated)

    @property
    def num_differ(self) -> int:
        """Count the pairs across that differ."""
        return self.num_pairs - sum(x * y for x, y in self.classes())

    def classes(self) -> Classes:
        """Count base and treated answers in each group."""
        groups = range(1 + max((*self.base, *self.treated), default=-1))
        return [(self.base.count(group), self.treated.count(group)) for group in groups]


def index_observations(observations: Iterable[Observation]) -> Index:
    """Sort observations by condition, prompt and round; of a repeated call the last stands."""
    latest: dict[tuple[str, str, int, int], Observation] = {}
    for seen in observations:
        place = (seen.condition, seen.prompt, seen.round, seen.repeat)
        latest[place] = seen
    index: dict[str, dict[str, dict[int, list[Observation]]]] = {}
    for place in sorted(latest, key=lambda place: place[2:]):
        condition, prompt, number, _ = place
        rounds = index.setdefault(condition, {}).setdefault(prompt, {})
        rounds.setdefault(number, []).append(latest[place])
    return index


def list_blocks(contrast: Contrast, index: Index) -> list[Block]:
    """List the blocks of a contrast for which both conditions were called."""
    base, treated = contrast.base.key, contrast.treated.key
    if base == treated:
        return list(list_repeats(base, index))
    return [
        make_block(contrast, ours, theirs)
        for prompt, rounds in index.get(base, {}).items()
        for number, ours in rounds.items()
        if (theirs := index.get(treated, {}).get(prompt, {}).get(number))
    ]


def list_repeats(condition: str, index: Index) -> Iterator[Block]:
    """List the calls of one condition, session by session: another process is another axis."""
    for rounds in index.get(condition, {}).values():
        asked = [one for seen in rounds.values() for one in seen]
        for session in dict.fromkeys(one.session for one in asked):
            same = [one for one in asked if one.session == session]
            yield Block(
                prompt=same[0].prompt,
                round=same[-1].round,
                base=present(same),
                treated=(),
                num_base=len(same),
                num_treated=0,
            )


def make_block(
    contrast: Contrast, ours: Sequence[Observation], theirs: Sequence[Observation]
) -> Block:
    """Put the calls of two conditions into one block."""
    if contrast.leans:
        # A block cut short was begun again, and its calls lean on each other.
        last = max(seen.attempt for seen in (*ours, *theirs))
        ours = [seen for seen in ours if seen.attempt == last]
        theirs = [seen for seen in theirs if seen.attempt == last]
    return Block(
        prompt=(*ours, *theirs)[0].prompt,
        round=(*ours, *theirs)[0].round,
        base=present(ours),
        treated=present(theirs),
        num_base=len(ours),
        num_treated=len(theirs),
    )


def present(seen: Iterable[Observation]) -> tuple[Answer, ...]:
    """Give the answers that are not missing."""
    return tuple(one.answer for one in seen if one.answer.error is None)


def split_tokens(block: Block) -> Split:
    """Group answers by token ids, spellings or text: the finest that all of them have."""
    answers = (*block.base, *block.treated)
    name = finest(answers)
    return split(block, [spell_answer(answer, name) for answer in answers])


def split_bits(block: Block) -> Split | None:
    """Group answers by their bits, up to and including the first token that any two differ in.

    Answers without bits are left out; steps that one of them lacks are not compared.

    Returns:
        None if no two sides, or repeats, with bits are left.
    """
    base = tuple(answer for answer in block.base if has_steps(answer))
    treated = tuple(answer for answer in block.treated if has_steps(answer))
    answers = (*base, *treated)
    if not base or (block.num_treated and not treated) or len(answers) < 2:
        return None
    name = finest(answers)
    spelled = dict.fromkeys(spell_answer(answer, name) for answer in answers)
    if len(spelled) > 1 and name == "text":
        return None
    end = min(len(answer.steps or ()) for answer in answers)
    first, *others = spelled
    parts = [part for other in others if (part := first_difference(first, other)) is not None]
    end = min([end, *(part + 1 for part in parts)])
    kept = [(answer.steps or ())[:end] for answer in answers]
    return number_groups(kept, len(base))


def split_answers(block: Block, pattern: str) -> Split:
    """Group answers by what is extracted; that nothing is found is a result as well."""
    answers = (*block.base, *block.treated)
    return split(block, [extract_answer(answer.text, pattern) for answer in answers])


def split(block: Block, spelled: Sequence[Hashable]) -> Split:
    """Group the answers of a block by a spelling of each."""
    return number_groups(spelled, len(block.base))


def number_groups(spelled: Sequence[Hashable], num_base: int) -> Split:
    """Number groups of equal values in order of appearance; the first `num_base` are the base's."""
    numbers: dict[Hashable, int] = {}
    groups = tuple(numbers.setdefault(one, len(numbers)) for one in spelled)
    return Split(groups[:num_base], groups[num_base:])
