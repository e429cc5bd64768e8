from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from samebits.audit.axes import BASE
from samebits.audit.budget import Budget
from samebits.audit.condition import Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.probe import Probe
from samebits.audit.prompts import AuditPrompt
from samebits.audit.record import End, NotTested, Opened, Why
from samebits.audit.target import Ask, TargetFacts
from samebits.audit.targets.stub import Stub, StubSession
from samebits.audit.targets.stub_causes import Cause, Script
from samebits.errors import ConfigError, TargetError
from tests.audit.audit_journal import Memory, make_options, make_prompts, run

FEW = make_options(axes=("repeat", "batch", "stream", "prefix"))


class Counting(Stub):
    """Counts the sessions that are open, and what each was asked."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.now_open = 0
        self.most_open = 0
        self.asked: list[tuple[int, Ask]] = []
        self.broken: tuple[str, ...] = ()

    @contextmanager
    def open(self, process: Process) -> Iterator[StubSession]:
        if set(Condition(process=process).value()) & set(self.broken):
            raise TargetError(expected="a process", found="its compiler crashed")
        self.now_open += 1
        self.most_open = max(self.most_open, self.now_open)
        with super().open(process) as session:
            yield Watched(self, process, session.number)
        self.now_open -= 1


class Watched(StubSession):
    def ask(self, ask: Ask) -> Iterator[Answer]:
        assert isinstance(self.stub, Counting)
        self.stub.asked.append((self.number, ask))
        return super().ask(ask)


def repeats(memory: Memory) -> Counter[tuple[str, int]]:
    return Counter((seen.condition, seen.round) for seen in memory.observations)


def test_a_clean_target_is_asked_once_and_the_audit_is_complete() -> None:
    memory = run(Stub(Script()), FEW)
    assert memory.end is not None
    assert memory.end.why is Why.COMPLETE
    assert {seen.round for seen in memory.observations} == {0}
    assert len(memory.observations) == memory.progress[-1].total == memory.progress[-1].done
    # Base, two batches and the stream twice, cold once, warm twice.
    assert len(memory.observations) == 16 * (2 * 4 + 3)
    assert memory.items[-1] == memory.end


def test_nothing_is_asked_twice() -> None:
    memory = run(Stub(Script(causes=(Cause(factor="batch", size=0.2),))), FEW)
    asked = [(s.condition, s.prompt, s.round, s.repeat) for s in memory.observations]
    assert len(set(asked)) == len(asked)


def test_at_most_two_sessions_are_open_and_all_are_closed() -> None:
    stub = Counting(Script())
    memory = run(stub)
    assert (stub.most_open, stub.now_open) == (2, 0)
    opened = list(memory.of(Opened))
    assert [item.number for item in opened] == list(range(1, len(opened) + 1))
    # The base's, threads, dtype, attention, isa, variables, compile, restart, eleven first calls.
    assert len(opened) == 1 + 7 + 11


def test_every_process_but_fresh_ones_begins_with_a_call_that_is_not_observed() -> None:
    stub = Stub(Script(causes=(Cause(factor="first", size=1.0),)))
    memory = run(stub, make_options(axes=("repeat", "restart", "first-call")))
    bits: dict[str, set[object]] = {"first": set(), "later": set()}
    for seen in memory.observations:
        if seen.prompt == "p0":
            bits["first" if '"first"}' in seen.condition else "later"].add(seen.answer.steps)
    assert len(bits["later"]) == 1
    assert len(bits["first"]) == 1
    assert bits["first"] != bits["later"]


def test_the_treated_process_answers_in_one_session_of_its_own() -> None:
    memory = run(Stub(Script()), make_options(axes=("threads",)))
    sessions = {
        s.condition: {o.session for o in memory.observations if o.condition == s.condition}
        for s in memory.observations
    }
    assert sessions == {"{}": {1}, '{"threads":1}': {2}}


def test_a_prompt_changed_by_a_little_is_seen_to_change_the_answer() -> None:
    assert run(Stub(Script()), FEW).notes["positive control"]["differs"] is True
    constant = run(Stub(Script(is_constant=True)), FEW)
    assert constant.notes["positive control"]["differs"] is False


def test_what_cannot_be_tested_is_told_with_the_reason() -> None:
    memory = run(Stub(Script(lacks=("stream",))), FEW)
    assert [(item.axis, item.level) for item in memory.of(NotTested)] == [("stream", "on")]


def test_an_unknown_axis_is_refused_before_the_target_is_opened() -> None:
    stub = Counting(Script())
    with pytest.raises(ConfigError, match="wind"):
        run(stub, make_options(axes=("wind",)))
    assert stub.num_sessions == 0


def test_recording_makes_two_calls_a_prompt_and_the_control() -> None:
    memory = run(Stub(Script(causes=(Cause(factor="noise"),))), make_options(record_only=True))
    assert repeats(memory) == {("{}", 0): 32}
    assert memory.end is not None
    assert memory.end.calls == 34


@pytest.mark.parametrize("budget", [Budget(calls=300), Budget(tokens=20_000)])
def test_a_budget_is_never_exceeded(budget: Budget) -> None:
    noisy = Script(causes=(Cause(factor="noise", chance=0.5),))
    memory = run(Stub(noisy), make_options(budget=budget))
    assert memory.end is not None
    assert memory.end.why is Why.BUDGET
    assert memory.end.calls <= (budget.calls or memory.end.calls)
    assert memory.end.tokens <= (budget.tokens or memory.end.tokens)
    assert memory.notes["fewer prompts"]["prompts"] == 11
    left_out = {item.axis for item in memory.of(NotTested) if item.reason == "the budget ended"}
    assert "scoring" in left_out
    assert "repeat" not in left_out


def test_a_budget_that_ends_within_a_round_keeps_what_was_seen() -> None:
    memory = run(Stub(Script()), make_options(axes=("repeat",), budget=Budget(calls=20)))
    assert memory.end is not None
    assert memory.end.why is Why.BUDGET
    assert memory.end.calls == 20
    assert len(memory.observations) == 18


def test_time_ends_an_audit_between_two_calls() -> None:
    now = [0.0]
    stub = Stub(Script(latency_s=1.0), sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    options = make_options(axes=("repeat", "batch"), budget=Budget(seconds=30))
    memory = run(stub, options, clock=lambda: now[0])
    assert memory.end is not None
    assert memory.end.why is Why.BUDGET
    assert now[0] <= 31
    assert {item.axis for item in memory.of(NotTested)} == {"batch"}
    assert len(memory.observations) == 22


def test_an_interrupt_keeps_everything_and_says_so() -> None:
    def stop(_progress: object) -> None:
        if len(memory.observations) == 40:
            raise KeyboardInterrupt

    memory = Memory()
    run(Stub(Script()), FEW, tell=stop, journal=memory)
    assert memory.end is not None
    assert memory.end.why is Why.INTERRUPTED
    assert len(memory.observations) == 40
    assert isinstance(memory.items[-1], End)


def test_a_lost_target_ends_the_audit_with_its_message_and_keeps_what_was_seen() -> None:
    memory = Memory()
    with pytest.raises(TargetError, match="after 50 calls"):
        run(Stub(Script(fails_after=50)), FEW, journal=memory)
    end = memory.items[-1]
    assert end.why is Why.TARGET
    assert "after 50 calls" in end.message
    assert len(memory.observations) == 48


def test_a_missing_answer_is_kept_as_missing_and_the_audit_goes_on() -> None:
    memory = run(Stub(Script(error_every=7)), FEW)
    missing = [seen for seen in memory.observations if seen.answer.error]
    assert len(missing) > 10
    assert memory.end is not None
    assert memory.end.why is Why.COMPLETE


def test_a_condition_that_a_target_refuses_call_after_call_is_given_up() -> None:
    memory = run(Stub(Script(rejects=("stream",))), FEW)
    assert memory.end is not None
    assert memory.end.why is Why.COMPLETE
    assert memory.notes["given up"]["condition"] == '{"stream":true}'
    assert repeats(memory)['{"stream":true}', 0] == 5
    assert repeats(memory)["{}", 0] == 32


def test_a_target_that_stops_answering_is_lost_after_five_errors() -> None:
    memory = Memory()
    stub = Stub(Script())

    def die(_progress: object) -> None:
        if len(memory.observations) == 20:
            stub.script = replace(stub.script, error_every=1)

    with pytest.raises(TargetError, match="5 errors in a row"):
        run(stub, FEW, tell=die, journal=memory)
    assert sum(seen.answer.error is not None for seen in memory.observations) == 5


def test_a_target_that_answers_nothing_at_all_is_no_audit() -> None:
    memory = Memory()
    with pytest.raises(TargetError, match="no answer to this call"):
        run(Stub(Script(error_every=1)), FEW, journal=memory)
    assert memory.observations == []


def test_a_process_that_cannot_start_is_not_tested_and_the_rest_goes_on() -> None:
    stub = Counting(Script())
    stub.broken = ("compile",)
    memory = run(stub, make_options(axes=("repeat", "compile", "threads")))
    assert memory.end is not None
    assert memory.end.why is Why.COMPLETE
    assert [item.axis for item in memory.of(NotTested)] == ["compile"]
    assert "its compiler crashed" in next(memory.of(NotTested)).reason
    assert repeats(memory)['{"threads":1}', 0] == 32


def test_waiting_for_the_target_is_counted_apart() -> None:
    now = [0.0]
    stub = Stub(Script(latency_s=0.5), sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))

    def work(_progress: object) -> None:
        now[0] += 0.1

    options = make_options(record_only=True)
    end = run(stub, options, tell=work, clock=lambda: now[0]).end
    assert end is not None
    assert end.target_s == pytest.approx(34 * 0.5)
    assert end.own_s == pytest.approx(32 * 0.1)


def test_progress_foretells_the_time_left_from_the_rates_seen() -> None:
    now = [0.0]
    stub = Stub(Script(latency_s=0.5), sleep=lambda seconds: now.__setitem__(0, now[0] + seconds))
    memory = run(stub, make_options(axes=("repeat", "stream")), clock=lambda: now[0])
    for told in memory.progress:
        assert told.seconds_left == pytest.approx(0.5 * (told.total - told.done))
    assert memory.progress[0].label == "base"
    assert {told.label for told in memory.progress} == {"base", "stream=True"}


def test_later_rounds_ask_only_prompts_that_differ() -> None:
    stub = Stub(Script(causes=(Cause(factor="stream", size=1.0, prompt_tokens=22),)))
    memory = run(stub, make_options(axes=("repeat", "batch", "stream")))
    later = [seen for seen in memory.observations if seen.round > 0]
    assert later
    assert {seen.prompt for seen in later} <= {p.id for p in make_prompts()[-3:]}
    assert {seen.condition for seen in later} == {BASE.key, '{"stream":true}'}


class Transparent(Stub):
    """Shows where bits part, or fails to."""

    def __init__(self, script: Script, *, fails: bool = False) -> None:
        super().__init__(script)
        self.fails = fails
        self.looked: list[tuple[str, str, str]] = []

    def facts(self) -> TargetFacts:
        return replace(super().facts(), is_local=True)

    @contextmanager
    def open(self, process: Process) -> Iterator[StubSession]:
        with super().open(process) as session:
            yield Looking(self, process, session.number)


class Looking(StubSession):
    def probe(self, base: Condition, treated: Condition, prompt: AuditPrompt) -> Probe:
        assert isinstance(self.stub, Transparent)
        if self.stub.fails:
            raise TargetError(expected="a worker", found="none")
        self.stub.looked.append((base.key, treated.key, prompt.id))
        return Probe(
            prompt=prompt.id,
            base=base.key,
            treated=treated.key,
            places=(),
            operands=None,
            tie=None,
        )


MOVED = Script(causes=(Cause(factor="batch"), Cause(factor="stream")))


def test_a_local_target_is_looked_into_once_for_each_axis_found() -> None:
    stub = Transparent(MOVED)
    memory = run(stub, FEW)
    assert [treated for _, treated, _ in stub.looked] == ['{"batch":2}', '{"stream":true}']
    assert [probe.treated for probe in memory.of(Probe)] == [t for _, t, _ in stub.looked]
    resumed = run(Transparent(MOVED), FEW, past=memory.record())
    assert not list(resumed.of(Probe))


def test_an_endpoint_is_not_looked_into() -> None:
    assert not list(run(Stub(MOVED), FEW).of(Probe))


def test_a_look_that_fails_costs_the_explanation_alone() -> None:
    memory = run(Transparent(MOVED, fails=True), FEW)
    assert memory.end is not None
    assert memory.end.why is Why.COMPLETE
    assert "no probe" in memory.notes
