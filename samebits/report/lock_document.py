"""Puts a lock, or how two environments differ, into words."""

import re
from collections.abc import Sequence

from samebits.lock.compare import ABSENT, Difference, Severity
from samebits.lock.contents import EngineFlags, GitState, Lock, ModelDigests
from samebits.lock.lock_file import lock_digest
from samebits.lock.probe_child import NOT_REPEATABLE
from samebits.report.audit_document import page_labels
from samebits.report.blocks import (
    Block,
    Cell,
    Column,
    Document,
    Group,
    Paragraph,
    Section,
    Table,
    make_table,
)
from samebits.report.visible import show
from samebits.report.words import Words, words_for

SIDES = {
    "verify": ("lock.locked", "lock.now"),
    "diff": ("compare.a-text", "compare.b-text"),
    "fleet": ("lock.first", "lock.other"),
    "ignored": ("lock.asked", "lock.effective"),
}
"""What the two sides are called in each kind of comparison."""
TONES = {Severity.MOVES_BITS: "bits", Severity.UNKNOWN: "unsure", Severity.HARMLESS: ""}
DIGEST = re.compile("sha256:([0-9a-f]{16})[0-9a-f]{48}")


def make_lock_report(lock: Lock, ignored: Sequence[Difference], language: str) -> Document:
    """Make the report of a capture in a language.

    Raises:
        ConfigError: The language is not one of ours.
    """
    words = words_for(language)
    return make_document("title", None, ignored, (), words, draw_facts(lock, words))


def make_lock_comparison(
    kind: str,
    found: Sequence[Difference],
    language: str,
    *,
    ignored: Sequence[Difference] = (),
    excepted: Sequence[Difference] = (),
) -> Document:
    """Make the report of a comparison in a language.

    Args:
        kind: verify, diff or fleet.
        found: Differences that count; `ignored` are settings that are not in force.
        excepted: Differences that do not count, on request.
    Raises:
        ConfigError: The language is not one of ours.
    """
    words = words_for(language)
    return make_document(kind, found, ignored, excepted, words)


def make_document(
    kind: str,
    found: Sequence[Difference] | None,
    ignored: Sequence[Difference],
    excepted: Sequence[Difference],
    words: Words,
    facts: Table | None = None,
) -> Document:
    """Put verdict, differences and facts under their headings."""
    verdict = list_verdicts(kind, found, ignored, excepted, words)
    sections = [Section(key="verdict", title=words("lock.verdict"), blocks=verdict)]
    for key, listed in (("ignored", ignored), (kind, found)):
        if listed:
            title = words("lock.ignored" if key == "ignored" else "lock.differences")
            table = draw_differences(key, listed, words)
            sections.append(Section(key=key, title=title, blocks=(table,)))
    if facts is not None:
        sections.append(Section(key="facts", title=words("lock.facts"), blocks=(facts,)))
    return Document(
        language=words("lang"),
        title=words(f"lock.{kind}"),
        sections=tuple(sections),
        labels=page_labels(words),
    )


def list_verdicts(
    kind: str,
    found: Sequence[Difference] | None,
    ignored: Sequence[Difference],
    excepted: Sequence[Difference],
    words: Words,
) -> tuple[Block, ...]:
    """Say in a sentence each what was found."""
    blocks: list[Block] = []
    if found is not None:
        same = words("lock.same" if kind == "verify" else "lock.equal")
        text = words.count("lock.other", len(found)) if found else same
        blocks.append(Paragraph(text=text, tone="bits" if found else "clear", role="lead"))
    if ignored:
        text = words.count("lock.not-in-force", len(ignored))
        blocks.append(Paragraph(text=text, tone="bits", role="lead"))
    elif kind in ("title", "verify"):
        blocks.append(Paragraph(text=words("lock.in-force"), tone="clear"))
    if excepted:
        names = words.join([show(item.field) for item in excepted])
        form = "one" if len(excepted) == 1 else "many"
        blocks.append(Paragraph(text=words(f"lock.excepted.{form}", n=len(excepted), names=names)))
    return tuple(blocks)


def draw_differences(kind: str, found: Sequence[Difference], words: Words) -> Table:
    """List differences: name, both sides, severity, and what each can change."""
    labels = words.labels(("column.field", *SIDES[kind], "lock.severity", "compare.effect"))
    columns = tuple(Column(label=label, is_sentence=label == labels[-1]) for label in labels)
    rows = tuple(
        (
            Cell(text=show(item.field), is_code=True),
            Cell(text=spell_side(item.a, words)),
            Cell(text=spell_side(item.b, words)),
            Cell(text=words(f"severity.{item.severity}"), tone=TONES[item.severity]),
            Cell(text=words.sentence(item.effect)),
        )
        for item in found
    )
    return Table(
        caption=words("lock.each"), columns=columns, groups=(Group(rows=rows),), is_wide=True
    )


def spell_side(value: str, words: Words) -> str:
    """Spell the value of one side; of a digest, its beginning."""
    short = DIGEST.sub(r"sha256:\1…", value)
    return words("compare.absent") if value == ABSENT else show(short, 240)


def draw_facts(lock: Lock, words: Words) -> Table:
    """List what is locked, in short."""
    machine = lock.machine
    bare = sum(1 for package in lock.packages.values() if package.record is None)
    unsteady = sum(1 for value in lock.probe.values() if value == NOT_REPEATABLE)
    facts = (
        ("lock.id", lock_digest(lock)),
        ("lock.processor", f"{machine.processor}, {machine.cores} ×"),
        ("lock.isa", " ".join(machine.isa)),
        ("lock.gpus", words.join([f"{gpu.name} {gpu.driver}".strip() for gpu in lock.gpus])),
        ("lock.system", words.join([f"{machine.system} {machine.kernel}", machine.libc])),
        ("lock.python", machine.python),
        ("lock.libraries", words.join(list_threads(lock))),
        ("lock.packages", words("lock.packages.n", n=len(lock.packages), num=bare)),
        ("lock.variables", " ".join(f"{k}={v}" for k, v in machine.variables.items())),
        ("lock.probe", words("lock.probe.n", n=len(lock.probe), num=unsteady)),
        ("lock.lacks", words.join_sentences(map(words.sentence, lock.lacks))),
        ("lock.model", spell_model(lock.model, words)),
        ("lock.flags", spell_flags(lock.flags, words)),
        ("lock.git", spell_git(lock.git, words)),
    )
    rows = [(words(name), show(text, 400) if text else words("lock.none")) for name, text in facts]
    columns = words.labels(("lock.fact", "lock.value"))
    return make_table(words("lock.short"), columns, rows)


def list_threads(lock: Lock) -> list[str]:
    """List how many threads each library uses."""
    pools = [f"{pool.prefix} {pool.threads}" for pool in lock.machine.pools]
    if lock.torch is not None:
        pools.append(f"torch {lock.torch.threads}")
        if lock.torch.mkl_threads is not None:
            pools.append(f"mkl {lock.torch.mkl_threads}")
    return pools


def spell_model(model: ModelDigests | None, words: Words) -> str:
    """Spell what is locked of a model; empty without one."""
    if model is None:
        return ""
    found = {True: words("lock.found"), False: words("lock.not-found")}
    return words(
        "lock.model.n",
        n=len(model.files),
        tokenizer=found[model.tokenizer is not None],
        template=found[model.template is not None],
    )


def spell_flags(flags: EngineFlags | None, words: Words) -> str:
    """Spell how many settings of an engine are locked; empty if none were given."""
    if flags is None:
        return ""
    return words("lock.flags.n", n=len(flags.values), num=flags.num_left_out)


def spell_git(git: GitState | None, words: Words) -> str:
    """Spell the state of the code; empty outside a repository."""
    if git is None:
        return ""
    return words("lock.dirty", commit=git.commit[:12]) if git.is_dirty else git.commit[:12]
