"""Puts a comparison of two records into words: comparable or not first, then what changed."""

from collections.abc import Iterator
from dataclasses import replace

from samebits.audit.compare_results import (
    ConditionComparison,
    Flips,
    PromptComparison,
    RecordComparison,
)
from samebits.lock.compare import ABSENT, Difference, Severity
from samebits.report.audit_axes import list_ids, spell_probability
from samebits.report.audit_document import page_labels
from samebits.report.audit_summary import TONES
from samebits.report.audit_why import spell_condition
from samebits.report.blocks import Block, Cell, Document, Paragraph, Section, Table, make_table
from samebits.report.visible import show, show_id
from samebits.report.words import Words, words_for

NUM_CHANGED = 50
"""Changed prompts of one condition that are listed."""


def make_comparison(found: RecordComparison, language: str) -> Document:
    """Make the report of a comparison in a language.

    Raises:
        ConfigError: The language is not one of ours.
    """
    words = words_for(language)
    sections = (
        make_footing(found, words),
        make_differences(found, words),
        make_conditions(found, words),
        make_left_out(found, words),
    )
    return Document(
        language=words("lang"),
        title=words("compare.title", a=show_id(found.a_name), b=show_id(found.b_name)),
        sections=tuple(section for section in sections if section.blocks),
        labels=page_labels(words),
    )


def make_footing(found: RecordComparison, words: Words) -> Section:
    """Say whether the records can be compared, then what changed."""
    footing = words(f"footing.{found.footing.name}")
    tone = {"EQUAL": "clear"}.get(found.footing.name, "unsure")
    verdict = words.name("verdict", found.verdict.name)
    rows: list[tuple[str | Cell, ...]] = [
        ("A", show_id(found.a_name), show(found.a_digest)),
        ("B", show_id(found.b_name), show(found.b_digest)),
    ]
    columns = words.labels(("compare.record", "compare.name", "compare.digest"))
    blocks = (
        Paragraph(text=footing, tone=tone, role="lead"),
        Paragraph(text=words("compare.verdict", verdict=verdict), tone=TONES[found.verdict]),
        make_table(words("compare.records"), columns, rows, code="2"),
    )
    return Section(key="footing", title=words("compare.footing"), blocks=blocks)


def make_differences(found: RecordComparison, words: Words) -> Section:
    """Name what differs before any answer is looked at."""
    blocks: list[Block] = []
    for key, differences in (("machine", found.machine), ("asked", found.asked)):
        if differences:
            blocks.append(draw_differences(words(f"compare.{key}"), differences, words))
    if not blocks:
        blocks.append(Paragraph(text=words("compare.no-differences")))
    return Section(key="differences", title=words("compare.differences"), blocks=tuple(blocks))


def draw_differences(caption: str, found: tuple[Difference, ...], words: Words) -> Table:
    """List named differences."""
    rows: list[tuple[str | Cell, ...]] = []
    for item in found:
        moves = item.severity is Severity.MOVES_BITS
        mark = Cell(
            text=words("compare.yes" if moves else "compare.no"), tone="bits" if moves else ""
        )
        rows.append(
            (show(item.field), spell_value(item.a, words), spell_value(item.b, words), mark,
             words.sentence(item.effect))
        )  # fmt: skip
    labels = (
        "column.field",
        "compare.a-text",
        "compare.b-text",
        "compare.severity",
        "compare.effect",
    )
    return make_table(caption, words.labels(labels), rows, code="0")


def spell_value(value: str, words: Words) -> str:
    """Spell a value of one side."""
    return words("compare.absent") if value == ABSENT else show(value)


def make_conditions(found: RecordComparison, words: Words) -> Section:
    """List the conditions, then the prompts that changed and the items that flipped."""
    blocks: list[Block] = []
    if found.conditions:
        blocks.append(draw_conditions(found.conditions, words))
    for condition in found.conditions:
        blocks += draw_changed(condition, words)
        if condition.flips is not None:
            blocks += draw_flips(condition, condition.flips, words)
    return Section(key="answers", title=words("compare.conditions"), blocks=tuple(blocks))


def draw_conditions(conditions: tuple[ConditionComparison, ...], words: Words) -> Table:
    """Make one row of each condition."""
    labels = ("compare.condition", "column.verdict", "column.tokens", "column.bits",
              "compare.a-noise", "compare.b-noise", "#compare.p-tokens", "#compare.p-bits",
              "#compare.missing", "column.remark")  # fmt: skip
    rows: list[tuple[str | Cell, ...]] = [
        (
            spell_condition(item.condition, words),
            Cell(text=words.name("verdict", item.verdict.name), tone=TONES[item.verdict]),
            words.rate(item.tokens_differ),
            words("not-visible") if item.bits_differ is None else words.rate(item.bits_differ),
            words.rate(item.a_noise),
            words.rate(item.b_noise),
            spell_probability(item.p_tokens),
            words("none") if item.p_bits is None else spell_probability(item.p_bits),
            str(item.num_missing),
            words.sentence(item.reason),
        )
        for item in conditions
    ]
    table = make_table(words("compare.conditions.caption"), words.labels(labels), rows)
    return replace(table, is_wide=True)


def draw_changed(item: ConditionComparison, words: Words) -> Iterator[Block]:
    """List the prompts whose tokens or bits changed, with the first place."""
    changed = [x for x in item.prompts if x.tokens_differ or x.bits_differ]
    if not changed:
        return
    labels = ("column.id", "#compare.first-token", "#compare.first-bits", "compare.repeats",
              "compare.a-text", "compare.b-text")  # fmt: skip
    rows: list[tuple[str | Cell, ...]] = [
        (
            show_id(x.prompt),
            spell_token(x, words),
            spell_place(x.first_bits, words),
            spell_repeats(x, words),
            show(x.a_text),
            show(x.b_text),
        )
        for x in changed[:NUM_CHANGED]
    ]
    name = words("compare.changed", condition=spell_condition(item.condition, words))
    yield make_table(name, words.labels(labels), rows, code="0")
    if len(changed) > NUM_CHANGED:
        yield Paragraph(text=words("compare.more", n=len(changed) - NUM_CHANGED))


def spell_place(place: int | None, words: Words) -> str:
    """Spell a place, counted from 1."""
    return words("none") if place is None else str(place + 1)


def spell_token(item: PromptComparison, words: Words) -> str:
    """Spell the first token that differs; where only texts are known, say so."""
    if item.tokens_differ and item.first_token is None:
        return words("compare.text")
    return spell_place(item.first_token, words)


def spell_repeats(item: PromptComparison, words: Words) -> str:
    """Say whether each side repeats itself."""
    names = {True: "compare.yes", False: "compare.no", None: "compare.unknown"}
    a, b = words(names[item.a_repeats]), words(names[item.b_repeats])
    return words("compare.repeat-pair", a=a, b=b)


def draw_flips(item: ConditionComparison, flips: Flips, words: Words) -> Iterator[Block]:
    """Say which items flipped; the means never stand alone."""
    yield Paragraph(text=words(f"score.{flips.verdict.name}"))
    means = {"a": f"{flips.mean_a:.4f}", "b": f"{flips.mean_b:.4f}", "num": flips.num_items}
    lists = ("right-to-wrong", "wrong-to-right", "unsteady-a", "unsteady-b")
    rows: list[tuple[str | Cell, ...]] = [
        (words("compare.mean"), words("compare.means", **means)),
        (words("compare.mcnemar"), spell_probability(flips.p_value)),
        *((words(f"compare.{key}"), count_ids(getattr(flips, key.replace("-", "_")), words))
          for key in lists),
    ]  # fmt: skip
    name = words("compare.scores", condition=spell_condition(item.condition, words))
    yield make_table(name, words.labels(("column.measure", "column.value")), rows)


def count_ids(ids: tuple[str, ...], words: Words) -> str:
    """Count ids and quote some."""
    return words("compare.ids", n=len(ids), ids=list_ids(ids, words, NUM_CHANGED)) if ids else "0"


def make_left_out(found: RecordComparison, words: Words) -> Section:
    """Name what only one record has."""
    lists = (
        ("only-a", found.only_a),
        ("only-b", found.only_b),
        ("prompts-changed", found.changed),
        ("conditions-a", tuple(spell_condition(key, words) for key in found.conditions_only_a)),
        ("conditions-b", tuple(spell_condition(key, words) for key in found.conditions_only_b)),
    )
    rows: list[tuple[str | Cell, ...]] = [
        (words(f"compare.{key}"), count_ids(ids, words)) for key, ids in lists if ids
    ]
    title = words("compare.left-out")
    columns = words.labels(("column.measure", "column.value"))
    blocks = (make_table(title, columns, rows),) if rows else ()
    return Section(key="left-out", title=title, blocks=blocks)
