"""A session for tests of the worker: it echoes, prints, fails and dies as its prompts say."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from samebits.audit.condition import Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import NearTie, Operands, Place, Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.errors import ModelFileError


class EchoSession:
    def __init__(self, settings: Mapping[str, Any], process: Process) -> None:
        self.num_made = 0
        self.settings = settings
        self.facts = TargetFacts(
            kind="stub",
            name=settings["name"],
            in_force={
                "pid": os.getpid(),
                "process": process.instance,
                "variables": dict(os.environ),
            },
            reports=("text",),
            variables=((("A", "1"),),),
        )

    def ask(self, ask: Ask) -> Iterator[Answer]:
        for prompt in ask.prompts:
            self.num_made += 1
            yield self.answer(ask, prompt.text or "")

    def answer(self, ask: Ask, text: str) -> Answer:
        print("noise on standard output", flush=True)
        if text == "refuse":
            raise ModelFileError(expected="a file", found="none", remedy="Write one.")
        if text == "bug":
            raise ZeroDivisionError("by nothing")
        if text.startswith("die "):
            print("last words", file=sys.stderr, flush=True)
            os.kill(os.getpid(), getattr(signal, text[4:]))
        if text.startswith("default "):
            signal.signal(getattr(signal, text[8:]), signal.SIG_DFL)
        if text.startswith("bar "):
            draw_bar()
            os.kill(os.getpid(), getattr(signal, text[4:]))
        if text == "exit":
            os._exit(7)
        if text == "sleep":
            time.sleep(60)
        return Answer(
            text=f"{text} {ask.call.batch} {self.num_made}", token_ids=(1, 2), margins=(0.5,)
        )

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        if prompt.id == "blind":
            return None
        place = Place(name="norm", depth=0, is_equal=True, error_base=None, error_treated=1e-9)
        return Probe(
            prompt=prompt.id,
            base=base.key,
            treated=treated.key,
            places=(place,),
            operands=Operands(name="head", x=(1.0,), w=(0.1,), dtype="float32"),
            tie=NearTie(
                prompt=prompt.id, step=0, tokens=("a", "b"), base=(1.0, 0.5), treated=(0.5, 1.0)
            ),
        )


def draw_bar() -> None:
    """Print as tqdm does, more than is kept of it, and an error right behind."""
    print("loading", file=sys.stderr)
    for step in range(100):
        print(f"\rLoading weights: {step:3}%|#####     | {step}/100", end="", file=sys.stderr)
        print(" [00:00<00:01, 9.99it/s]", end="", file=sys.stderr, flush=True)
    print("Traceback", file=sys.stderr, flush=True)


def open_session(settings: Mapping[str, Any], process: Process) -> EchoSession:
    if settings["name"] == "absent":
        raise ModelFileError(expected="a folder", found="nothing")
    return EchoSession(settings, process)
