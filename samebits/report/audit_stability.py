"""Sections about repeats, first divergence and near-ties."""

from samebits.audit.results import Analysis, Census, Stability, Survival
from samebits.report.blocks import Block, Figure, Gallery, Paragraph, Section, make_table
from samebits.report.charts import Bars, Histogram, Steps
from samebits.report.words import Words

NUM_STEPS = 24
"""Rows of a survival table; steps between are left out, the last is kept."""


def make_stability(analysis: Analysis, words: Words) -> Section:
    """Say how far repeats of the base agree."""
    found = analysis.stability
    rows = [
        (words("tar-raw", n=found.repeats), words.rate(found.tar_raw), words("tar-raw.what")),
        (words("noise-pairs"), words.rate(found.noise_pairs), words("noise-pairs.what")),
        *list_scores(found, words),
    ]
    columns = words.labels(("column.measure", "column.value", "column.meaning"))
    blocks: list[Block] = [
        Paragraph(text=words("stability.read", n=found.repeats), role="small"),
        make_table(words("stability.caption"), columns, [*rows]),
    ]
    if found.unique_outputs:
        blocks.append(make_unique(found, words))
    return Section(key="stability", title=words("stability"), blocks=tuple(blocks))


def list_scores(found: Stability, words: Words) -> list[tuple[str, str, str]]:
    """List what needs an expected answer; say so where there is none."""
    if found.tar_answer is None and found.mean_score is None:
        return [(words("tar-answer", n=found.repeats), words("none"), words("no-answers"))]
    rows = []
    if found.tar_answer is not None:
        name = words("tar-answer", n=found.repeats)
        rows.append((name, words.rate(found.tar_answer), words("tar-answer.what")))
    if found.pass_all is not None:
        name = words("pass-all", n=found.repeats)
        rows.append((name, words.rate(found.pass_all), words("pass-all.what")))
    for key in ("mean_score", "sampling_se", "rerun_se"):
        value = getattr(found, key)
        text = words("none") if value is None else f"{value:.4f}"
        rows.append((words(key), text, words(f"{key}.what")))
    return rows


def make_unique(found: Stability, words: Words) -> Figure:
    """Show how many different outputs prompts have over everything that was tried."""
    bars = Bars(
        labels=tuple(words.count("output", number) for number, _ in found.unique_outputs),
        values=tuple(prompts for _, prompts in found.unique_outputs),
        tones=tuple("clear" if number == 1 else "tokens" for number, _ in found.unique_outputs),
        texts=tuple(words.count("prompt", prompts) for _, prompts in found.unique_outputs),
    )
    rows = [(str(number), f"{prompts:,}") for number, prompts in found.unique_outputs]
    columns = words.labels(("#unique.number", "#unique.prompts"))
    return Figure(
        key="fig-unique",
        title=words("unique"),
        description=words("unique.what"),
        chart=bars,
        table=make_table(words("unique"), columns, [*rows]),
        is_long=False,
    )


def make_survival(analysis: Analysis, words: Words) -> Section:
    """Show after how many tokens answers part, for each axis that was found."""
    if not analysis.survival:
        block: Block = Paragraph(text=words("survival.none"))
        return Section(key="survival", title=words("survival"), blocks=(block,))
    figures = tuple(draw_survival(curve, i, words) for i, curve in enumerate(analysis.survival))
    blocks = (Paragraph(text=words("survival.read"), role="small"), Gallery(figures=figures))
    return Section(key="survival", title=words("survival"), blocks=blocks)


def draw_survival(curve: Survival, number: int, words: Words) -> Figure:
    """Draw the share of pairs that still agree."""
    name = words.name("axis", curve.axis)
    last = words.percent(curve.alive[-1]) if curve.alive else words("none")
    steps = list(zip(curve.tokens, curve.alive, strict=True))
    shown = steps[:: 1 + len(steps) // NUM_STEPS]
    if steps and shown[-1] != steps[-1]:
        shown.append(steps[-1])
    rows = [(str(token), words.percent(alive)) for token, alive in shown]
    return Figure(
        key=f"fig-survival-{number + 1}",
        title=name,
        description=words(
            "survival.what", axis=name, pairs=words.count("pair", curve.num_pairs), last=last
        ),
        chart=Steps(tokens=curve.tokens, alive=curve.alive, unit=words("survival.unit")),
        table=make_table(name, words.labels(("#column.token", "#column.alive")), [*rows]),
    )


def make_census(analysis: Analysis, words: Words) -> Section:
    """Say how many steps are near-ties, and whether that explains the flips."""
    census = analysis.census
    if census is None:
        block: Block = Paragraph(text=words("census.none"))
        return Section(key="census", title=words("census"), blocks=(block,))
    columns = words.labels(("column.measure", "column.value"))
    rows = list_census(census, words)
    blocks = (
        Paragraph(text=words("census.read"), role="small"),
        make_table(words("census.caption"), columns, [*rows]),
        draw_margins(census, words),
    )
    return Section(key="census", title=words("census"), blocks=blocks)


def list_census(census: Census, words: Words) -> list[tuple[str, str]]:
    """List the numbers of the census; what needs a drift is left out where there is none."""
    ties = words.count("tie", census.num_exact_ties)
    if census.num_exact_ties and census.ties_to_lowest is not None:
        ties = words("ties-lowest", ties=ties, n=census.ties_to_lowest)
    rows = [(words("census.steps"), f"{census.num_steps:,}"), (words("census.ties"), ties)]
    if not census.drift_axis:
        return [*rows, (words("census.drift"), words("census.no-drift"))]
    flips = census.observed_flips
    axis = words.axis(census.drift_axis)
    drift = words("drift", median=f"{census.drift_median:.2g}", p95=f"{census.drift_p95:.2g}")
    seen = words("per-thousand", n=spell_flips(1000 * flips.num / flips.of) if flips.of else "0")
    return [
        *rows,
        (words("census.drift"), words("drift-axis", drift=drift, axis=axis)),
        (words("census.within"), words.percent(census.share_within)),
        (words("census.expected"), words("per-thousand", n=spell_flips(census.expected_flips))),
        (words("census.observed"), words("observed", seen=seen, rate=words.rate(flips))),
    ]


def spell_flips(value: float) -> str:
    """Spell a rate per thousand."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def draw_margins(census: Census, words: Words) -> Figure:
    """Draw the margins, with the band within which the drift can turn a choice."""
    edges = [f"{edge:.3g}" for edge in census.edges]
    ends = [*edges[1:], "∞"]
    rows = [
        (f"{low} – {high}", f"{count:,}")
        for low, high, count in zip(edges, ends, census.counts, strict=True)
    ]
    label = words("margins.band", p95=f"{census.drift_p95:.2g}") if census.drift_axis else ""
    what = "margins.what" if census.drift_axis else "margins.plain"
    return Figure(
        key="fig-margins",
        title=words("margins"),
        description=words(what, share=words.percent(census.share_within)),
        chart=Histogram(
            edges=census.edges,
            counts=census.counts,
            band=census.drift_p95 if census.drift_axis else 0.0,
            band_label=label,
            unit=words("margins.unit"),
        ),
        table=make_table(
            words("margins"), words.labels(("#margins.bin", "#margins.count")), [*rows]
        ),
    )
