"""samebits audit: how unstable is a model or an endpoint, which change moves it, and how sure."""

from pathlib import Path
from typing import Annotated

import typer

from samebits.cli.names import (
    ArithmeticName,
    LanguageName,
    LanguageOption,
    NeedName,
    NeedOption,
    WeightsName,
)

AXES_HELP = (
    "repeat,batch,concurrency,neighbours,position,padding,stagger,prefix,chunk,kv-cache,attention,"
    "dtype,threads,isa,variables,compile,restart,first-call,logprobs,stream,n,seed,neighbour-seed,"
    "template,ties,scoring"
)
"""The keys of audit/axes.py, written out so that help loads nothing; a test compares them."""


def audit(
    target: Annotated[
        str,
        typer.Argument(
            help="http://HOST:PORT/v1 (any OpenAI-compatible server), hf:FOLDER (transformers), or "
            "engine:MODEL (ours).",
            show_default=False,
        ),
    ],
    model: Annotated[
        str | None, typer.Option(help="Which model of a server that has several.")
    ] = None,
    arithmetic: Annotated[
        ArithmeticName, typer.Option(help="engine: only: sb1, or a plain one to compare with.")
    ] = ArithmeticName.SB1,
    weights: Annotated[
        WeightsName, typer.Option(help="engine: only: bits of the weights under sb1.")
    ] = WeightsName.W16,
    dtype: Annotated[
        str | None,
        typer.Option(help="hf: only: float32, bfloat16 …; the folder's own if not given."),
    ] = None,
    attention: Annotated[
        str | None, typer.Option(help="hf: only: sdpa or eager; sdpa if not given.")
    ] = None,
    with_compile: Annotated[
        bool, typer.Option("--compile", help="hf: only: test torch.compile too; takes minutes.")
    ] = False,
    threads: Annotated[
        int | None, typer.Option(help="hf: and engine: threads of the base condition.")
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="One prompt a line, or JSON Lines of prompt or messages, id, answer. 20 built in.",
        ),
    ] = None,
    answer_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="How to find the task's answer in a text: its group 1."),
    ] = None,
    axes: Annotated[
        str | None, typer.Option(help=f"Which changes to test, with commas; all: {AXES_HELP}.")
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Tokens generated for each prompt.")] = 24,
    budget: Annotated[
        str | None,
        typer.Option(help='Spend no more than "200 calls", "50000 tokens" or "10 min".'),
    ] = None,
    need: NeedOption = NeedName.BITS,
    detect: Annotated[
        float, typer.Option(help="Share of prompts that a clean axis must have been able to show.")
    ] = 0.25,
    out: Annotated[
        Path | None,
        typer.Option(metavar="RECORD", help="Where the record goes; audit-N.jsonl if not given."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the record --out, asked as it was.")
    ] = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record", help="Record the base condition only, for samebits compare elsewhere."
        ),
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report as one HTML file, too.")
    ] = None,
    language: LanguageOption = LanguageName.EN,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the analysis as canonical JSON, not as a report.")
    ] = False,
    api: Annotated[str, typer.Option(help="Server only: auto, chat or completions.")] = "auto",
    key_variable: Annotated[
        str, typer.Option(metavar="NAME", help="Server only: variable that holds the API key.")
    ] = "OPENAI_API_KEY",
    rate_limit: Annotated[
        float | None, typer.Option(help="Server only: most requests a second.")
    ] = None,
    most_at_once: Annotated[int, typer.Option(help="Server only: most requests at once.")] = 16,
    timeout: Annotated[float, typer.Option(help="Server only: seconds for one request.")] = 120.0,
    price: Annotated[
        float | None,
        typer.Option(help="Server only: price of a million tokens, for the estimate."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be asked and what it takes; ask nothing."),
    ] = False,
) -> None:
    """Measure how unstable a model or an endpoint is, and name what moves it.

    Every axis changes one thing and holds the rest; repeats within both conditions are the
    control. Exit code 0: no effect seen; 1: something moves it; 3: cannot tell; 2: no audit.
    """
    from samebits.cli.audit_target import TargetAsk
    from samebits.cli.auditing import AuditAsk, run

    run(
        AuditAsk(
            target=TargetAsk(
                target=target,
                model=model,
                arithmetic=arithmetic.value,
                weights=weights.value,
                dtype=dtype,
                attention=attention,
                compile=with_compile,
                threads=threads,
                api=api,
                key_variable=key_variable,
                rate_limit=rate_limit,
                most_at_once=most_at_once,
                timeout=timeout,
            ),
            prompts=prompts,
            answer_pattern=answer_pattern,
            axes=axes,
            max_tokens=max_tokens,
            budget=budget,
            need=need.value,
            detect=detect,
            out=out,
            resume=resume,
            record_only=record,
            html=html,
            language=language.value,
            as_json=as_json,
            price=price,
            dry_run=dry_run,
        )
    )
