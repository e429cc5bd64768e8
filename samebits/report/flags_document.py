"""Puts an engine's flags into words: what fixes what, what nothing fixes, and what leaks.

In English only: the rows are sentences of a table in remedies/flags, each with its source.
"""

from samebits.remedies.flags.table import Device, EngineFlags, Flag, Kind
from samebits.remedies.seeds_unread import list_seeds
from samebits.report.audit_document import page_labels
from samebits.report.blocks import (
    Block,
    Cell,
    Column,
    Document,
    Group,
    Items,
    Paragraph,
    Section,
    Table,
)
from samebits.report.words import words_for

GROUPS = (
    ("Set by samebits run, unless you have set them otherwise", Kind.VARIABLE, True),
    ("Options for the engine's command; samebits run --add-options adds them", Kind.OPTION, True),
    ("For your program to call", Kind.CALL, True),
    ("Variables with a price: samebits run --set NAME=VALUE", Kind.VARIABLE, False),
    ("Options with a price: add them yourself", Kind.OPTION, False),
    ("Calls with a price", Kind.CALL, False),
)
"""In the order of reading."""
COLUMNS = (
    Column(label="setting"),
    Column(label="on"),
    Column(label="fixes", is_sentence=True),
    Column(label="does not cover", is_sentence=True),
    Column(label="cost", is_sentence=True),
    Column(label="checked", is_sentence=True),
    Column(label="source", is_sentence=True),
)
MADE_BY = "Made by samebits from its table of flags; each row names its source."
DEVICES = {Device.ANY: "", Device.CPU: "CPU", Device.GPU: "GPU"}


def make_flags(engine: EngineFlags) -> Document:
    """Make the report of an engine's flags."""
    words = words_for("en")
    sections = (
        Section(key="flags", title="Settings", blocks=(draw_flags(engine),)),
        Section(key="leaks", title="Combinations known to leak", blocks=tuple(draw_leaks(engine))),
        Section(key="seeds", title="Where it reads a seed", blocks=(draw_seeds(engine),)),
        Section(key="rest", title="What no flag fixes", blocks=(Items(texts=engine.not_covered),)),
        Section(key="next", title="To see what is in force", blocks=tuple(draw_next(engine))),
    )
    return Document(
        language=words("lang"),
        title=f"{engine.title}: settings that fix kernels, graphs and order",
        sections=tuple(section for section in sections if section.blocks),
        labels=page_labels(words) | {"made-by": MADE_BY},
    )


def draw_flags(engine: EngineFlags) -> Table:
    """List the flags in groups by who sets them."""
    groups = []
    for label, kind, is_set in GROUPS:
        rows = [x for x in engine.flags if x.kind is kind and x.is_set is is_set]
        if rows:
            groups.append(Group(label=label, rows=tuple(map(draw_flag, rows))))
    caption = "N stands for the number of threads."
    return Table(caption=caption, columns=COLUMNS, groups=tuple(groups), is_wide=True)


def draw_flag(flag: Flag) -> tuple[Cell, ...]:
    """Make the row of a flag."""
    return (
        Cell(text=flag.spell(), is_code=True),
        Cell(text=DEVICES[flag.device]),
        Cell(text=f"fixes: {flag.fixes}"),
        Cell(text=f"does not cover: {flag.not_covered}"),
        Cell(text=f"cost: {flag.cost}"),
        Cell(text=f"checked: {flag.checked}"),
        Cell(text=flag.source),
    )


def draw_leaks(engine: EngineFlags) -> list[Block]:
    """List the combinations that are refused."""
    columns = (
        Column(label="combination"),
        Column(label="why", is_sentence=True),
        Column(label="way out", is_sentence=True),
        Column(label="source", is_sentence=True),
    )
    rows = tuple(
        (
            Cell(text=leak.name, is_code=True),
            Cell(text=leak.why),
            Cell(text=leak.way_out),
            Cell(text=leak.source),
        )
        for leak in engine.leaks
    )
    caption = "samebits run refuses these."
    table = Table(caption=caption, columns=columns, groups=(Group(rows=rows),), is_wide=True)
    return [table] if rows else [Paragraph(text="We know of none that a command shows.")]


def draw_seeds(engine: EngineFlags) -> Block:
    """List where a seed is read; in any other field it looks like one that works."""
    texts = tuple(
        f"{seed.place}: {seed.name or 'none'}; {seed.remark} ({seed.source})"
        for seed in list_seeds(engine.name)
    )
    return Items(texts=texts) if texts else Paragraph(text="We know of no field that it reads.")


def draw_next(engine: EngineFlags) -> list[Block]:
    """Say how to see what took effect."""
    text = engine.next_step or (
        "samebits run starts your command's Python in the same environment, compares what was "
        "asked with what is in force, and refuses to go on where a library ignores a setting."
    )
    return [Paragraph(text=text)]
