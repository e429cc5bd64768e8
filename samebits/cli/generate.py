"""samebits generate: one prompt, its text, and on request its receipt."""

from pathlib import Path
from typing import Annotated, Any

import typer

from samebits.cli.names import DEFAULT_MODEL, MODEL_HELP, ArithmeticName, WeightsName

MAX_TOKENS = 128


def generate(
    prompt: Annotated[
        str,
        typer.Argument(
            help="The text; - reads it from standard input, less one final line ending.",
            show_default=False,
        ),
    ],
    model: Annotated[str, typer.Option(metavar="MODEL", help=MODEL_HELP)] = DEFAULT_MODEL,
    max_tokens: Annotated[int, typer.Option(help="Most tokens to generate.")] = MAX_TOKENS,
    weights: Annotated[
        WeightsName, typer.Option(help="Bits of the weights under sb1.")
    ] = WeightsName.W16,
    arithmetic: Annotated[
        ArithmeticName,
        typer.Option(help="sb1 promises the same bits; the plain ones are for comparison."),
    ] = ArithmeticName.SB1,
    threads: Annotated[
        int | None, typer.Option(help="Threads; all cores if not given. Speed only, never bits.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="0, the default, takes the likeliest token.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample among the K likeliest.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Sample among this share of weight.")] = None,
    min_p: Annotated[
        float | None, typer.Option(help="Sample among those this likely against the likeliest.")
    ] = None,
    repetition_penalty: Annotated[
        float | None, typer.Option(help="Divide logits of tokens already there; 1 does nothing.")
    ] = None,
    presence_penalty: Annotated[
        float | None, typer.Option(help="Subtract from logits of tokens already generated.")
    ] = None,
    frequency_penalty: Annotated[
        float | None, typer.Option(help="The same, once for each time.")
    ] = None,
    stop: Annotated[
        list[str] | None, typer.Option(help="End before this text; may be given again.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Key of every draw; drawn and reported if not given.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", help="Samples of the prompt.")] = None,
    logprobs: Annotated[
        int | None, typer.Option(help="With --json: log-probabilities of the K best tokens too.")
    ] = None,
    chat: Annotated[
        bool | None,
        typer.Option(
            "--chat/--raw",
            help="Through the chat template, or as it is. Chat if the model has a template.",
            show_default=False,
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(help="System message of the chat.")] = None,
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what is needed to verify the run.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one canonical JSON object, not the text.")
    ] = False,
) -> None:
    """Complete a prompt.

    Under sb1 the same prompt and parameters give the same bits, on any machine.
    """
    from samebits.cli.environment import read_environment
    from samebits.cli.generation import Ask, run
    from samebits.cli.loading import load_engine
    from samebits.cli.output_file import check_writable
    from samebits.cli.prompt import check_unicode, read_prompt_text
    from samebits.engine import SamplingParams
    from samebits.errors import ConfigError

    asked: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
        "presence_penalty": presence_penalty,
        "frequency_penalty": frequency_penalty,
        "stop": tuple(stop) if stop else None,
        "seed": seed,
        "n": n,
        "logprobs": logprobs,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    if logprobs is not None and not as_json:
        raise ConfigError(expected="--json with --logprobs", found="--logprobs alone")
    for text, option in [(system or "", "--system"), *((text, "--stop") for text in stop or ())]:
        check_unicode(text, option)
    environment = read_environment()
    if receipt is not None:
        check_writable(receipt, "--receipt")
    ask = Ask(
        text=read_prompt_text(prompt),
        system=system,
        chat=chat,
        params=SamplingParams(max_tokens=max_tokens, **given),
        receipt=receipt,
        as_json=as_json,
    )
    with load_engine(
        model,
        environment,
        weights=weights.value,
        arithmetic=arithmetic.value,
        threads=threads,
    ) as engine:
        run(ask, engine, model)
