"""Worker processes: one for each session, since threads, variables and levels act at the start.

This is the parent's side. It speaks over two pipes of its own, keeps the end of what the worker
prints for error messages, and never leaves a worker behind. worker_main.py is the other side.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

from samebits.audit.condition import Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.wire import (
    read_error,
    read_line,
    write_line,
)
from samebits.errors import TargetError, TargetStopped
from samebits.record.typed import plain_value, read_typed

KEPT_BYTES = 4096
"""Of what a worker prints, the end."""
DRAWN_OVER = re.compile(rb"\r[^\r\n]*(?=\r[^\n])")
"""What a progress bar drew before it drew again; a terminal shows the last alone."""
BAR = re.compile(rb"\r[^\r\n\]]*\]?")
"""What it drew last. Bars end in a bracket, behind which an error may follow on the same line."""
STOPS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
"""What people and shells end a process by; the kernel, for memory, by another."""
END_S = 5.0
"""What a worker has to end after its last request; the rest is killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What a worker runs."""

    opener: str
    """module:function of (settings, process), which gives a Session."""
    remedy: str
    """What to do if a package that it imports is missing."""


HOSTS = {
    "hf": Host(
        opener="samebits.audit.targets.hf_session:open_session",
        remedy='Run: pip install "samebits[torch]"',
    ),
    "engine": Host(
        opener="samebits.audit.targets.engine_session:open_session",
        remedy="Install samebits again; its installation is not whole.",
    ),
}


def open_worker(
    kind: str, settings: Mapping[str, Any], process: Process, variables: Mapping[str, str]
) -> AbstractContextManager["WorkerSession"]:
    """Start a process and open a session of a kind in it; arguments as for `open_hosted`.

    Args:
        kind: Names one of `HOSTS`.
    """
    return open_hosted(HOSTS[kind], settings, process, variables)


@contextmanager
def open_hosted(
    host: Host, settings: Mapping[str, Any], process: Process, variables: Mapping[str, str]
) -> Iterator["WorkerSession"]:
    """Start a process and open a session in it.

    Args:
        settings: Plain values for the session.
        process: What acts at the start; its variables are set over the others.
        variables: The environment of the process, whole.
    Raises:
        TargetError: The process cannot start, or ended before it had opened.
        SamebitsError: Whatever opening the session raised.
    """
    worker = start(dict(variables) | dict(process.variables))
    with closing(worker):
        yield WorkerSession(worker, open_host(worker, host, settings, process))


def open_host(
    worker: "Worker", host: Host, settings: Mapping[str, Any], process: Process
) -> TargetFacts:
    """Send the first request."""
    reply = worker.request(
        do="open",
        host=host.opener,
        remedy=host.remedy,
        settings=dict(settings),
        process=plain_value(process),
    )
    facts: TargetFacts = read_typed(TargetFacts, reply["facts"], "facts")
    return facts


def start(variables: Mapping[str, str]) -> "Worker":
    """Start the process, with two pipes besides the usual ones."""
    pipes = Pipes(*os.pipe(), *os.pipe())
    # -P: a torch.py in the current folder is not the torch that the user installed.
    command = (sys.executable, "-P", "-m", "samebits.audit.targets.worker_main")
    try:
        process = subprocess.Popen(
            [*command, str(pipes.child_in), str(pipes.child_out)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=(pipes.child_in, pipes.child_out),
            env=dict(variables),
            # Ctrl-C is for the parent, which ends its workers in good order.
            start_new_session=True,
        )
    except OSError as error:
        os.close(pipes.parent_out)
        os.close(pipes.parent_in)
        raise TargetError(expected="a worker process to start", found=str(error)) from error
    finally:
        os.close(pipes.child_in)
        os.close(pipes.child_out)
    return Worker(process, pipes)


class Pipes(NamedTuple):
    """File descriptors, in the order of two calls of os.pipe."""

    child_in: int
    parent_out: int
    parent_in: int
    child_out: int


class Worker:
    """A process that answers each line with one line.

    Attributes:
        process: What was started. last_words: The end of what it printed. is_waiting: Whether a
            request is under way; it still is after an interrupt.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", pipes: Pipes) -> None:
        self.process = process
        self.requests = os.fdopen(pipes.parent_out, "wb", buffering=0)
        self.replies = os.fdopen(pipes.parent_in, "rb")
        self.last_words = b""
        self.is_waiting = False
        assert process.stdout is not None
        self.listener = threading.Thread(target=self.listen, args=(process.stdout,), daemon=True)
        self.listener.start()

    def listen(self, printed: BinaryIO) -> None:
        """Keep the end of what the worker prints, until it ends."""
        with printed:
            while part := os.read(printed.fileno(), KEPT_BYTES):
                self.last_words = DRAWN_OVER.sub(b"", self.last_words + part)[-KEPT_BYTES:]

    def request(self, **request: Any) -> dict[str, Any]:
        """Send a request and wait for its reply.

        Raises:
            TargetStopped: Somebody has ended the process.
            TargetError: It has ended, or does not keep to the protocol.
            SamebitsError: Whatever it raised.
        """
        line = self.exchange(write_line(request))
        if not line.endswith(b"\n"):
            raise self.explain_end()
        reply = read_line(line)
        if "error" in reply:
            raise read_error(reply["error"])
        return reply

    def exchange(self, line: bytes) -> bytes:
        """Send a line and wait for one; empty if the process has ended."""
        self.is_waiting = True
        try:
            self.requests.write(line)
            reply = self.replies.readline()
        except BrokenPipeError:
            reply = b""
        self.is_waiting = False
        return reply

    def explain_end(self) -> TargetError:
        """Say how the process ended and what it said last."""
        self.process.wait()
        self.listener.join(END_S)
        words = spell_words(self.last_words)
        how = spell_end(self.process.returncode)
        kind = TargetStopped if -self.process.returncode in STOPS else TargetError
        return kind(
            expected="an answer from the worker process",
            found=f"{how}; it had printed:\n{words}" if words else how,
            remedy="Look for a lack of memory." if self.process.returncode == -9 else "",
        )

    def close(self) -> None:
        """End the process: by the end of its requests; by force if it is busy or takes long."""
        self.requests.close()
        if self.is_waiting:
            self.process.kill()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.replies.close()
        self.listener.join(END_S)


def spell_words(printed: bytes) -> str:
    """Spell what a process printed, without the progress bars of its libraries."""
    lines = BAR.sub(b"", printed.replace(b"\r\n", b"\n")).decode(errors="replace").splitlines()
    return "\n".join(line for line in lines if line.strip())


def spell_end(code: int) -> str:
    """Spell an exit status."""
    if code >= 0:
        return f"it ended with exit status {code}"
    with suppress(ValueError):
        return f"it was ended by {signal.Signals(-code).name}"
    return f"it was ended by signal {-code}"


class WorkerSession:
    """A session that lives in a worker process."""

    def __init__(self, worker: Worker, facts: TargetFacts) -> None:
        self.worker = worker
        self.found = facts
        self.num_asks = 0

    @property
    def facts(self) -> TargetFacts:
        """What the worker's session found on opening."""
        return self.found

    def read_facts(self) -> TargetFacts:
        """Ask for the facts anew: counts among what is in force go on."""
        reply = self.worker.request(do="facts")
        facts: TargetFacts = read_typed(TargetFacts, reply["facts"], "facts")
        return facts

    def ask(self, ask: Ask) -> Iterator[Answer]:
        """Answer each prompt in order; a new ask gives up the rest of the one before."""
        self.num_asks = own = self.num_asks + 1
        reply = self.worker.request(do="ask", ask=plain_value(ask))
        while "answer" in reply:
            assert own == self.num_asks, "an ask that was given up goes on"
            yield read_typed(Answer, reply["answer"], "answer")
            reply = self.worker.request(do="next")

    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe | None:
        """Let the worker's session look."""
        reply = self.worker.request(
            do="probe", base=base.value(), treated=treated.value(), prompt=plain_value(prompt)
        )
        probe: Probe | None = read_typed(Probe | None, reply["probe"], "probe")
        return probe
