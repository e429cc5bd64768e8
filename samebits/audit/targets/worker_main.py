"""A worker process: hosts one session and answers its parent line by line.

Started by worker.py with the numbers of two pipes; standard output stays free for whatever the
libraries print. Answers are made one at a time, when the parent asks for the next. When the parent
is gone the worker ends too, even in the middle of an answer.
"""

import os
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from importlib import import_module
from queue import SimpleQueue
from typing import Any, BinaryIO

from samebits.audit.condition import Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Session
from samebits.audit.targets.wire import (
    read_ask,
    read_line,
    write_error,
    write_line,
)
from samebits.errors import ConfigError, SamebitsError, TargetError
from samebits.record.typed import plain_value, read_typed

GRACE_S = 2.0
"""What a session has to end by itself once the parent is gone."""

Line = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Serve the parent until it closes its end."""
    lines: SimpleQueue[bytes] = SimpleQueue()
    requests = os.fdopen(int(arguments[0]), "rb")
    replies = os.fdopen(int(arguments[1]), "wb", buffering=0)
    threading.Thread(target=read_requests, args=(requests, lines), daemon=True).start()
    server = Server()
    while line := lines.get():
        try:
            replies.write(write_line(server.reply(read_line(line))))
        except BrokenPipeError:
            break
    return 0


def read_requests(requests: BinaryIO, lines: "SimpleQueue[bytes]") -> None:
    """Queue each line; at the end of the file give the main thread a moment, then end all."""
    for line in requests:
        lines.put(line)
    lines.put(b"")
    time.sleep(GRACE_S)
    os._exit(1)


class Server:
    """One session, opened by the first request, and the answers it is giving."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.answers: Iterator[Answer] = iter(())

    def reply(self, request: Line) -> Line:
        """Do what a request says; an error is a reply too."""
        try:
            return self.do(request["do"], request)
        except SamebitsError as error:
            return {"error": write_error(error)}
        except Exception as error:  # The outermost loop of this process: it reports.
            traceback.print_exc()
            found = f"{type(error).__name__}: {error}"
            return {"error": write_error(TargetError(expected="an answer", found=found))}

    def do(self, verb: str, request: Line) -> Line:
        """Carry out open, facts, ask, next or probe."""
        if verb == "open":
            self.session = open_host(request)
        if self.session is None:
            raise TargetError(expected="an open session", found=verb)
        if verb in ("open", "facts"):
            return {"facts": plain_value(self.session.facts)}
        if verb == "probe":
            return {"probe": look(self.session, request)}
        if verb == "ask":
            self.answers = self.session.ask(read_ask(request["ask"]))
        answer = next(self.answers, None)
        return {"end": True} if answer is None else {"answer": plain_value(answer)}


def open_host(request: Line) -> Session:
    """Import the host of a kind and open its session."""
    module, _, name = request["host"].partition(":")
    try:
        opener = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            expected=f"{error.name} to be installed",
            found="it is not",
            remedy=request["remedy"],
        ) from error
    process = read_typed(Process, request["process"], "process")
    session: Session = opener(request["settings"], process)
    return session


def look(session: Session, request: Mapping[str, Any]) -> Line | None:
    """Probe a prompt."""
    base, treated = (Condition.from_value(request[name]) for name in ("base", "treated"))
    prompt = read_typed(AuditPrompt, request["prompt"], "prompt")
    found: Line | None = plain_value(session.probe(base, treated, prompt))
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
