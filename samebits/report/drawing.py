"""Draws charts as inline SVG. Colours come from the page's style; shapes and words repeat them."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from markupsafe import Markup

from samebits.report.charts import Bars, Chart, Curve, Depth, Heat, Histogram, Intervals, Steps
from samebits.report.heat import draw_heat
from samebits.report.svg import box, element, join, line, path, picture, text, width_of

WIDTH = 720.0
SMALL = 300.0
ROW = 26.0
Drawn = tuple[Markup, tuple[float, float]]
"""Elements, and the width and height they take."""


def draw_chart(chart: Chart, key: str, title: str, description: str) -> Markup:
    """Draw a chart with its name and description; `key` is unique on the page."""
    body, size = DRAWERS[type(chart)](chart, key)
    return picture(key, title, description, body, size)


def draw_bars(chart: Bars, _key: str) -> Drawn:
    """Draw horizontal bars, each behind its name and count."""
    names = [
        f"{label} – {counted}" for label, counted in zip(chart.labels, chart.texts, strict=True)
    ]
    left = max(map(width_of, names), default=0) + 14
    most = max(chart.values, default=1) or 1
    parts = []
    for i, (name, value) in enumerate(zip(names, chart.values, strict=True)):
        width = (WIDTH - left - 10) * value / most
        parts += [
            text(name, left - 8, i * ROW + 19, anchor="end"),
            box(left, i * ROW + 4, width, ROW - 8, f"fill-{chart.tones[i]}"),
        ]
    return join(parts), (WIDTH, len(chart.labels) * ROW + 8)


def draw_intervals(chart: Intervals, _key: str) -> Drawn:
    """Draw shares as points on their intervals; a share of nothing is a hollow point."""
    left = max((width_of(row.label) for row in chart.rows), default=0) + 14
    right = max((width_of(row.text) for row in chart.rows), default=0) + 16
    room = max(WIDTH - left - right, 260)
    bottom = len(chart.rows) * ROW + 8
    parts = [line(left + room * q, 4, left + room * q, bottom, "grid") for q in QUARTERS]
    parts += [text(f"{q:.0%}", left + room * q, bottom + 16, anchor="middle") for q in QUARTERS]
    for i, row in enumerate(chart.rows):
        y = i * ROW + 17
        start, end, at = (left + room * value for value in (row.low, row.high, row.value))
        shape = f"fill-{row.tone} point" if row.value else f"stroke-{row.tone} hollow"
        parts += [
            text(row.label, left - 8, y + 4, anchor="end"),
            line(start, y, end, y, f"stroke-{row.tone} thick"),
            line(end, y - 4, end, y + 4, f"stroke-{row.tone}"),
            element("circle", cx=at, cy=y, r=5, class_=shape),
            text(row.text, left + room + 12, y + 4, class_="soft"),
        ]
    parts.append(text(chart.unit, left + room / 2, bottom + 34, anchor="middle", class_="soft"))
    return join(parts), (left + room + right, bottom + 42)


QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)


def draw_steps(chart: Steps, _key: str) -> Drawn:
    """Draw a share that falls in steps."""
    left, top, width, height = 44.0, 8.0, SMALL - 60, 110.0
    last = max(max(chart.tokens, default=1), 1)
    points, level = [(left, top)], 1.0
    for token, alive in zip(chart.tokens, chart.alive, strict=True):
        x = left + width * token / last
        points += [(x, top + height * (1 - level)), (x, top + height * (1 - alive))]
        level = alive
    parts = [line(left, top + height * q, left + width, top + height * q, "grid") for q in HALVES]
    parts += [
        text(f"{1 - q:.0%}", left - 6, top + height * q + 4, anchor="end", class_="soft")
        for q in HALVES
    ]
    parts += [
        path(points, "stroke-tokens curve"),
        text("0", left, top + height + 16, class_="soft"),
        text(str(last), left + width, top + height + 16, anchor="end", class_="soft"),
        text(chart.unit, left + width / 2, top + height + 16, anchor="middle", class_="soft"),
    ]
    return join(parts), (SMALL, top + height + 24)


HALVES = (0.0, 0.5, 1.0)


def draw_histogram(chart: Histogram, key: str) -> Drawn:
    """Draw counts as bars of equal width, and a hatched band from 0 to the drift."""
    left, top, height = 54.0, 24.0, 170.0
    room = WIDTH - left - 10
    each = room / max(len(chart.counts), 1)
    most = max(chart.counts, default=1) or 1
    parts = [hatch(f"{key}-hatch")]
    for i, count in enumerate(chart.counts):
        tall = height * count / most
        parts += [
            box(left + i * each + 1, top + height - tall, max(each - 2, 1), tall, "fill-ink"),
            text(spell_edge(chart.edges[i]), left + i * each, top + height + 16, class_="edge"),
        ]
    parts.append(text("∞", left + room, top + height + 16, anchor="end", class_="edge"))
    end = left + each * place_in_bins(chart.edges, chart.band)
    parts += [
        element("rect", x=left, y=top, width=end - left, height=height, fill=f"url(#{key}-hatch)"),
        line(end, top - 6, end, top + height, "stroke-tokens thick"),
        text(chart.band_label, end + 6, top - 8),
        text(f"{most:,}", left - 6, top + 10, anchor="end", class_="soft"),
        text("0", left - 6, top + height, anchor="end", class_="soft"),
        line(left, top + height, left + room, top + height, "axis"),
        text(chart.unit, left + room / 2, top + height + 36, anchor="middle", class_="soft"),
    ]
    return join(parts), (WIDTH, top + height + 44)


def hatch(key: str) -> Markup:
    """Define diagonal lines as a filling."""
    lines = element("path", d="M-2 2L2-2M0 8L8 0M6 10L10 6", class_="stroke-tokens")
    size = {"width": 8, "height": 8, "patternUnits": "userSpaceOnUse"}
    return element("defs", element("pattern", lines, id=key, **size))


def spell_edge(value: float) -> str:
    """Spell the edge of a bin."""
    return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"


def place_in_bins(edges: Sequence[float], value: float) -> float:
    """Place a value on an axis where bin i spans from i to i + 1."""
    for i in range(len(edges) - 1):
        if value < edges[i + 1]:
            return i + max(0.0, (value - edges[i]) / (edges[i + 1] - edges[i]))
    return float(len(edges))


def draw_depth(chart: Depth, _key: str) -> Drawn:
    """Draw errors on a logarithmic scale; below, which places kept their bits."""
    left, top, height = 62.0, 46.0, 200.0
    room = WIDTH - left - 12
    count = max(len(chart.depths), 1)
    xs = [left + room * (i + 0.5) / count for i in range(count)]
    low, high = decades([value for curve in chart.curves for value in curve.values])
    parts = draw_decades(low, high, (left, top, room, height))
    parts.append(text(chart.unit, 4, 12, class_="soft"))
    for curve in chart.curves:
        parts += draw_curve(curve, xs, lambda v: top + height * (high - v) / (high - low))
    parts += draw_equal(chart, xs, (left, top + height + 20, room / count))
    parts += draw_layers(chart, xs, top + height + 54)
    if chart.marked is not None:
        x = xs[chart.marked]
        anchor = "start" if x < left + room / 2 else "end"
        parts += [
            line(x, top - 6, x, top + height + 26, "stroke-tokens thick"),
            text(chart.mark_label, x + (5 if anchor == "start" else -5), top - 10, anchor=anchor),
        ]
    parts += draw_names(chart.curves, left, top + height + 96)
    return join(parts), (WIDTH, top + height + 106)


def decades(values: Sequence[float | None]) -> tuple[int, int]:
    """Give the powers of ten that hold all positive values."""
    logs = [math.log10(value) for value in values if value and math.isfinite(value)]
    if not logs:
        return -8, 0
    low, high = math.floor(min(logs)), math.ceil(max(logs))
    return low, max(high, low + 1)


def draw_decades(low: int, high: int, area: tuple[float, float, float, float]) -> list[Markup]:
    """Draw a line at every power of ten, or at every second or third."""
    left, top, room, height = area
    parts = []
    for power in range(low, high + 1, 1 + (high - low) // 7):
        y = top + height * (high - power) / (high - low)
        parts.append(line(left, y, left + room, y, "grid"))
        parts.append(text(f"1e{power}", left - 6, y + 4, anchor="end", class_="soft"))
    return parts


def draw_curve(curve: Curve, xs: Sequence[float], place: Callable[[float], float]) -> list[Markup]:
    """Draw a line for each run of known values, and a dot for one that stands alone."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, value in zip(xs, curve.values, strict=False):
        if value and math.isfinite(value):
            runs[-1].append((x, place(math.log10(value))))
        elif runs[-1]:
            runs.append([])
    look = "stroke-tokens dashed" if curve.is_dashed else "stroke-ink curve"
    dot = "fill-tokens" if curve.is_dashed else "fill-ink"
    return [
        path(run, look)
        if len(run) > 1
        else element("circle", cx=run[0][0], cy=run[0][1], r=2, class_=dot)
        for run in runs
        if run
    ]


def draw_equal(chart: Depth, xs: Sequence[float], area: tuple[float, float, float]) -> list[Markup]:
    """Draw a strip: an outline where the bits are the same, filled where they differ."""
    left, top, each = area
    parts = [text(chart.equal_label, left, top + 26, class_="soft")]
    width = max(each - 0.6, 0.8)
    for x, is_equal in zip(xs, chart.is_equal, strict=False):
        look = "fill-quiet" if is_equal else "fill-tokens"
        height = 4.0 if is_equal else 12.0
        parts.append(box(x - width / 2, top + 12 - height, width, height, look))
    return parts


def draw_layers(chart: Depth, xs: Sequence[float], y: float) -> list[Markup]:
    """Write the layer where each begins, as far as there is room."""
    parts, free = [], -1.0
    for i, depth in enumerate(chart.depths):
        is_new = i == 0 or chart.depths[i - 1] != depth
        if is_new and depth >= 0 and xs[i] > free:
            parts.append(text(str(depth), xs[i], y + 10, anchor="middle", class_="soft"))
            free = xs[i] + 26
    middle = (xs[0] + xs[-1]) / 2
    parts.append(text(chart.layer_label, middle, y + 26, anchor="middle", class_="soft"))
    return parts


def draw_names(curves: Sequence[Curve], x: float, y: float) -> list[Markup]:
    """Name the curves beside a sample of their line."""
    parts = []
    for curve in curves:
        look = "stroke-tokens dashed" if curve.is_dashed else "stroke-ink curve"
        parts += [line(x, y - 4, x + 30, y - 4, look), text(curve.label, x + 36, y)]
        x += width_of(curve.label) + 64
    return parts


DRAWERS: dict[type, Callable[[Any, str], Drawn]] = {
    Bars: draw_bars,
    Intervals: draw_intervals,
    Steps: draw_steps,
    Histogram: draw_histogram,
    Depth: draw_depth,
    Heat: draw_heat,
}
