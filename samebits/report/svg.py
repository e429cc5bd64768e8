"""Elements of SVG as text: numbers rounded, everything else escaped."""

from collections.abc import Iterable

from markupsafe import Markup, escape

LETTER = 6.9
"""Width of a letter of the labels, in pixels; characters of East Asia take two."""
WIDE = 0x2E80


def element(name: str, content: str | Markup = "", /, **values: object) -> Markup:
    """Make an element; _ in a name of an attribute stands for -, and class_ for class."""
    attributes = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(spell(value))}"'
        for key, value in values.items()
    )
    body = escape(content)
    return Markup(f"<{name}{attributes}>{body}</{name}>" if body else f"<{name}{attributes}/>")


def spell(value: object) -> str:
    """Spell a number with at most one decimal."""
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def join(parts: Iterable[Markup]) -> Markup:
    """Put elements after each other."""
    return Markup("").join(parts)


def text(content: str, x: float, y: float, *, anchor: str = "start", class_: str = "") -> Markup:
    """Write a label."""
    return element("text", content, x=float(x), y=float(y), text_anchor=anchor, class_=class_)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Markup:
    """Draw a line."""
    return element("path", d=f"M{spell(x1)} {spell(y1)}L{spell(x2)} {spell(y2)}", class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    """Draw a rectangle."""
    sizes = {"width": float(width), "height": float(height)}
    return element("rect", x=float(x), y=float(y), class_=class_, **sizes)


def path(points: Iterable[tuple[float, float]], class_: str) -> Markup:
    """Draw a line through points."""
    spelled = "L".join(f"{spell(float(x))} {spell(float(y))}" for x, y in points)
    return element("path", d=f"M{spelled}", class_=class_)


def width_of(label: str) -> float:
    """Estimate the width of a label."""
    return LETTER * sum(2 if ord(character) >= WIDE else 1 for character in label)


def picture(
    key: str, title: str, description: str, body: Markup, size: tuple[float, float]
) -> Markup:
    """Wrap a drawing so that a screen reader names and describes it."""
    width, height = (round(value) for value in size)
    names = element("title", title, id=f"{key}-title") + element(
        "desc", description, id=f"{key}-desc"
    )
    return element(
        "svg",
        names + body,
        role="img",
        aria_labelledby=f"{key}-title",
        aria_describedby=f"{key}-desc",
        viewBox=f"0 0 {width} {height}",
        width=width,
        height=height,
    )
