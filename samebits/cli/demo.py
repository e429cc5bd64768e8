"""samebits demo: what changes the bits, and what does not, in two or three minutes."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from samebits.cli.names import DEFAULT_MODEL, MODEL_HELP

if TYPE_CHECKING:
    from samebits.audit.demo_record import DemoRecord

QUICK_TOKENS = 6


def demo(
    model: Annotated[str, typer.Option(metavar="MODEL", help=MODEL_HELP)] = DEFAULT_MODEL,
    threads: Annotated[int | None, typer.Option(help="Threads; all cores if not given.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer tokens: quicker, and shows less.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the whole record as JSON, too.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as canonical JSON, not as a table.")
    ] = False,
) -> None:
    """Show what changes a model's numbers and words.

    Runs 16 prompts through plain bfloat16, plain float32 and sb1, each under changes of batch,
    neighbours, chunks, threads, instruction set and kernels. Takes two to three minutes on two
    idle cores.
    """
    from samebits.audit.demo import MAX_TOKENS, Plan, run_demo
    from samebits.audit.demo_prompts import load_prompts
    from samebits.cli.environment import read_environment
    from samebits.cli.loading import find_model
    from samebits.cli.output_file import check_writable, write_atomically
    from samebits.cli.progress import show_progress

    environment = read_environment()
    if out is not None:
        check_writable(out, "--out")
    plan = Plan(
        name=model,
        path=find_model(model, environment),
        threads=threads,
        max_isa=environment.max_isa,
        max_tokens=QUICK_TOKENS if quick else MAX_TOKENS,
        prompts=load_prompts(),
    )
    try:
        with show_progress("demo", has_clock=True) as tell:
            record = run_demo(plan, tell)
    except KeyboardInterrupt:
        print("interrupted; half a comparison shows nothing, so none is printed", file=sys.stderr)
        raise typer.Exit(130) from None
    if out is not None:
        from samebits.report.demo import demo_json

        write_atomically(out, demo_json(record))
    show(record, as_json=as_json)


def show(record: "DemoRecord", *, as_json: bool) -> None:
    """Print the record as a person or a program wants it."""
    from rich.console import Console

    from samebits.report.demo import WIDEST, demo_json, demo_text, draw_demo

    console = Console(highlight=False)
    if as_json:
        print(demo_json(record), end="")
    elif not console.is_terminal:
        print(demo_text(record), end="")
    else:
        console.width = min(console.width, WIDEST)
        console.print(draw_demo(record))
