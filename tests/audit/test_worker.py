"""A worker answers as a session in this process would, and its end is never a riddle."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask
from samebits.audit.targets.worker import HOSTS, Host, WorkerSession, open_worker, spell_words
from samebits.errors import ConfigError, ModelFileError, TargetError, TargetStopped

ROOT = Path(__file__).parents[2]
VARIABLES = {"PYTHONPATH": str(ROOT), "PATH": os.defpath}
ECHO = Host(opener="tests.audit.worker_host:open_session", remedy="Install it.")


@pytest.fixture(autouse=True)
def hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOSTS, "echo", ECHO)


@pytest.fixture
def session() -> Iterator[WorkerSession]:
    with open_worker("echo", {"name": "m"}, Process(), VARIABLES) as opened:
        yield opened


def make_ask(texts: Sequence[str], batch: int = 1) -> Ask:
    prompts = [AuditPrompt(id=str(place), text=text) for place, text in enumerate(texts)]
    return Ask(
        call=Call(batch=batch),
        prompts=prompts,
        max_tokens=3,
        block="b",
        companions=[AuditPrompt(id="c", messages=(("user", "hi"),))],
    )


def answer_one(session: WorkerSession, text: str) -> str:
    return next(session.ask(make_ask([text]))).text


def is_alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


def wait_for_end(pid: int, limit_s: float) -> bool:
    deadline = time.monotonic() + limit_s
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


def test_answers_come_in_order_and_whole(session: WorkerSession) -> None:
    answers = list(session.ask(make_ask(["é", "\n", "x"], batch=4)))
    assert [answer.text for answer in answers] == ["é 4 1", "\n 4 2", "x 4 3"]
    assert answers[0].token_ids == (1, 2)
    assert answers[0].margins == (0.5,)


def test_answers_are_made_only_when_they_are_read(session: WorkerSession) -> None:
    assert next(session.ask(make_ask(["a", "b", "c"]))).text == "a 1 1"
    assert answer_one(session, "d") == "d 1 2"


def test_the_environment_is_what_was_given_and_what_the_process_sets() -> None:
    process = Process(instance=3, variables=(("MKL_CBWR", "AVX2"), ("PATH", "/bin")))
    with open_worker("echo", {"name": "m"}, process, VARIABLES) as session:
        seen = session.facts.in_force
    assert seen["process"] == 3
    own = {name: seen["variables"][name] for name in ("PYTHONPATH", "MKL_CBWR", "PATH")}
    assert own == {"PYTHONPATH": str(ROOT), "MKL_CBWR": "AVX2", "PATH": "/bin"}
    assert "HOME" not in seen["variables"]


def test_a_probe_comes_back_as_it_was_made(session: WorkerSession) -> None:
    base, treated = Condition(), Condition(call=Call(batch=8))
    probe = session.probe(base, treated, AuditPrompt(id="p", text="x"))
    assert probe is not None
    assert (probe.base, probe.treated) == ("{}", '{"batch":8}')
    assert probe.places[0].error_treated == 1e-9
    assert probe.operands is not None and probe.operands.w == (0.1,)
    assert probe.tie is not None and probe.tie.tokens == ("a", "b")
    assert session.probe(base, treated, AuditPrompt(id="blind", text="x")) is None


def test_an_error_keeps_its_kind_and_its_facts(session: WorkerSession) -> None:
    with pytest.raises(ModelFileError) as caught:
        answer_one(session, "refuse")
    assert (caught.value.expected, caught.value.remedy) == ("a file", "Write one.")
    assert answer_one(session, "after") == "after 1 2"


def test_a_bug_in_a_session_is_an_error_of_the_target(session: WorkerSession) -> None:
    with pytest.raises(TargetError, match="ZeroDivisionError: by nothing"):
        answer_one(session, "bug")


def test_an_error_on_opening_is_raised_as_what_it_is() -> None:
    with (
        pytest.raises(ModelFileError, match="a folder"),
        open_worker("echo", {"name": "absent"}, Process(), VARIABLES),
    ):
        pass


def test_a_missing_package_is_named_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(HOSTS, "gone", Host(opener="no_such_package.x:f", remedy="Install it."))
    with (
        pytest.raises(ConfigError, match=r"no_such_package to be installed.*Install it"),
        open_worker("gone", {}, Process(), VARIABLES),
    ):
        pass


@pytest.mark.parametrize("name", ["SIGKILL", "SIGILL", "SIGSEGV"])
def test_a_worker_ended_by_a_signal_says_which_and_its_last_words(name: str) -> None:
    with (
        pytest.raises(TargetError) as caught,
        open_worker("echo", {"name": "m"}, Process(), VARIABLES) as session,
    ):
        answer_one(session, f"die {name}")
    assert f"ended by {name}" in caught.value.found
    assert "last words" in caught.value.found
    assert ("memory" in caught.value.remedy) == (name == "SIGKILL")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("SIGTERM", TargetStopped),
        ("SIGINT", TargetStopped),
        ("SIGHUP", TargetStopped),
        ("SIGKILL", TargetError),
        ("SIGSEGV", TargetError),
    ],
)
def test_an_end_by_somebody_is_told_from_a_failure_and_last_words_have_no_bars(
    name: str, kind: type[TargetError]
) -> None:
    with (
        pytest.raises(TargetError) as caught,
        open_worker("echo", {"name": "m"}, Process(), VARIABLES) as session,
    ):
        if name == "SIGINT":
            # Python makes an exception of it; a process that it ends is killed by it.
            answer_one(session, "default SIGINT")
        answer_one(session, f"bar {name}")
    assert type(caught.value) is kind
    assert f"ended by {name}" in caught.value.found
    words = caught.value.found.partition("printed:\n")[2].splitlines()
    assert words[-2:] == ["loading", "Traceback"]


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (b"a\r\nb\r\n", "a\nb"),
        (b"\rLoad:   0%|   | 0/9 [00:00<?, ?it/s]\n", ""),
        (b"x\n\rLoad 1\rLoad 2", "x"),
        (b"\rLoad: 0%| | 0/9 [00:00<?, ?it/s]Error: [why]\n", "Error: [why]"),
    ],
)
def test_progress_bars_are_no_words(printed: bytes, words: str) -> None:
    assert spell_words(printed) == words


def test_a_worker_that_exits_says_its_status(session: WorkerSession) -> None:
    with pytest.raises(TargetError, match="exit status 7"):
        answer_one(session, "exit")
    with pytest.raises(TargetError, match="exit status 7"):
        answer_one(session, "again")


def test_closing_ends_the_process() -> None:
    with open_worker("echo", {"name": "m"}, Process(), VARIABLES) as session:
        pid = session.facts.in_force["pid"]
        assert is_alive(pid)
    assert not is_alive(pid)


def test_an_interrupt_ends_a_worker_that_is_busy_even_if_it_is_caught_inside() -> None:
    previous = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        with open_worker("echo", {"name": "m"}, Process(), VARIABLES) as session:
            pid = session.facts.in_force["pid"]
            with pytest.raises(KeyboardInterrupt):
                answer_one(session, "sleep")
            start = time.monotonic()
        assert time.monotonic() - start < 1.5
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)
    assert wait_for_end(pid, 1.0)


PARENT = """
import sys
from samebits.audit.condition import Process
from samebits.audit.targets.worker import HOSTS, open_worker
from tests.audit.test_worker import ECHO, VARIABLES, answer_one
HOSTS["echo"] = ECHO
with open_worker("echo", {"name": "m"}, Process(), VARIABLES) as session:
    print(session.facts.in_force["pid"], flush=True)
    answer_one(session, "sleep")
"""


def test_a_killed_parent_leaves_no_worker_behind() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=VARIABLES) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    assert wait_for_end(pid, 10.0)
