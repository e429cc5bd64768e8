"""Sections about why: where bits part, how rounding grows, and the arithmetic on real numbers."""

import math

from samebits.audit.probe import NearTie, Operands, Probe
from samebits.audit.results import Analysis
from samebits.report.blocks import Block, Cell, Figure, Paragraph, Section, Table, make_table
from samebits.report.charts import Curve, Depth
from samebits.report.explain import (
    FORMATS,
    ORDERS,
    Absorption,
    Sums,
    absorb,
    compare_tie,
    is_usable,
    sum_orders,
)
from samebits.report.visible import show, show_id
from samebits.report.words import Words

NUM_PROBES = 6
"""Probes that are drawn; their places alone can be hundreds."""


def make_depth(analysis: Analysis, words: Words) -> Section:
    """Show, for each probe, the error by depth and the first place whose bits differ."""
    blocks: list[Block] = []
    if not analysis.probes:
        blocks.append(Paragraph(text=words(why_no_probe(analysis))))
    else:
        blocks.append(Paragraph(text=words("depth.read"), role="small"))
    for i, probe in enumerate(analysis.probes[:NUM_PROBES]):
        blocks += draw_probe(probe, i, words)
    if len(analysis.probes) > NUM_PROBES:
        blocks.append(Paragraph(text=words("depth.more", n=len(analysis.probes) - NUM_PROBES)))
    return Section(key="depth", title=words("depth"), blocks=tuple(blocks))


def why_no_probe(analysis: Analysis) -> str:
    """Give the key of the reason for which nothing was looked at inside."""
    target = analysis.header.get("target")
    kind = target.get("kind") if isinstance(target, dict) else None
    return "probe.http" if kind == "http" else "probe.none"


def draw_probe(probe: Probe, number: int, words: Words) -> list[Block]:
    """Draw the places of one probe, and say where bits part first."""
    first = next((i for i, place in enumerate(probe.places) if not place.is_equal), None)
    values = {
        "prompt": show_id(probe.prompt),
        "base": spell_condition(probe.base, words),
        "treated": spell_condition(probe.treated, words),
    }
    if first is None:
        return [Paragraph(text=words("probe.equal", num=len(probe.places), **values))]
    place = probe.places[first]
    sentence = words("probe.first", place=show(place.name), depth=place.depth, **values)
    blocks: list[Block] = [Paragraph(text=sentence)]
    if any(place.error_base or place.error_treated for place in probe.places):
        blocks.append(draw_depth(probe, first, number, words))
    return blocks


def spell_condition(key: str, words: Words) -> str:
    """Spell a condition by what differs from the base."""
    return show(key.strip("{}").replace('"', "").replace(",", ", ")) or words("base")


def draw_depth(probe: Probe, first: int, number: int, words: Words) -> Figure:
    """Draw the error of both conditions at each place."""
    places = probe.places
    base = tuple(place.error_base for place in places)
    treated = tuple(place.error_treated for place in places)
    rows = [
        (
            show(place.name),
            str(place.depth),
            words("depth.same" if place.is_equal else "depth.differ"),
            spell_error(place.error_base, words),
            spell_error(place.error_treated, words),
        )
        for place in places
    ]
    title = words("depth.title", treated=spell_condition(probe.treated, words))
    columns = ("depth.place", "#depth.layer", "depth.bits", "#depth.base", "#depth.treated")
    return Figure(
        key=f"fig-depth-{number + 1}",
        title=title,
        description=words("depth.what", place=show(places[first].name)),
        chart=Depth(
            depths=tuple(place.depth for place in places),
            curves=(
                Curve(label=words("depth.base"), values=base),
                Curve(label=words("depth.treated"), values=treated, is_dashed=True),
            ),
            is_equal=tuple(place.is_equal for place in places),
            marked=first,
            mark_label=words("depth.mark", place=show(places[first].name)),
            unit=words("depth.unit"),
            equal_label=words("depth.strip"),
            layer_label=words("depth.layer"),
        ),
        table=make_table(title, words.labels(columns), [*rows], code="0"),
    )


def spell_error(value: float | None, words: Words) -> str:
    """Spell a relative error."""
    return words("none") if value is None else f"{value:.2e}"


def make_explanation(analysis: Analysis, words: Words) -> Section:
    """Show the arithmetic on numbers of the audited model."""
    operands = next((p.operands for p in analysis.probes if p.operands is not None), None)
    tie = find_tie(analysis)
    blocks: list[Block] = [Paragraph(text=words("explain.read"), role="small")]
    if operands is None and tie is None:
        blocks = [Paragraph(text=words(why_no_probe(analysis)))]
    if operands is not None:
        blocks += explain_operands(operands, words)
    elif tie is not None:
        blocks.append(Paragraph(text=words("explain.no-operands")))
    if tie is not None:
        blocks += explain_tie(tie, words)
    elif operands is not None:
        blocks.append(Paragraph(text=words("explain.no-tie")))
    return Section(key="why", title=words("explain"), blocks=tuple(blocks))


def find_tie(analysis: Analysis) -> NearTie | None:
    """Give the tie whose two best logits lie closest, under either condition."""

    def gap(tie: NearTie) -> float:
        both = (sorted(logits, reverse=True) for logits in (tie.base, tie.treated))
        return min(logits[0] - logits[1] for logits in both)

    ties = [probe.tie for probe in analysis.probes if probe.tie and len(probe.tie.tokens) > 1]
    return min(ties, key=gap, default=None)


def explain_operands(operands: Operands, words: Words) -> list[Block]:
    """Show absorption and the order of addition on a dot product."""
    name = show(operands.name)
    if not is_usable(operands):
        return [Paragraph(text=words("explain.unusable", name=name))]
    intro = words(
        "explain.operands", name=name, n=f"{len(operands.x):,}", dtype=show(operands.dtype)
    )
    blocks: list[Block] = [Paragraph(text=intro)]
    found = absorb(operands)
    if found is not None:
        blocks.append(Paragraph(text=words("absorb.read", step=f"{found.step + 1:,}")))
        blocks.append(make_absorption(found, words))
    return [*blocks, *explain_orders(sum_orders(operands), words)]


def make_absorption(found: Absorption, words: Words) -> Table:
    """Show one addition in each format."""
    rows = [
        (
            row.format.name,
            spell_number(row.total),
            f"{row.addend:.4g}",
            f"{row.gap:.3g}",
            spell_number(row.result),
            words.percent(row.arrived) if math.isfinite(row.arrived) else words("overflow"),
            f"{row.num_lost:,}/{found.num_products:,}",
        )
        for row in found.rows
    ]
    columns = ("column.format", "#absorb.total", "#absorb.addend", "#absorb.gap", "#absorb.result",
               "#absorb.arrived", "#absorb.lost")  # fmt: skip
    return make_table(words("absorb.caption"), words.labels(columns), [*rows], code="0")


def explain_orders(sums: Sums, words: Words) -> list[Block]:
    """Show the results of every order and format, with their bits."""
    rows: list[tuple[str | Cell, ...]] = [(words("order.exact"), *3 * (f"{sums.exact:.9g}",))]
    for order in ORDERS:
        cells = [
            f"{spell_number(item.value)} {item.bits}" for item in sums.sums if item.order == order
        ]
        rows.append((words(f"order.{order}"), *cells))
    counts = [str(sums.distinct(form.name)) for form in FORMATS]
    rows.append((words("order.distinct"), *counts))
    columns = (words("order.order"), *(form.name for form in FORMATS))
    return [
        Paragraph(text=words("order.read")),
        make_table(words("order.caption"), columns, rows, code="123"),
        Paragraph(text=words("order.note"), role="small"),
    ]


def spell_number(value: float) -> str:
    """Spell a number with as many digits as a float32 has."""
    return f"{value:.9g}"


def explain_tie(tie: NearTie, words: Words) -> list[Block]:
    """Show both winners of the nearest tie."""
    found = compare_tie(tie)
    rows: list[tuple[str | Cell, ...]] = [
        (
            Cell(text=f'"{show_id(item.token)}"', is_code=True),
            f"{item.base:.6g}",
            win(words.percent(item.base_share), item.wins_base, words),
            f"{item.treated:.6g}",
            win(words.percent(item.treated_share), item.wins_treated, words),
        )
        for item in found
    ]
    is_same = any(item.wins_base and item.wins_treated for item in found)
    intro = words("tie.read", prompt=show_id(tie.prompt), step=tie.step + 1)
    columns = words.labels(
        ("tie.token", "#tie.base", "#tie.base-share", "#tie.treated", "#tie.treated-share")
    )
    return [
        Paragraph(text=intro),
        make_table(words("tie.caption"), columns, rows),
        Paragraph(text=words("tie.same" if is_same else "tie.flipped")),
    ]


def win(share: str, wins: bool, words: Words) -> Cell:
    """Mark the winner in words."""
    return Cell(
        text=words("tie.wins", share=share) if wins else share, tone="tokens" if wins else ""
    )
