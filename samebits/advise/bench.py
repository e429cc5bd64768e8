"""Where remedies are tried: worker processes on this machine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samebits.advise.ladder import Place, Rung
from samebits.audit.condition import Process
from samebits.audit.observation import Answer
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.hf import HfSettings, list_variables
from samebits.audit.targets.worker import Host, WorkerSession, open_hosted

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
    pins: Mapping[str, str]
    """Variables of the rung that pins its environment."""
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
        """Give the process that is the same everywhere."""
        return Process(threads=self.settings.threads or 1, variables=tuple(self.pins.items()))
