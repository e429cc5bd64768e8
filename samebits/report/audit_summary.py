"""The first section: the verdict in one sentence, what it is based on, and its limits."""

from collections.abc import Iterator

from samebits.audit.results import Analysis, AxisResult, Outcome, Verdict
from samebits.report.blocks import Block, Items, Paragraph, Section
from samebits.report.visible import show_id
from samebits.report.words import Words

TONES = {
    Verdict.NO_EFFECT: "clear",
    Verdict.MOVES_BITS: "bits",
    Verdict.CHANGES_TOKENS: "tokens",
    Verdict.CANNOT_TELL: "unsure",
    Verdict.NOT_TESTED: "untested",
    Verdict.NOT_EXPLAINED: "tokens",
}
FOUND = (Verdict.NOT_EXPLAINED, Verdict.CHANGES_TOKENS, Verdict.MOVES_BITS)


def make_summary(analysis: Analysis, words: Words) -> Section:
    """Say the verdict, then the evidence it stands on."""
    blocks: list[Block] = [*list_alarms(analysis, words), make_lead(analysis, words)]
    blocks += [
        Paragraph(text=describe_basis(analysis, words)),
        Paragraph(text=describe_exit(analysis, words)),
        Items(texts=tuple(list_limits(analysis, words))),
    ]
    return Section(key="verdict", title=words("verdict"), blocks=tuple(blocks))


def list_alarms(analysis: Analysis, words: Words) -> Iterator[Paragraph]:
    """Say at the top what makes the whole less than it seems."""
    if not analysis.is_complete:
        reason = words.sentence(analysis.ended) or words("unknown-end")
        yield Paragraph(text=words("incomplete", reason=reason), tone="unsure", role="alarm")
    if analysis.positive_control == "same":
        yield Paragraph(text=words("control.same"), tone="unsure", role="alarm")


def make_lead(analysis: Analysis, words: Words) -> Paragraph:
    """Say the verdict in one sentence, with the axes it is about."""
    named = [axis for axis in analysis.axes if axis.verdict in FOUND and axis.key != "repeat"]
    bits = name_axes(analysis, Verdict.MOVES_BITS, words)
    text = words(
        f"lead.{analysis.verdict.name}",
        tokens=name_axes(analysis, Verdict.CHANGES_TOKENS, words) or words("nothing"),
        bits=bits,
        num=sum(axis.verdict is Verdict.NO_EFFECT for axis in analysis.axes),
        named=words.join([words.axis(axis.key) for axis in named]) or words("nothing"),
    )
    if bits and analysis.verdict is Verdict.CHANGES_TOKENS:
        text += words("lead.besides", bits=bits)
    return Paragraph(text=text, tone=TONES[analysis.verdict], role="lead")


def name_axes(analysis: Analysis, verdict: Verdict, words: Words) -> str:
    """Name the axes with a verdict."""
    names = [words.axis(axis.key) for axis in analysis.axes if axis.verdict is verdict]
    return words.join(names)


def describe_basis(analysis: Analysis, words: Words) -> str:
    """Count what the verdict is based on."""
    counts = {
        verdict: sum(axis.verdict is verdict for axis in analysis.axes) for verdict in Verdict
    }
    untested = counts[Verdict.NOT_TESTED]
    return words(
        "basis",
        prompts=words.count("prompt", analysis.stability.num_prompts),
        calls=words.count("call", analysis.num_observations),
        missing=f"{analysis.num_missing:,}",
        tested=words.count("axis", len(analysis.axes) - untested),
        unsure=counts[Verdict.CANNOT_TELL],
        untested=untested,
    )


def describe_exit(analysis: Analysis, words: Words) -> str:
    """Say what the exit code means."""
    need = words.name("need", analysis.need)
    code = analysis.exit_code
    return words("exit", code=code, meaning=words(f"exit.{code}", need=need))


def list_limits(analysis: Analysis, words: Words) -> Iterator[str]:
    """Say what the verdict cannot cover."""
    yield words("limit.scope")
    if not sees_bits(analysis.axes):
        yield words("limit.no-bits")
    elif blind := [axis for axis in tested(analysis.axes) if not sees_bits((axis,))]:
        yield words("limit.some-bits", axes=words.join([words.axis(a.key) for a in blind]))
    if analysis.positive_control != "same":
        yield words(f"control.{analysis.positive_control}")
    yield words("limit.discovery", rate=words.percent(analysis.false_discovery_rate))
    if analysis.own_s is not None and analysis.target_s is not None:
        own, target = f"{analysis.own_s:,.1f}", f"{analysis.target_s:,.1f}"
        yield words("limit.time", own=own, target=target)


def tested(axes: tuple[AxisResult, ...]) -> tuple[AxisResult, ...]:
    """Give the axes for which answers were compared."""
    return tuple(axis for axis in axes if any(level.comparisons for level in axis.levels))


def sees_bits(axes: tuple[AxisResult, ...]) -> bool:
    """Answer whether bits were compared anywhere."""
    return any(Outcome.BITS in level.comparisons for axis in axes for level in axis.levels)


def name_target(analysis: Analysis) -> str:
    """Name what was audited."""
    target = analysis.header.get("target")
    name = target.get("name") if isinstance(target, dict) else None
    return show_id(str(name)) if name else "?"
