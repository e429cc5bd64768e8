"""The section that shows every axis and prompt at once."""

from collections.abc import Callable, Mapping

from samebits.audit.results import Analysis, AxisResult
from samebits.report.audit_axes import ORDER
from samebits.report.blocks import Cell, Figure, Section, Table, make_table
from samebits.report.charts import Heat
from samebits.report.visible import show_id
from samebits.report.words import Words


def make_heat(analysis: Analysis, words: Words) -> Section:
    """Show every axis and prompt at once."""
    prompts = list(dict.fromkeys(key for row in analysis.heat.values() for key in row))
    rows = [axis for verdict in ORDER for axis in analysis.axes if axis.verdict is verdict]
    states = [draw_heat_row(analysis.heat.get(axis.key, {}), prompts) for axis in rows]
    gaps = ["" if any(row) else words("heat.gap") for row in states]
    legend = tuple((key, words(f"heat.{key}")) for key in ("same", "bits", "tokens", "missing"))
    chart = Heat(
        rows=tuple(words.name("axis", axis.key) for axis in rows),
        states=tuple(states),
        gaps=tuple(gaps),
        legend=legend,
        unit=words("heat.unit"),
    )
    figure = Figure(
        key="fig-heat",
        title=words("heat.title"),
        description=words("heat.what", axes=len(rows), prompts=len(prompts)),
        chart=chart,
        table=make_heat_table(rows, analysis.heat, prompts, words),
    )
    return Section(key="heat", title=words("heat"), blocks=(figure,))


def draw_heat_row(found: Mapping[str, str], prompts: list[str]) -> tuple[str, ...]:
    """Give the state of each prompt; empty where it was not asked."""
    return tuple(found.get(prompt, "") for prompt in prompts)


def make_heat_table(
    rows: list[AxisResult], heat: Mapping[str, Mapping[str, str]], prompts: list[str], words: Words
) -> Table:
    """Count the states of each axis and name the prompts that differ."""
    numbers = {prompt: i + 1 for i, prompt in enumerate(prompts)}

    def name(found: Mapping[str, str]) -> Callable[[str], str]:
        def list_state(state: str) -> str:
            hit = [key for key, value in found.items() if value == state]
            return words.join([f"{numbers[key]} {show_id(key)}" for key in hit]) or words("none")

        return list_state

    table: list[tuple[str | Cell, ...]] = []
    for axis in rows:
        found = heat.get(axis.key, {})
        same = sum(value == "same" for value in found.values())
        lists = map(name(found), ("bits", "tokens", "missing"))
        table.append((words.name("axis", axis.key), f"{same}/{len(found)}", *lists))
    columns = ("column.axis", "#heat.same", "heat.bits", "heat.tokens", "heat.missing")
    return make_table(words("heat.caption"), words.labels(columns), table)
