"""The section of axes: one row each, and every contrast behind it."""

from collections.abc import Iterator

from samebits.audit.results import Analysis, AxisResult, Comparison, LevelResult, Outcome, Verdict
from samebits.report.audit_summary import FOUND, TONES
from samebits.report.blocks import (
    Block,
    Cell,
    Column,
    Figure,
    Fold,
    Group,
    Paragraph,
    Section,
    Table,
    make_column,
    make_row,
    make_table,
)
from samebits.report.charts import Interval, Intervals
from samebits.report.visible import show_id
from samebits.report.words import Words

ORDER = (
    Verdict.NOT_EXPLAINED,
    Verdict.CHANGES_TOKENS,
    Verdict.MOVES_BITS,
    Verdict.CANNOT_TELL,
    Verdict.NO_EFFECT,
    Verdict.NOT_TESTED,
)
"""In which axes are listed."""
NUM_IDS = 12
"""Ids of affected prompts that a row quotes."""


def make_axes(analysis: Analysis, words: Words) -> Section:
    """List the axes by verdict, with the numbers behind each."""
    blocks: list[Block] = [Paragraph(text=words("axes.read"), role="small")]
    blocks.append(make_axis_table(analysis, words))
    if any(axis_level(axis) for axis in analysis.axes):
        blocks.append(make_intervals(analysis, words))
        blocks.append(Fold(summary=words("contrasts"), table=make_level_table(analysis, words)))
    return Section(key="axes", title=words("axes"), blocks=tuple(blocks))


def make_axis_table(analysis: Analysis, words: Words) -> Table:
    """Make one row of each axis, grouped by verdict."""
    labels = ("axis", "level", "tokens", "bits", "controls", "first-token", "remark")
    groups = []
    for verdict in ORDER:
        rows = [draw_axis(axis, words) for axis in analysis.axes if axis.verdict is verdict]
        if rows:
            name = words.name("verdict", verdict.name)
            groups.append(Group(rows=tuple(rows), label=name, tone=TONES[verdict]))
    return Table(
        caption=words("axes.caption"),
        columns=tuple(make_axis_column(label, words) for label in labels),
        groups=tuple(groups),
        is_wide=True,
    )


def make_axis_column(label: str, words: Words) -> Column:
    """Make a column of the table of axes."""
    return Column(
        label=words(f"column.{label}"),
        is_tight=label in ("tokens", "bits"),
        is_sentence=label == "remark",
    )


def draw_axis(axis: AxisResult, words: Words) -> tuple[Cell, ...]:
    """Make the row of an axis."""
    level = axis_level(axis)
    name = words.name("axis", axis.key)
    remark = words.join_sentences(list_remarks(axis, level, words))
    if level is None:
        return make_row((name, "", "", "", "", "", remark))
    tokens, bits = (level.comparisons.get(key) for key in (Outcome.TOKENS, Outcome.BITS))
    return make_row(
        (
            name,
            words.level(level.level),
            words.rate(tokens.differ) if tokens else words("none"),
            words.rate(bits.differ) if bits else words("not-visible"),
            describe_controls(deciding(level), words),
            "" if level.first_divergence is None else str(level.first_divergence + 1),
            remark,
        )
    )


def axis_level(axis: AxisResult) -> LevelResult | None:
    """Pick the level that decides the verdict; None if nothing was compared.

    Among levels with the verdict of the axis: the threshold, else the one with most differences,
    else the one that could see least.
    """
    levels = [level for level in axis.levels if level.comparisons]
    same = [level for level in levels if level.verdict is axis.verdict] or levels
    if axis.threshold is not None:
        same = [level for level in same if level.level == axis.threshold[1]] or same
    return max(same, key=weigh, default=None)


def weigh(level: LevelResult) -> tuple[float, float, float]:
    """Order levels by what they show: differences first, then blindness."""
    tokens, bits = (num_differ(level, key) for key in (Outcome.TOKENS, Outcome.BITS))
    return tokens, bits, deciding(level).smallest_rate


def num_differ(level: LevelResult, outcome: Outcome) -> int:
    """Count the prompts that differ; 0 where none was compared."""
    item = level.comparisons.get(outcome)
    return item.differ.num if item else 0


def deciding(level: LevelResult) -> Comparison:
    """Give the comparison that the verdict of a level rests on."""
    if level.verdict is Verdict.MOVES_BITS and Outcome.BITS in level.comparisons:
        return level.comparisons[Outcome.BITS]
    return level.comparisons.get(Outcome.TOKENS) or next(iter(level.comparisons.values()))


def describe_controls(item: Comparison, words: Words) -> str:
    """Give what differs within each arm, to be read beside the change across."""
    base, treated = words.share(item.base_noise), words.share(item.treated_noise)
    return words("controls", base=base, treated=treated)


def describe_limit(axis: AxisResult, level: LevelResult, words: Words) -> str:
    """Say, beside every zero, how small a share would have been seen."""
    seen = [item for item in level.comparisons.values() if item.outcome is not Outcome.ANSWER]
    zeros = [item for item in seen if item.differ.num == 0]
    if not zeros:
        return ""
    worst = max(zeros, key=lambda item: item.smallest_rate)
    number = min(item.differ.of for item in zeros)
    prompts = words.count("prompt", number)
    is_partial = axis.verdict in FOUND or len(zeros) < len(seen)
    what = words.name("change-of", worst.outcome) if is_partial else words("effect")
    return words("seen", what=what, prompts=prompts, share=words.percent(worst.smallest_rate))


def list_remarks(axis: AxisResult, level: LevelResult | None, words: Words) -> Iterator[str]:
    """Say what a zero means, why, from where on, only for whom, and what else was noticed."""
    if level is not None and (limit := describe_limit(axis, level, words)):
        yield limit
    # Other seeds draw otherwise: that is no difference to explain.
    is_calm = axis.verdict is Verdict.NO_EFFECT and axis.key != "seed"
    if level is not None and is_calm and deciding(level).differ.num:
        yield words("no-more")
    if axis.reason or (level and level.reason):
        yield words.sentence(axis.reason or (level.reason if level else ""))
    if axis.threshold is not None:
        without, smallest = map(words.level, axis.threshold)
        yield words(
            "threshold" if without else "threshold-first", without=without, smallest=smallest
        )
    if level is not None and level.only_if:
        yield words("only-if", what=words.sentence(level.only_if))
    for note in axis.notes:
        yield words.sentence(note)
    for other in axis.levels if level is not None else ():
        if other.verdict is Verdict.NOT_TESTED and other.reason != axis.reason:
            reason = words.sentence(other.reason)
            yield words("level-untested", level=words.level(other.level), reason=reason)


def make_intervals(analysis: Analysis, words: Words) -> Figure:
    """Show the share of prompts that differ, by axis, with what could have hidden."""
    rows, table = [], []
    for verdict in ORDER:
        for axis in (axis for axis in analysis.axes if axis.verdict is verdict):
            level = axis_level(axis)
            if level is not None and deciding(level).differ.of:
                rows.append(draw_interval(axis, deciding(level), words))
                table.append(make_interval_row(axis, deciding(level), words))
    columns = ("column.axis", "column.verdict", "column.outcome", "column.differ", "#column.limit")
    return Figure(
        key="fig-intervals",
        title=words("intervals"),
        description=words("intervals.what"),
        chart=Intervals(rows=tuple(rows), unit=words("intervals.unit")),
        table=make_table(words("intervals"), words.labels(columns), table),
    )


def draw_interval(axis: AxisResult, item: Comparison, words: Words) -> Interval:
    """Draw an axis; where nothing differed the bar ends at the smallest rate seen."""
    differ = item.differ
    return Interval(
        label=words.name("axis", axis.key),
        value=differ.num / differ.of,
        low=differ.low,
        high=differ.high if differ.num else item.smallest_rate,
        tone=TONES[axis.verdict],
        text=words(
            "short", verdict=words.name("verdict", axis.verdict.name), share=words.share(differ)
        ),
    )


def make_interval_row(axis: AxisResult, item: Comparison, words: Words) -> tuple[str, ...]:
    """Give the numbers of an axis."""
    return (
        words.name("axis", axis.key),
        words.name("verdict", axis.verdict.name),
        words.name("outcome", item.outcome),
        words.rate(item.differ),
        words("none") if item.differ.num else words.percent(item.smallest_rate),
    )


def make_level_table(analysis: Analysis, words: Words) -> Table:
    """List every contrast at every outcome."""
    labels = (
        "column.level", "column.verdict", "column.outcome", "column.differ", "column.base-noise",
        "column.treated-noise", "#column.pairs", "#column.p", "#column.limit", "column.calls",
        "column.affected",
    )  # fmt: skip
    groups = []
    for axis in analysis.axes:
        rows = [row for level in axis.levels for row in draw_level(level, words)]
        if rows:
            groups.append(Group(rows=tuple(rows), label=words.name("axis", axis.key)))
    return Table(
        caption=words("contrasts.caption"),
        columns=tuple(map(make_column, words.labels(labels))),
        groups=tuple(groups),
        is_wide=True,
    )


def draw_level(level: LevelResult, words: Words) -> Iterator[tuple[Cell, ...]]:
    """Make the rows of a contrast."""
    name, verdict = words.level(level.level), words.name("verdict", level.verdict.name)
    tone = TONES[level.verdict]
    if not level.comparisons:
        reason = words.sentence(level.reason)
        yield make_row((name, Cell(text=verdict, tone=tone), *[""] * 8, reason))
    calls = words("calls-missing", calls=f"{level.num_calls:,}", missing=level.num_missing)
    for item in level.comparisons.values():
        yield make_row(
            (
                name,
                Cell(text=verdict, tone=tone),
                words.name("outcome", item.outcome),
                words.rate(item.differ),
                words.rate(item.base_noise),
                words.rate(item.treated_noise),
                f"{item.pairs_differ:,}/{item.pairs:,}",
                spell_p(item),
                words("none") if item.differ.num else words.percent(item.smallest_rate),
                calls,
                list_ids(level.affected, words),
            )
        )


def spell_p(item: Comparison) -> str:
    """Spell a probability; a star says that it stands after control of false discoveries."""
    text = spell_probability(item.p_value)
    return f"{text} *" if item.is_found else text


def spell_probability(value: float) -> str:
    """Spell a probability; nothing but 0 is spelled 0."""
    return "<0.0001" if 0 < value < 0.0001 else f"{value:.4f}"


def list_ids(ids: tuple[str, ...], words: Words, limit: int = NUM_IDS) -> str:
    """Quote some ids."""
    text = words.join([show_id(item) for item in ids[:limit]])
    return words("and-more", text=text, n=len(ids) - limit) if len(ids) > limit else text
