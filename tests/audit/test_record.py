"""A record reads back as it was written, line by line, and goes on where it stopped."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samebits.audit.condition import Process
from samebits.audit.observation import Answer, Observation
from samebits.audit.probe import NearTie, Operands, Place, Probe
from samebits.audit.record import End, NotTested, Opened, Why
from samebits.audit.record_reader import read_record
from samebits.audit.record_writer import RecordWriter
from samebits.errors import ConfigError, InvariantBroken, RecordCorrupt
from samebits.record.canonical import canonical_bytes, parse_json
from tests.audit.audit_records import (
    PROMPTS,
    append_and_read,
    make_answer,
    make_facts,
    make_header,
    make_machine,
    make_observation,
    write_record,
)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
floats = st.floats(allow_nan=False)
ids = st.integers(-(2**70), 2**70)


def rows(item: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.lists(item, max_size=4).map(tuple)


answers = st.builds(
    Answer,
    text=texts,
    token_ids=rows(ids),
    tokens=rows(texts),
    finish_reason=st.none() | texts,
    steps=rows(texts),
    margins=rows(floats),
    seconds=rows(st.integers(0, 2**40) | st.text("abc ", max_size=3)),
    logprobs=rows(floats),
    others=st.lists(texts, max_size=2).map(tuple),
    prompt_text=st.none() | texts,
    num_prompt_tokens=st.none() | ids,
    num_tokens=st.none() | ids,
    fingerprint=st.none() | texts,
    elapsed_s=floats,
    error=st.none() | texts,
)
observations = st.builds(
    Observation,
    condition=st.sampled_from(["{}", '{"batch":8}', '{"dtype":"float32","seed":"42"}']),
    prompt=st.sampled_from([prompt.id for prompt in PROMPTS]),
    round=st.integers(0, 9),
    repeat=st.integers(0, 9),
    attempt=st.just(0),
    session=st.integers(0, 9),
    answer=answers,
)
PROBE = Probe(
    prompt="p0",
    base="{}",
    treated='{"batch":8}',
    places=(Place(name="l", depth=0, is_equal=False, error_base=None, error_treated=1e-7),),
    operands=Operands(name="l", x=(1.0, -0.5), w=(0.1, math.inf), dtype="float32"),
    tie=NearTie(prompt="p0", step=2, tokens=("a", "b"), base=(1.0, 0.9), treated=(0.9, 1.0)),
)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seen=st.lists(observations, max_size=4))
def test_observations_read_back_as_they_were(tmp_path: Path, seen: list[Observation]) -> None:
    path = tmp_path / "record"
    path.unlink(missing_ok=True)
    record = append_and_read(path, *seen)
    assert record.observations == tuple(seen)
    assert record.header == make_header()
    assert (record.is_torn, record.is_ended, record.num_replaced) == (False, False, 0)


def test_every_other_line_reads_back_as_it_was(tmp_path: Path) -> None:
    items = (
        Opened(number=1, attempt=0, process=Process(threads=1), facts=make_facts(is_local=False)),
        NotTested(axis="isa", level="", reason="one level only"),
        PROBE,
        {"positive_control": "differs", "more": [1, 2.5, None]},
        End(why=Why.BUDGET, message="100 calls", own_s=0.5, target_s=9.0, calls=100, tokens=400),
    )
    record = append_and_read(tmp_path / "record", *items)
    assert (record.sessions, record.not_tested, record.probes) == (items[:1], items[1:2], (PROBE,))
    assert (record.notes, record.ends, record.is_ended) == (items[3:4], items[4:], True)


def test_every_line_is_canonical_json_and_the_last_link_is_the_digest(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record")
    lines = [parse_json(line) for line in path.read_bytes().splitlines()]
    assert b"".join(canonical_bytes(line) + b"\n" for line in lines) == path.read_bytes()
    assert [set(line) for line in lines] == [{"kind", "link", "value"}] * 4
    assert read_record(path).digest == lines[-1]["link"]


def test_empty_fields_of_an_answer_are_left_out(tmp_path: Path) -> None:
    append_and_read(tmp_path / "record", make_observation(Answer(text="yes")))
    last = parse_json((tmp_path / "record").read_bytes().splitlines()[-1])
    assert last["value"]["answer"] == {"text": "yes"}


def test_the_identity_holds_all_but_when_and_which_audit(tmp_path: Path) -> None:
    header = make_header()
    again = make_header(nonce="11ee", started_at=None)
    assert header.identity == again.identity
    assert header.identity != make_header(machine=make_machine(cores=4)).identity
    assert header.identity != make_header(asked={"max_tokens": 5}).identity
    one, other = write_record(tmp_path / "a", 0, header), write_record(tmp_path / "b", 0, again)
    assert read_record(one).digest != read_record(other).digest


def test_lone_surrogates_of_a_target_are_replaced_told_apart_and_counted(tmp_path: Path) -> None:
    one, other = Answer(text="\ud800 and \udfff"), Answer(text="\ud801")
    record = append_and_read(tmp_path / "record", *map(make_observation, (one, other)))
    seen = [observation.answer.text for observation in record.observations]
    assert seen == ["\ufffd<D800> and \ufffd<DFFF>", "\ufffd<D801>"]
    assert record.num_replaced == 3


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite_are_kept(tmp_path: Path, value: float) -> None:
    answer = Answer(text="x", logprobs=(value, -1.0), margins=(value,))
    record = append_and_read(tmp_path / "record", make_observation(answer), {"loss": value})
    back = record.observations[0].answer
    assert repr((back.logprobs, back.margins)) == repr((answer.logprobs, answer.margins))
    assert record.notes == (
        {"loss": {"inf": "Infinity", "-inf": "-Infinity"}.get(str(value), "NaN")},
    )


def test_surrogates_in_errors_facts_and_notes_do_not_stop_an_audit(tmp_path: Path) -> None:
    facts = make_facts(in_force={"server\udc80": "x\udc80"})
    opened = Opened(number=0, attempt=0, process=Process(), facts=facts)
    failed = make_observation(Answer(error="HTTP 500: \udcff"))
    record = append_and_read(tmp_path / "record", opened, failed, {"\ud812": "\ud812"})
    assert record.sessions[0].facts.in_force == {"server\ufffd<DC80>": "x\ufffd<DC80>"}
    assert record.observations[0].answer.error == "HTTP 500: \ufffd<DCFF>"


def test_a_resumed_record_goes_on_and_counts_attempts(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record", 2)
    for attempt in (1, 2):
        with RecordWriter.resume(path, machine=make_machine()) as writer:
            writer.append(make_observation(make_answer("abc"), attempt=attempt))
            writer.append(End(why=Why.INTERRUPTED))
    record = read_record(path)
    assert [seen.attempt for seen in record.observations] == [0, 0, 1, 2]
    assert [resumed.machine for resumed in record.resumed] == [None, None]
    assert (len(record.ends), record.is_ended) == (2, True)


def test_a_resumed_record_names_the_machine_only_if_it_changed(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record", 0)
    for cores in (4, 4, 2):
        RecordWriter.resume(path, machine=make_machine(cores=cores)).close()
    machines = [resumed.machine for resumed in read_record(path).resumed]
    assert machines == [make_machine(cores=4), None, make_machine()]


def test_a_torn_last_line_is_told_and_cut_off_on_resuming(tmp_path: Path) -> None:
    path = write_record(tmp_path / "record", 2)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"observation","li')
    assert read_record(path).is_torn
    RecordWriter.resume(path).close()
    assert path.read_bytes().startswith(whole + b'{"kind":"resumed",')
    assert not read_record(path).is_torn


def test_an_existing_file_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="Resume it, or name another file"):
        RecordWriter.create(path, make_header())
    assert path.read_text() == "mine"


def test_a_refused_start_leaves_no_file(tmp_path: Path) -> None:
    twice = make_header(prompts=(PROMPTS[0], PROMPTS[0]))
    with pytest.raises(RecordCorrupt, match="id once"):
        RecordWriter.create(tmp_path / "record", twice)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("item", "found"),
    [
        (make_observation(make_answer("a"), attempt=1), "attempt 1"),
        (make_observation(make_answer("a"), prompt="p9"), "p9"),
        (make_observation(make_answer("a"), condition='{"batch": 8}'), "batch"),
        (make_observation(make_answer("a"), condition='{"colour":8}'), "colour"),
        (Opened(number=1, attempt=2, process=Process(), facts=make_facts()), "attempt 2"),
    ],
)
def test_what_no_reader_would_take_is_not_written(tmp_path: Path, item: Any, found: str) -> None:
    path = tmp_path / "record"
    with RecordWriter.create(path, make_header()) as writer:
        with pytest.raises(InvariantBroken, match=found):
            writer.append(item)
        writer.append(make_observation(make_answer("a")))
    assert len(read_record(path).observations) == 1


def test_nothing_follows_an_end_but_a_resumption(tmp_path: Path) -> None:
    with RecordWriter.create(tmp_path / "record", make_header()) as writer:
        writer.append(End(why=Why.COMPLETE))
        with pytest.raises(InvariantBroken, match="after an end"):
            writer.append({"late": True})


def test_two_audits_cannot_write_one_record(tmp_path: Path) -> None:
    path = tmp_path / "record"
    with RecordWriter.create(path, make_header()) as writer:
        with pytest.raises(ConfigError, match="another process that is writing it"):
            RecordWriter.resume(path)
        writer.append(make_observation(make_answer("a")))
        assert len(read_record(path).observations) == 1
    RecordWriter.resume(path).close()


def test_closing_twice_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "record"
    writer = RecordWriter.create(path, make_header())
    writer.close()
    once = path.read_bytes()
    writer.close()
    assert path.read_bytes() == once
    assert read_record(path).header == make_header()


def test_an_interrupt_between_write_and_bookkeeping_leaves_a_record(tmp_path: Path) -> None:
    path = tmp_path / "record"
    with RecordWriter.create(path, make_header()) as writer:
        chain = writer.chain
        writer.append(make_observation(Answer(text="a long answer, longer than what follows")))
        writer.chain = chain
        writer.append(End(why=Why.INTERRUPTED))
        record = read_record(path)
    assert (record.observations, record.is_ended, record.is_torn) == ((), True, False)
