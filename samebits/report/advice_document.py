"""Puts an advice into words: what to use, what still differs, what it costs, why it holds."""

from collections.abc import Mapping
from typing import Any

from samebits.advise.ladder import NOTHING
from samebits.advise.results import Advice, Choice, Moved, RungResult
from samebits.report.audit_document import page_labels
from samebits.report.blocks import (
    Block,
    Cell,
    Code,
    Document,
    Figure,
    Paragraph,
    Section,
    Table,
    make_table,
)
from samebits.report.charts import Interval, Intervals
from samebits.report.visible import show, show_id
from samebits.report.words import Words, words_for

SHOWN = ("dtype", "attention", "arithmetic", "weights", "kernels", "level", "threads", "rows",
         "epsilon", "fired", "steps", "hits", "misses")  # fmt: skip
"""What is in force that a reader of the table wants; all of it is in the JSON report."""


def make_advice(found: Advice, language: str) -> Document:
    """Make the report of an advice in a language.

    Raises:
        ConfigError: The language is not one of ours.
    """
    words = words_for(language)
    makers = (make_choice, make_differences, make_costs, make_reasons, make_setup)
    return Document(
        language=words("lang"),
        title=words("advice.title", target=show_id(found.target)),
        sections=tuple(make(found, words) for make in makers),
        labels=page_labels(words),
    )


def make_choice(found: Advice, words: Words) -> Section:
    """Say what to use."""
    blocks: list[Block] = []
    if not found.is_complete:
        blocks.append(Paragraph(text=words("advice.incomplete"), tone="unsure", role="alarm"))
    tone = "clear" if found.here.rung and found.here.is_shown else "unsure"
    blocks += [
        Paragraph(text=spell_choice("here", found.here, found, words), tone=tone, role="lead"),
        Paragraph(text=spell_choice("anywhere", found.anywhere, found, words)),
    ]
    if any(row.key == "cache" and not row.not_tried for row in found.rows):
        blocks.append(Paragraph(text=words("advice.cache"), role="small"))
    return Section(key="choice", title=words("advice.choice"), blocks=tuple(blocks))


def spell_choice(scope: str, choice: Choice, found: Advice, words: Words) -> str:
    """Spell one recommendation."""
    shown = {True: "shown", False: "unshown"}[choice.is_shown]
    return words(
        f"advice.{scope}.{shown if choice.rung else 'none'}",
        need=words.name("need", found.need),
        rung=words.name("rung", choice.rung or ""),
        bound=words.percent(choice.bound),
        rate=f"{found.rate:g}",
        num=found.num_prompts,
        needed=f"{found.prompts_needed:,}",
    )


def make_differences(found: Advice, words: Words) -> Section:
    """List what still differs, and draw it."""
    labels = ("advice.remedy", "advice.company-tokens", "advice.company-bits",
              "advice.elsewhere-tokens", "advice.elsewhere-bits", "advice.others")  # fmt: skip
    rows: list[tuple[str | Cell, ...]] = [
        (
            words.name("rung", row.key),
            draw_moved(row.company, "tokens", words),
            draw_moved(row.company, "bits", words),
            draw_moved(row.elsewhere, "tokens", words),
            draw_moved(row.elsewhere, "bits", words),
            words.share(row.other_answers) if row.other_answers else words("none"),
        )
        for row in found.rows
    ]
    table = make_table(words("advice.differs.caption"), words.labels(labels), rows)
    how = words(
        "advice.how",
        batches=words.join([str(size) for size in found.batches]),
        pinned=words.name("rung", "environment"),
    )
    blocks: list[Block] = [table, Paragraph(text=how, role="small")]
    if any(row.company for row in found.rows):
        blocks.insert(0, draw_shares(found, table, words))
    return Section(key="differs", title=words("advice.differs"), blocks=tuple(blocks))


def draw_moved(moved: Moved | None, outcome: str, words: Words) -> Cell:
    """Spell how many prompts differ, coloured by what it means."""
    share = None if moved is None else moved.of(outcome)
    if share is None:
        return Cell(text=words("none"), tone="untested")
    return Cell(text=words.rate(share), tone=outcome if share.num else "clear")


def draw_shares(found: Advice, table: Table, words: Words) -> Figure:
    """Draw the share of prompts whose tokens changed, with its interval."""
    intervals = tuple(
        Interval(
            label=words.name("rung", row.key),
            value=share.num / share.of,
            low=share.low,
            high=share.high,
            tone="tokens" if share.num else "clear",
            text=words.share(share),
        )
        for row in found.rows
        if row.company is not None and (share := row.company.tokens).of
    )
    return Figure(
        key="shares",
        title=words("advice.differs.figure"),
        description=words("advice.differs.figure.what"),
        chart=Intervals(rows=intervals, unit=words("advice.differs.unit")),
        table=table,
    )


def make_costs(found: Advice, words: Words) -> Section:
    """List what each remedy costs."""
    largest = max(found.batches)
    columns = (
        words("advice.remedy"),
        "#" + words("advice.speed", size=largest),
        "#" + words("advice.ratio"),
        "#" + words("advice.latency"),
        "#" + words("advice.memory"),
        "#" + words("advice.start"),
    )
    base = next((row.cost.tokens_s for row in found.rows if row.key == NOTHING), None)
    rows = [draw_cost(row, base, words) for row in found.rows]
    table = make_table(words("advice.costs.caption"), columns, rows)
    how = Paragraph(text=words("advice.costs.how"), role="small")
    return Section(key="costs", title=words("advice.costs"), blocks=(table, how))


def draw_cost(row: RungResult, base: float | None, words: Words) -> tuple[str | Cell, ...]:
    """Spell the costs of one remedy; a dash stands for what was not measured."""
    cost = row.cost
    ratio = cost.tokens_s / base if cost.tokens_s and base else None
    return (
        words.name("rung", row.key),
        spell_number(cost.tokens_s, words),
        spell_number(ratio, words),
        spell_number(cost.token_s, words),
        words("advice.megabytes", n=f"{cost.peak_bytes / 1e6:,.0f}")
        if cost.peak_bytes
        else words("none"),
        words("advice.seconds", n=f"{cost.open_s:.0f}") if cost.tokens_s else words("none"),
    )


def spell_number(value: float | None, words: Words) -> str:
    """Spell a positive number with three digits; a dash if there is none."""
    if value is None:
        return words("none")
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def make_reasons(found: Advice, words: Words) -> Section:
    """Say why each remedy holds, and what was not tried."""
    rows: list[tuple[str | Cell, ...]] = [
        (
            words.name("rung", row.key),
            words.name("basis", row.basis.name),
            spell_in_force(row, words),
        )
        for row in found.rows
    ]
    labels = ("advice.remedy", "advice.basis", "advice.in-force")
    table = make_table(words("advice.why.caption"), words.labels(labels), rows)
    return Section(key="why", title=words("advice.why"), blocks=(table,))


def spell_in_force(row: RungResult, words: Words) -> str:
    """Spell what is in force, what is missing, and why something was not tried."""
    parts = [
        f"{name} {spell_setting(row.in_force[name])}" for name in SHOWN if name in row.in_force
    ]
    if row.num_missing:
        parts.append(words("advice.missing", n=row.num_missing))
    if row.not_tried:
        parts.append(words("advice.not-tried", reason=words.sentence(row.not_tried)))
    return show(words.join_sentences(parts) or words("none"), limit=2000)


def spell_setting(value: object) -> str:
    """Spell one setting."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def make_setup(found: Advice, words: Words) -> Section:
    """Say what was tried, and the command that does so again."""
    machine: Mapping[str, Any] = found.header.get("machine", {})
    rows: list[tuple[str | Cell, ...]] = [
        (words("advice.setup.prompts"), str(found.num_prompts)),
        (words("advice.setup.tokens"), str(found.max_tokens)),
        (words("advice.setup.processor"), show(str(machine.get("processor", "")))),
        (words("advice.setup.record"), Cell(text=found.record_digest, is_code=True)),
    ]
    table = make_table(
        words("advice.setup"), words.labels(("column.measure", "column.value")), rows
    )
    command = show(str(found.header.get("asked", {}).get("command", "")), limit=2000)
    again = Code(label=words("advice.setup.command"), text=command)
    return Section(key="setup", title=words("advice.setup"), blocks=(table, again))
