"""samebits report: draw the record of an audit again."""

from pathlib import Path
from typing import Annotated

import typer

from samebits.cli.names import (
    FormatOption,
    LanguageName,
    LanguageOption,
    NeedName,
    ReportOption,
)


def report(
    record: Annotated[Path, typer.Argument(help="Written by samebits audit.", show_default=False)],
    as_format: FormatOption = None,
    out: ReportOption = None,
    language: LanguageOption = LanguageName.EN,
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
    from samebits.cli.reporting import put_report
    from samebits.report.audit_document import make_document
    from samebits.report.audit_json import audit_json

    if out is not None:
        check_writable(out, "--out")
    found = read_record(record)
    analysis = analyse(found, need=need.value if need else str(found.header.asked.get("need")))
    document = make_document(analysis, language.value)
    put_report(document, lambda: audit_json(analysis), as_format, out)
    raise typer.Exit(analysis.exit_code)
