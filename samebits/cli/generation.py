"""What `samebits generate` does once the model is loaded: follow the tokens, print."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from samebits.cli.output_file import write_atomically
from samebits.cli.prompt import make_prompt
from samebits.engine import Completion, Engine, FinishedEvent, SamplingParams, TokenEvent
from samebits.record.canonical import canonical_bytes

FORMAT = "samebits/generation/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What the user wants of a loaded model."""

    text: str
    system: str | None
    chat: bool | None
    """None: a chat if the model has a template."""
    params: SamplingParams
    receipt: Path | None
    as_json: bool


class Following:
    """The tokens of one request as they come, and when they came."""

    def __init__(self) -> None:
        self.events: list[TokenEvent] = []
        self.completion: Completion | None = None
        self.start = time.perf_counter()
        self.first = self.last = self.start

    def follow(
        self, events: Iterator[TokenEvent | FinishedEvent], show: Callable[[str], None]
    ) -> None:
        """Take all events; an interrupt ends it with what is there."""
        try:
            for event in events:
                self.take(event, show)
        except KeyboardInterrupt:
            return

    def take(self, event: TokenEvent | FinishedEvent, show: Callable[[str], None]) -> None:
        """Take one event."""
        if isinstance(event, FinishedEvent):
            self.completion = event.completion
            return
        self.last = time.perf_counter()
        if not self.events:
            self.first = self.last
        self.events.append(event)
        show(event.text)

    def outputs(self) -> list[dict[str, Any]]:
        """Give each sample as plain values; one that was cut off is marked as interrupted."""
        if self.completion is None:
            return [self.cut_output(i) for i in sorted({event.index for event in self.events})]
        return [
            {
                "index": output.index,
                "text": output.text,
                "token_ids": list(output.token_ids),
                "finish_reason": output.finish_reason,
                **(
                    {} if output.logprobs is None else {"logprobs": spell_logprobs(output.logprobs)}
                ),
            }
            for output in self.completion.outputs
        ]

    def cut_output(self, index: int) -> dict[str, Any]:
        """Give what there is of one sample."""
        events = [event for event in self.events if event.index == index]
        return {
            "index": index,
            "text": "".join(event.text for event in events),
            "token_ids": [event.token_id for event in events],
            "finish_reason": events[-1].finish_reason or "interrupted",
        }

    def timings(self, num_prompt_tokens: int) -> dict[str, float]:
        """Give seconds and rates; the first token ends the prefill."""
        prefill_s, decode_s = self.first - self.start, self.last - self.first
        num_decoded = len(self.events) - 1
        return {
            "prefill_s": prefill_s,
            "decode_s": decode_s,
            "prefill_tokens_s": num_prompt_tokens / prefill_s if prefill_s > 0 else 0.0,
            "decode_tokens_s": num_decoded / decode_s if decode_s > 0 else 0.0,
        }


def spell_logprobs(logprobs: Any) -> list[dict[str, Any]]:
    """Give the log-probabilities of each token as plain values."""
    return [{name: plain(value) for name, value in entry._asdict().items()} for entry in logprobs]


def plain(value: Any) -> Any:
    """Give a number or nested tuples of numbers as JSON takes them."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.item() if hasattr(value, "item") else value


def run(ask: Ask, engine: Engine, model: str) -> None:
    """Serve the one request and print it."""
    prompt = make_prompt(
        ask.text, system=ask.system, chat=ask.chat, has_template=engine.template is not None
    )
    if ask.chat is None:
        say_mode(is_chat=not isinstance(prompt, str))
    wants_receipt = ask.as_json or ask.receipt is not None
    events = engine.stream([prompt], ask.params, receipt=wants_receipt)
    following = Following()
    streams = sys.stdout.isatty() and not ask.as_json and ask.params.n == 1
    following.follow(events, show_piece if streams else lambda _text: None)
    report(ask, following, model, streams=streams)


def say_mode(*, is_chat: bool) -> None:
    """Tell how the prompt reaches the model when the user did not choose."""
    how = "chat template (--raw sends it as it is)" if is_chat else "raw (no chat template)"
    print(f"prompt: {how}", file=sys.stderr)


def show_piece(text: str) -> None:
    """Print text at once."""
    print(text, end="", flush=True)


def report(ask: Ask, following: Following, model: str, *, streams: bool) -> None:
    """Print what came and write the receipt; exit with 130 if it was cut off."""
    done = following.completion
    if ask.as_json:
        print_json(following, model)
    elif streams:
        print()
    else:
        print_outputs(following.outputs())
    if done is None:
        note = "no receipt written" if ask.receipt else "the text above is what there is"
        print(f"interrupted after {len(following.events)} tokens; {note}", file=sys.stderr)
        raise typer.Exit(130)
    if ask.receipt is not None and done.receipt is not None:
        write_atomically(ask.receipt, done.receipt.to_json())
        print(f"receipt: {ask.receipt}, {done.receipt.digest}", file=sys.stderr)
    if done.params_in_force["seed"].origin == "drawn":
        print(f"seed: {done.params_in_force['seed'].value}, drawn", file=sys.stderr)
    print_rates(following, len(done.prompt_ids))


def print_outputs(outputs: list[dict[str, Any]]) -> None:
    """Print the text of each sample, under a heading if there are several."""
    for output in outputs:
        if len(outputs) > 1:
            print(f"[{output['index']}]")
        print(output["text"])


def print_rates(following: Following, num_prompt_tokens: int) -> None:
    """Print tokens a second; the first token of a sample comes with the prefill."""
    times = following.timings(num_prompt_tokens)
    parts = [f"prefill: {num_prompt_tokens} tokens, {times['prefill_tokens_s']:.1f}/s"]
    if times["decode_tokens_s"]:
        num_tokens = len(following.events)
        parts.append(f"decode: {num_tokens} tokens, {times['decode_tokens_s']:.1f}/s")
    print("; ".join(parts), file=sys.stderr)


def print_json(following: Following, model: str) -> None:
    """Print one canonical JSON object; `timings` and `observed` alone differ from run to run."""
    done = following.completion
    value: dict[str, Any] = {
        "format": FORMAT,
        "model": model,
        "outputs": following.outputs(),
        "is_complete": done is not None,
    }
    if done is not None and done.receipt is not None:
        body = done.receipt.body()
        value |= {
            "request": body["header"],
            "chains": [sample["chain"] for sample in body["samples"]],
            "receipt_digest": done.receipt.digest,
            "observed": dict(done.receipt.observed),
            "timings": following.timings(len(done.prompt_ids)),
        }
    print(canonical_bytes(value).decode())
