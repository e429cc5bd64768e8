"""Draws a heat map: one path for all cells of a state, so that 200 prompts stay small."""

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from samebits.report.charts import Heat
from samebits.report.svg import element, join, line, spell, text, width_of

HEIGHT = 20.0
WIDEST, NARROWEST, ROOM = 22.0, 5.0, 820.0
STATES = ("same", "bits", "tokens", "missing")
Box = tuple[float, float, float, float]


def draw_heat(chart: Heat, _key: str) -> tuple[Markup, tuple[float, float]]:
    """Draw the cells, the names of rows, numbers of columns, and the legend."""
    num_columns = max(map(len, chart.states), default=0)
    each = max(NARROWEST, min(WIDEST, ROOM // max(num_columns, 1)))
    left = max(map(width_of, chart.rows), default=0) + 14
    right = left + each * num_columns
    parts = [*draw_numbers(num_columns, left, each), *draw_rows(chart, left, right)]
    for state in STATES:
        boxes = [
            (left + column * each, 22 + row * HEIGHT, each - 1, HEIGHT - 2)
            for row, states in enumerate(chart.states)
            for column, found in enumerate(states)
            if found == state
        ]
        parts += draw_state(state, boxes)
    bottom = 22 + HEIGHT * len(chart.rows)
    legend, end = draw_legend(chart.legend, bottom + 14)
    parts += [*legend, text(chart.unit, left, 10, class_="soft")]
    gap = max((right + 6, *(left + width_of(reason) for reason in chart.gaps)))
    return join(parts), (max(gap, end, left + width_of(chart.unit)), bottom + 40)


def draw_numbers(count: int, left: float, each: float) -> Iterator[Markup]:
    """Mark every fifth or tenth column with a tick."""
    step = 5 if each * 5 > 30 else 10 if each * 10 > 30 else 20
    for number in range(step, count + 1, step):
        x = left + (number - 0.5) * each
        yield text(str(number), x, 20, anchor="middle", class_="edge")


def draw_rows(chart: Heat, left: float, right: float) -> Iterator[Markup]:
    """Name the rows; an empty row is crossed by a dashed line and says why."""
    for row, (label, gap) in enumerate(zip(chart.rows, chart.gaps, strict=True)):
        y = 22 + row * HEIGHT
        yield text(label, left - 8, y + 13, anchor="end")
        if gap:
            start = min(left + width_of(gap) + 8, right)
            yield line(start, y + 9, right, y + 9, "stroke-untested dashed")
            yield text(gap, left, y + 13, class_="soft")


def draw_state(state: str, boxes: Sequence[Box]) -> Iterator[Markup]:
    """Fill the cells of one state, then mark them with its sign."""
    if boxes:
        yield element("path", d="".join(map(outline, boxes)), class_=f"heat-{state}")
        sign = "".join(SIGNS[state](cell) for cell in boxes)
        if sign:
            yield element("path", d=sign, class_=f"sign-{state}")


def outline(cell: Box) -> str:
    """Draw around a cell."""
    x, y, width, height = map(spell, cell)
    return f"M{x} {y}h{width}v{height}h-{width}z"


def slash(cell: Box) -> str:
    """Draw a stroke from the lower left to the upper right."""
    x, y, width, height = sign_box(cell)
    return f"M{spell(x)} {spell(y + height)}l{spell(width)}-{spell(height)}"


def cross(cell: Box) -> str:
    """Draw both diagonals."""
    x, y, width, height = sign_box(cell)
    return f"{slash(cell)}M{spell(x)} {spell(y)}l{spell(width)} {spell(height)}"


def dot(cell: Box) -> str:
    """Draw a short level stroke."""
    x, y, width, height = sign_box(cell)
    return f"M{spell(x)} {spell(y + height / 2)}h{spell(width)}"


def sign_box(cell: Box) -> Box:
    """Give the square in the middle of a cell."""
    x, y, width, height = cell
    side = min(width, height) * 0.55
    return x + (width - side) / 2, y + (height - side) / 2, side, side


SIGNS = {"same": lambda _cell: "", "bits": slash, "tokens": cross, "missing": dot}


def draw_legend(legend: Sequence[tuple[str, str]], y: float) -> tuple[list[Markup], float]:
    """Explain the cells; also give where it ends."""
    parts: list[Markup] = []
    x = 4.0
    for state, name in legend:
        parts += draw_state(state, [(x, y, 18.0, 18.0)])
        parts.append(text(name, x + 24, y + 13))
        x += 24 + width_of(name) + 20
    return parts, x
