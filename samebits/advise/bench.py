"""Where remedies are tried: worker processes on this machine, or a server that others run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from samebits.advise.ladder import NOTHING, Place, Rung
from samebits.audit.condition import Call, Process
from samebits.audit.observation import Answer
from samebits.audit.target import Ask, Session, Target, TargetFacts
from samebits.audit.targets.hf import HfSettings, list_variables
from samebits.audit.targets.worker import Host, WorkerSession, open_hosted
from samebits.remedies.flags.engines import find_engine
from samebits.remedies.flags.table import Device, Kind

HOST = Host(
    opener="samebits.advise.session:open_session",
    remedy='Run: pip install "samebits[torch]"',
)


class WorkerContestant:
    """A remedy in a worker process."""

    def __init__(self, session: WorkerSession) -> None:
        self.session = session

    @property
    def facts(self) -> TargetFacts:
        """What was found on opening."""
        return self.session.facts

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer all prompts of an ask, which come together."""
        return self.session.ask(ask)

    def settings(self) -> Mapping[str, Any]:
        """Say what is in force, with what was counted since the start."""
        return self.session.read_facts().in_force

    def peak_bytes(self) -> int | None:
        """Give the largest resident memory so far."""
        return read_peak(self.session.worker.process.pid)


def read_peak(process_id: int) -> int | None:
    """Read the largest resident memory of a process, in bytes; None where there is no /proc."""
    try:
        text = Path(f"/proc/{process_id}/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    sizes = [line.split()[1] for line in text.splitlines() if line.startswith("VmHWM:")]
    return 1024 * int(sizes[0]) if sizes else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HfBench:
    """A folder of transformers, under each remedy."""

    settings: HfSettings
    variables: Mapping[str, str]
    """The environment that processes start in, whole."""
    companions: tuple[str, ...]
    """Texts that guards are calibrated with; none of them is observed."""

    def refuse(self, rung: Rung) -> str:
        """Say why a rung cannot be tried here; empty if it can."""
        return ""

    @contextmanager
    def open(self, rung: Rung, place: Place) -> Iterator[WorkerContestant]:
        """Start a process that serves a rung."""
        process = self.pin() if rung.is_pinned else Process(threads=place.threads, isa=place.isa)
        process = Process(
            threads=process.threads, isa=process.isa, variables=list_variables(process)
        )
        settings = {
            "model": self.settings.value(),
            "serve": rung.serve,
            "options": dict(rung.settings),
            "is_pinned": rung.is_pinned,
            "companions": list(self.companions),
        }
        with open_hosted(HOST, settings, process, self.variables) as session:
            yield WorkerContestant(session)

    def pin(self) -> Process:
        """Give the process that is the same everywhere, with the flags that `samebits run` sets."""
        threads = self.settings.threads or 1
        flags = find_engine("pytorch").on(Device.CPU)
        pins = {x.name: x.fill(threads) for x in flags if x.kind is Kind.VARIABLE and x.is_set}
        return Process(threads=threads, variables=tuple(sorted(pins.items())))


OF_THE_SERVER = "the server's own start decides it; see samebits flags"
CLIENT_RUNGS: Mapping[str, Call] = {
    NOTHING: Call(),
    "seeds": Call(seed="0"),
    "isolation": Call(),
}
"""What a client alone can do, and the calls it makes then."""


class ServerContestant:
    """A server whose requests the client arranges."""

    def __init__(self, session: Session, rung: Rung) -> None:
        self.session = session
        self.call = CLIENT_RUNGS[rung.key]
        self.is_alone = rung.key == "isolation"

    @property
    def facts(self) -> TargetFacts:
        """What was found on opening; a client can start nothing elsewhere."""
        return self.session.facts

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer all prompts of an ask, each in the company of all others.

        A prompt is observed while the others run beside it, so a group of n takes n times n
        requests; under isolation n.
        """
        for place, prompt in enumerate(ask.prompts):
            others = (*ask.prompts[:place], *ask.prompts[place + 1 :])
            count = 1 if self.is_alone else len(ask.prompts)
            call = replace(self.call, concurrency=count, neighbours="others")
            for answer in self.session.ask(
                replace(ask, call=call, prompts=(prompt,), companions=others)
            ):
                yield replace(answer, elapsed_s=answer.elapsed_s / count)

    def settings(self) -> Mapping[str, Any]:
        """Say what is in force."""
        return self.session.facts.in_force

    def peak_bytes(self) -> None:
        """A server's memory is not seen from outside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBench:
    """A server over HTTP, under what its client can do."""

    target: Target

    def refuse(self, rung: Rung) -> str:
        """Say why a rung cannot be tried here; empty if it can."""
        return "" if rung.key in CLIENT_RUNGS else OF_THE_SERVER

    @contextmanager
    def open(self, rung: Rung, _place: Place) -> Iterator[ServerContestant]:
        """Open a connection."""
        with self.target.open(Process()) as session:
            yield ServerContestant(session, rung)
