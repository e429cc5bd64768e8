"""samebits flags: which settings fix an engine's kernels, graphs and order, with sources."""

from typing import Annotated

import typer

from samebits.cli.names import ENGINE_NAMES, FormatOption, ReportOption


def flags(
    engine: Annotated[
        str, typer.Argument(help=f"One of: {', '.join(ENGINE_NAMES)}.", show_default=False)
    ],
    as_format: FormatOption = None,
    out: ReportOption = None,
) -> None:
    """List the settings that fix an engine's kernels, graphs and order of sums.

    For each: what it fixes, what it does not cover, what it costs, and the source that says so.
    Then the combinations that are known to leak, which samebits run refuses.
    """
    from samebits.cli.output_file import check_writable
    from samebits.cli.reporting import put_report
    from samebits.remedies.flags.engines import find_engine
    from samebits.remedies.flags.table import check_engine
    from samebits.report.flags_document import make_flags
    from samebits.report.in_json import write_json

    if out is not None:
        check_writable(out, "--out")
    found = find_engine(engine)
    check_engine(found)
    put_report(make_flags(found), lambda: write_json(found.describe()), as_format, out)
