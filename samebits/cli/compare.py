"""samebits compare: two records, and first whether they were made alike."""

from pathlib import Path
from typing import Annotated

import typer

from samebits.cli.names import (
    FormatOption,
    LanguageName,
    LanguageOption,
    NeedName,
    NeedOption,
    ReportOption,
)


def compare(
    a: Annotated[Path, typer.Argument(help="A record of samebits audit.", show_default=False)],
    b: Annotated[Path, typer.Argument(help="Another, of the same prompts.", show_default=False)],
    need: NeedOption = NeedName.BITS,
    as_format: FormatOption = None,
    out: ReportOption = None,
    language: LanguageOption = LanguageName.EN,
) -> None:
    """Compare two records: other machine, other version, other settings.

    Says first whether they were made under equal conditions. Exit code 0: no difference; 1: some;
    3: cannot tell.
    """
    from samebits.audit.compare import compare_records
    from samebits.audit.record_reader import read_record
    from samebits.cli.output_file import check_writable
    from samebits.cli.reporting import put_report
    from samebits.report.compare_document import make_comparison
    from samebits.report.in_json import report_json

    if out is not None:
        check_writable(out, "--out")
    found = compare_records(read_record(a), read_record(b))
    document = make_comparison(found, language.value)
    put_report(document, lambda: report_json(found), as_format, out)
    raise typer.Exit(found.exit_code(need.value))
