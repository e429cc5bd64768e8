import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from samebits.audit.axes import BASE
from samebits.audit.budget import Budget
from samebits.audit.record import AuditRecord, Opened, Resumed, Why
from samebits.audit.record_reader import read_record
from samebits.audit.targets.stub import Stub
from samebits.audit.targets.stub_causes import Cause, Script
from samebits.errors import ConfigError, TargetError
from tests.audit.audit_host import main
from tests.audit.audit_journal import Memory, make_options, make_prompts, places, run

AXES = ("repeat", "batch", "concurrency", "prefix", "first-call", "threads", "stream")
OPTIONS = make_options(axes=AXES, prompts=make_prompts(4), max_tokens=6)
SCRIPT = Script(
    causes=(
        Cause(factor="batch", size=1.0),
        Cause(factor="concurrency", size=1.0, at_least=3),
        Cause(factor="prefix", size=1.0),
        Cause(factor="first", size=1.0),
    )
)


def cut_after(num_calls: int) -> AuditRecord:
    """Run until the target is lost."""
    memory = Memory()
    with pytest.raises(TargetError):
        run(Stub(replace(SCRIPT, fails_after=num_calls)), OPTIONS, journal=memory)
    return memory.record()


def test_an_audit_cut_at_any_call_asks_when_resumed_what_it_would_have_asked() -> None:
    stub = Stub(SCRIPT)
    expected = places(run(stub, OPTIONS).record())
    for num_calls in range(1, stub.num_calls, 29):
        resumed = run(Stub(SCRIPT), OPTIONS, past=cut_after(num_calls))
        assert resumed.end is not None
        assert resumed.end.why is Why.COMPLETE
        assert places(resumed.record()) == expected


def test_only_what_is_missing_is_asked_again() -> None:
    whole = run(Stub(SCRIPT), OPTIONS)
    past = cut_after(60)
    resumed = run(Stub(SCRIPT), OPTIONS, past=past)
    again = places(resumed_only(resumed)) & places(past)
    assert {seen.attempt for seen in resumed.observations} == {1}
    assert len(resumed.observations) == len(whole.observations) - len(places(past)) + len(again)
    # The base's repeats, and one block whose calls lean on each other.
    leaning = {place for place in again if place[0] != BASE.key}
    assert {place for place in again if place[0] == BASE.key} <= {
        (BASE.key, prompt.id, 0, 0) for prompt in OPTIONS.prompts
    }
    assert len(leaning) <= 2
    assert all('"prefix"' in place[0] or '"first"' in place[0] for place in leaning)


def test_repeats_of_the_base_come_from_one_session() -> None:
    for num_calls in range(5, 90, 17):
        resumed = run(Stub(SCRIPT), OPTIONS, past=cut_after(num_calls)).record()
        latest = {
            (seen.prompt, seen.round, seen.repeat): seen.session
            for seen in resumed.observations
            if seen.condition == BASE.key
        }
        for prompt, number, repeat in latest:
            assert latest[prompt, number, repeat] == latest[prompt, number, 0]


def resumed_only(memory: Memory) -> AuditRecord:
    return replace(memory.record(), observations=tuple(memory.observations))


def test_all_calls_of_a_block_that_leans_share_one_attempt_and_one_session() -> None:
    for num_calls in range(50, 80, 3):
        resumed = run(Stub(SCRIPT), OPTIONS, past=cut_after(num_calls))
        blocks = defaultdict(set)
        for seen in resumed.record().observations:
            for name in ("prefix", "first"):
                if f'"{name}"' in seen.condition:
                    block = name, seen.prompt, seen.round, seen.attempt
                    blocks[block].add((seen.condition, seen.repeat, seen.session))
        latest = {block[:3]: found for block, found in sorted(blocks.items())}
        assert all(len({session for *_, session in found}) == 1 for found in latest.values())
        assert all(len(found) == 3 + block[2] for block, found in latest.items())


def test_an_audit_that_is_complete_asks_nothing_more_than_its_first_call() -> None:
    whole = run(Stub(SCRIPT), OPTIONS)
    again = run(Stub(SCRIPT), OPTIONS, past=whole.record())
    assert again.observations == []
    assert again.notes == {}
    assert again.end is not None
    assert (again.end.why, again.end.calls) == (Why.COMPLETE, 1)


def test_what_had_no_answer_is_asked_again() -> None:
    past = run(Stub(Script(error_every=9)), OPTIONS).record()
    missing = {
        (seen.condition, seen.prompt, seen.round, seen.repeat)
        for seen in past.observations
        if seen.answer.error
    }
    resumed = run(Stub(Script()), OPTIONS, past=past)
    assert missing
    assert missing <= places(resumed_only(resumed))
    assert not any(seen.answer.error for seen in resumed.observations)


def test_a_budget_counts_what_earlier_attempts_spent() -> None:
    options = replace(OPTIONS, axes=("repeat", "batch"), budget=Budget(calls=20))
    first = run(Stub(Script()), options)
    assert first.end is not None
    assert (first.end.why, first.end.calls) == (Why.BUDGET, 10)
    second = run(Stub(Script()), replace(options, budget=Budget(calls=31)), past=first.record())
    assert second.end is not None
    assert second.end.calls + first.end.calls <= 31


def test_a_larger_budget_goes_on_with_what_a_smaller_one_left_out() -> None:
    first = run(Stub(Script()), replace(OPTIONS, budget=Budget(calls=120)))
    second = run(Stub(Script()), OPTIONS, past=first.record())
    assert places(second.record()) == places(run(Stub(Script()), OPTIONS).record())
    assert [note["name"] for note in second.of(dict)] == ["plan"]


def test_sessions_go_on_counting() -> None:
    past = cut_after(60)
    resumed = run(Stub(SCRIPT), OPTIONS, past=past)
    numbers = [item.number for item in resumed.record().sessions]
    assert len(set(numbers)) == len(numbers)
    assert all(item.attempt == 1 for item in resumed.of(Opened))


def test_a_record_of_another_target_is_not_gone_on_with() -> None:
    past = cut_after(20)
    with pytest.raises(ConfigError, match="another in_force"):
        run(Stub(Script(seed=1)), OPTIONS, past=past)


def test_a_process_killed_at_any_moment_leaves_a_record_that_can_be_gone_on_with(
    tmp_path: Path,
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    script = "batch:1,prefix:1"
    main(whole, script)
    for num_lines in (5, 60, 120):
        kill_after(killed, num_lines, f"{script},latency_s=0.001")
    main(killed, script)
    record = read_record(killed)
    assert places(record) == places(read_record(whole))
    assert [item.attempt for item in record.resumed] == [1, 2, 3]
    assert all(isinstance(item, Resumed) for item in record.resumed)
    assert len(record.ends) == 1


def kill_after(path: Path, num_lines: int, script: str) -> None:
    """Begin or resume an audit in another process and kill it once so many lines are there."""
    command = [sys.executable, "-m", "tests.audit.audit_host", str(path), script]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2]) as process:
        ends_at = time.monotonic() + 60
        while time.monotonic() < ends_at and process.poll() is None:
            if path.exists() and path.read_bytes().count(b"\n") >= num_lines:
                break
            time.sleep(0.001)
        assert process.poll() is None
        process.kill()
