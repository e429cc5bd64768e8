"""samebits report: draw the record of an audit or of an advice again."""

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
    record: Annotated[
        Path,
        typer.Argument(help="Written by samebits audit or samebits advise.", show_default=False),
    ],
    as_format: FormatOption = None,
    out: ReportOption = None,
    language: LanguageOption = LanguageName.EN,
    need: Annotated[
        NeedName | None,
        typer.Option(help="What has to stay the same; as was asked if not given."),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(help="Of an advice: share of prompts that may differ; as was asked."),
    ] = None,
) -> None:
    """Draw the record of an audit, or of an advice, as a text, a page or data.

    The same record gives the same bytes. Exit codes as for the verb that wrote it.
    """
    from samebits.cli.output_file import check_writable
    from samebits.cli.reporting import put_report, read_analysis, read_weighed

    if out is not None:
        check_writable(out, "--out")
    wanted = need.value if need else None
    drawn = read_weighed(record, wanted, rate, language.value) or read_analysis(
        record, wanted, rate, language.value
    )
    put_report(drawn.document, drawn.make_json, as_format, out)
    raise typer.Exit(drawn.exit_code)
