"""samebits advise: what each remedy buys on your prompts and machine, and what it costs."""

from pathlib import Path
from typing import Annotated

import typer

from samebits.cli.names import LanguageName, LanguageOption, NeedName

STRATEGIES = (
    "nothing,seeds,environment,isolation,fixed-shape,float32,float64,guard-lowest,guard-priority,"
    "guard-alone,guard-precise,guard-sb1,cache,sb1"
)
"""The keys of advise/ladder.py, written out so that help loads nothing; a test compares them."""


def advise(
    target: Annotated[
        str,
        typer.Argument(
            help="hf:FOLDER (transformers), or http://HOST:PORT/v1, of which a client can change "
            "little.",
            show_default=False,
        ),
    ],
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="As for samebits audit. 20 built in."),
    ] = None,
    strategies: Annotated[
        str | None, typer.Option(help=f"Which remedies, with commas; all: {STRATEGIES}.")
    ] = None,
    batches: Annotated[
        str, typer.Option(help="How many requests come at once, with commas.")
    ] = "2,8,16",
    max_tokens: Annotated[int, typer.Option(help="Tokens generated for each prompt.")] = 16,
    need: Annotated[NeedName, typer.Option(help="What has to stay the same.")] = NeedName.TOKENS,
    rate: Annotated[
        float, typer.Option(help="Share of prompts that may differ, such as 1e-2.")
    ] = 0.1,
    dtype: Annotated[
        str | None, typer.Option(help="hf: only: the folder's own if not given.")
    ] = None,
    threads: Annotated[int, typer.Option(help="hf: only: threads of every process.")] = 1,
    model: Annotated[str | None, typer.Option(help="Server only: which model of several.")] = None,
    key_variable: Annotated[
        str, typer.Option(metavar="NAME", help="Server only: variable that holds the API key.")
    ] = "OPENAI_API_KEY",
    out: Annotated[
        Path | None,
        typer.Option(metavar="RECORD", help="Where the record goes; advice-N.json if not given."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the record --out, asked as it was.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one HTML file, too.")
    ] = None,
    language: LanguageOption = LanguageName.EN,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print canonical JSON, not a report.")
    ] = False,
) -> None:
    """Try every remedy, from none to our engine, and recommend the cheapest that will do.

    Asks the same prompts alone, in company and, of local models, under other threads and another
    instruction set. Exit code 0: a remedy meets --need at --rate; 1: none does; 3: none that was
    tried differs, but there are too few prompts to show that rate.
    """
    from samebits.cli.advise_ask import AdviseAsk
    from samebits.cli.advising import run

    run(
        AdviseAsk(
            target=target,
            prompts=prompts,
            strategies=strategies,
            batches=batches,
            max_tokens=max_tokens,
            need=need.value,
            rate=rate,
            dtype=dtype,
            threads=threads,
            model=model,
            key_variable=key_variable,
            out=out,
            resume=resume,
            html=html,
            language=language.value,
            as_json=as_json,
        )
    )
