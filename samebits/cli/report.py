"""samebits report: draw the record of an audit again."""

from pathlib import Path
from typing import Annotated

import typer

from samebits.cli.names import FormatName, LanguageName, NeedName


def report(
    record: Annotated[Path, typer.Argument(help="Written by samebits audit.", show_default=False)],
    as_format: Annotated[
        FormatName | None,
        typer.Option("--format", help="By the ending of --out if not given, else for a terminal."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write it here: .html, .md, .json or .txt.")
    ] = None,
    language: Annotated[
        LanguageName, typer.Option(help="Language of the report.")
    ] = LanguageName.EN,
    need: Annotated[
        NeedName | None,
        typer.Option(help="What has to stay the same; as the audit was asked if not given."),
    ] = None,
) -> None:
    """Draw the record of an audit as a text, a page or data.

    The same record gives the same bytes. Exit codes as for samebits audit.
    """
    from samebits.audit.analyse import analyse
    from samebits.audit.record_reader import read_record
    from samebits.cli.output_file import check_writable
    from samebits.cli.reporting import choose_format, print_audit, put_text
    from samebits.report.audit_html import audit_html
    from samebits.report.audit_json import audit_json
    from samebits.report.audit_markdown import audit_markdown
    from samebits.report.audit_terminal import audit_text

    if out is not None:
        check_writable(out, "--out")
    found = read_record(record)
    analysis = analyse(found, need=need.value if need else str(found.header.asked.get("need")))
    chosen = choose_format(as_format.value if as_format else None, out)
    if chosen == "terminal" and out is None:
        print_audit(analysis, language.value, as_json=False)
    else:
        make = {
            "html": lambda: audit_html(analysis, language.value),
            "markdown": lambda: audit_markdown(analysis, language.value),
            "json": lambda: audit_json(analysis),
            "terminal": lambda: audit_text(analysis, language.value),
        }
        put_text(make[chosen](), out)
    raise typer.Exit(analysis.exit_code)
