"""Write docs/audits/README.md from the records beside it.

    python -m bench.audits_page

Each record is analysed again, so that the table says what the records say, and the commands are
those they were made by.
"""

from pathlib import Path

from bench.page import ROOT, make_table, write_between
from samebits.audit.analyse import analyse
from samebits.audit.record_reader import read_record
from samebits.audit.results import Analysis, Verdict
from samebits.report.audit_document import make_document
from samebits.report.audit_setup import spell_command
from samebits.report.in_markdown import write_markdown

FOLDER = ROOT / "docs" / "audits"
MARK = {
    Verdict.CHANGES_TOKENS: "**tokens**",
    Verdict.MOVES_BITS: "bits",
    Verdict.NO_EFFECT: "none seen",
    Verdict.CANNOT_TELL: "cannot tell",
    Verdict.NOT_TESTED: "–",
    Verdict.NOT_EXPLAINED: "not explained",
}


def main() -> None:
    """Write the table, the list of records, and a report of each."""
    records = sorted(FOLDER.glob("*.jsonl"))
    found = {path: analyse(read_record(path)) for path in records}
    for path, analysis in found.items():
        path.with_suffix(".md").write_text(write_markdown(make_document(analysis, "en")), "utf-8")
    page = FOLDER / "README.md"
    write_between(page, "axes", make_axes_table(found))
    write_between(page, "records", make_records_table(found))


def make_axes_table(found: dict[Path, Analysis]) -> str:
    """One row an axis, one column a record."""
    keys = dict.fromkeys(axis.key for analysis in found.values() for axis in analysis.axes)
    rows = []
    for key in keys:
        axes = [{axis.key: axis for axis in analysis.axes}.get(key) for analysis in found.values()]
        rows.append([key, *("–" if axis is None else MARK[axis.verdict] for axis in axes)])
    return make_table(["axis", *(path.stem for path in found)], rows)


def make_records_table(found: dict[Path, Analysis]) -> str:
    """One row a record: what it came to, and how it was made."""
    rows = []
    for path, analysis in found.items():
        lines = f"[{path.stem}]({path.stem}.md), [record]({path.name})"
        counts = f"{analysis.stability.num_prompts} prompts, {analysis.num_observations} answers"
        command = f"`{spell_command(analysis)}`"
        rows.append([lines, str(analysis.exit_code), counts, own_share(analysis), command])
    header = ["audit", "exit code", "size", "own time", "command"]
    return make_table(header, rows)


def own_share(analysis: Analysis) -> str:
    """Give the audit's own time as a share of the target's."""
    if analysis.own_s is None or not analysis.target_s:
        return "?"
    return f"{analysis.own_s / analysis.target_s:.1%}"


if __name__ == "__main__":
    main()
