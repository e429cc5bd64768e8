from dataclasses import replace

import pytest

from samebits.advise.ladder import choose_rungs
from samebits.advise.record import AdviceRecord
from samebits.advise.run import Told, run_ladder
from tests.advise.scripted import Scripted, make_options, make_record

RUNGS = choose_rungs(["isolation", "sb1"])


def climb(
    script: Scripted, record: AdviceRecord | None = None, told: list[Told] | None = None
) -> AdviceRecord:
    options = make_options(*RUNGS)
    return run_ladder(
        options,
        script,
        record or make_record(options),
        keep=lambda _: None,
        tell=lambda one: None if told is None else told.append(one),
    )


def test_every_remedy_is_asked_alone_in_company_alone_again_and_elsewhere() -> None:
    script = Scripted()
    record = climb(script)
    assert [trial.rung for trial in record.trials] == ["nothing", "isolation", "sb1"]
    for trial in record.trials:
        assert [(tried.key, tried.is_company) for tried in trial.arrangements] == [
            ("alone", True),
            ("batch 2", True),
            ("batch 4", True),
            ("batch 4, reversed", True),
            ("alone again", True),
            ("threads 2", False),
            ("isa low", False),
        ]
        assert len(trial.sightings) == 5 * 7
        assert trial.in_force["fired"] == 3


def test_groups_are_full_and_companions_are_not_observed() -> None:
    script = Scripted()
    record = climb(script)
    assert {len(group) for group in script.groups} == {1, 2, 4}
    assert any(name.startswith("c") for group in script.groups for name in group)
    assert {seen.prompt for seen in record.trials[0].sightings} == {f"p{i}" for i in range(5)}


def test_each_prompt_has_other_companions_when_the_order_is_reversed() -> None:
    script = Scripted()
    climb(script)
    of_p0 = {group for group in script.groups if "p0" in group and len(group) == 4}
    assert len(of_p0) == 2


def test_a_remedy_that_cannot_be_opened_is_told_and_the_others_go_on() -> None:
    record = climb(Scripted(broken=frozenset({"isolation"})))
    trial = record.trials[1]
    assert "a model that this remedy takes" in trial.not_tried
    assert trial.sightings == ()
    assert len(record.trials[2].sightings) == 35


@pytest.mark.parametrize("place", ["here", "threads"])
def test_a_remedy_whose_process_somebody_ended_is_tried_when_the_run_goes_on(place: str) -> None:
    record = climb(Scripted(stopped=frozenset({("isolation", place)})))
    assert [trial.rung for trial in record.trials] == ["nothing", "sb1"]
    again = climb(Scripted(), record)
    assert [trial.rung for trial in again.trials] == ["nothing", "sb1", "isolation"]
    assert len(again.trials[-1].sightings) == 35 and not again.trials[-1].not_tried


def test_a_remedy_that_is_refused_opens_no_process() -> None:
    script = Scripted(refused={"isolation": "the server's own start decides it"})
    record = climb(script)
    assert record.trials[1].not_tried == "the server's own start decides it"
    assert ("isolation", "here") not in script.opened


def test_a_run_goes_on_where_it_was_stopped() -> None:
    whole = climb(Scripted())
    script = Scripted()
    told: list[Told] = []
    half = replace(whole, trials=whole.trials[:2])
    again = climb(script, half, told)
    assert (told[-1].done, told[-1].total) == (35, 35)
    assert {key for key, _ in script.opened} == {"sb1"}
    assert [trial.rung for trial in again.trials] == ["nothing", "isolation", "sb1"]
    assert again.trials[:2] == half.trials


def test_the_record_is_kept_after_each_remedy_and_progress_never_passes_the_total() -> None:
    kept: list[int] = []
    told: list[Told] = []
    options = make_options(*RUNGS)
    run_ladder(
        options,
        Scripted(),
        make_record(options),
        keep=lambda record: kept.append(len(record.trials)),
        tell=told.append,
    )
    assert kept == [1, 2, 3]
    assert told[-1].done == told[-1].total == 105
