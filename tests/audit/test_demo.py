"""The demo compares honestly: what differs is counted, what was not made is not called same."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from samebits.audit.demo import Plan, compare, find_difference, make_trials, run_demo
from samebits.audit.demo_bench import Run, Setting
from samebits.audit.demo_prompts import Prompts, load_prompts
from samebits.audit.demo_record import DemoRecord
from samebits.record.canonical import canonical_bytes
from samebits.record.receipt import Sample
from tests.cli.conftest import write_model


def make_run(*outputs: tuple[Sequence[int], str]) -> Run:
    """Make a run of outputs: token ids, and a letter for the logits of each step."""
    samples = tuple(
        Sample(
            index=0,
            token_ids=tuple(ids),
            finish_reason="length",
            steps=tuple(letters),
            chain="",
        )
        for ids, letters in outputs
    )
    return Run(samples, ("",) * len(samples), len(samples), 1, 1.0, 2.0)


def test_equal_runs_are_the_same() -> None:
    run = make_run(([1, 2], "ab"), ([3, 4], "cd"))
    cell = compare("x", run, run)
    assert (cell.num_outputs, cell.num_logits_differ, cell.num_outputs_differ) == (2, 0, 0)
    assert (cell.first_logits, cell.first_token, cell.not_tested) == (None, None, None)


def test_logits_may_differ_where_tokens_do_not() -> None:
    cell = compare("x", make_run(([1, 2, 3], "abc")), make_run(([1, 2, 3], "azc")))
    assert (cell.num_logits_differ, cell.first_logits) == (1, 1)
    assert (cell.num_outputs_differ, cell.first_token) == (0, None)


def test_the_earliest_place_of_all_outputs_counts() -> None:
    base = make_run(([1, 2, 3], "abc"), ([1, 2, 3], "abc"), ([5, 5, 5], "abc"))
    other = make_run(([1, 2, 9], "axy"), ([1, 8, 9], "axy"), ([5, 5, 5], "abc"))
    cell = compare("x", base, other)
    assert (cell.num_outputs_differ, cell.first_token) == (2, 1)
    assert (cell.num_logits_differ, cell.first_logits) == (2, 1)


def test_an_output_that_is_missing_is_no_equal_output() -> None:
    with pytest.raises(ValueError, match="shorter"):
        compare("x", make_run(([1], "a"), ([1], "a")), make_run(([1], "a")))


def test_a_shorter_sequence_differs_where_it_ends() -> None:
    assert find_difference([1, 2], [1, 2, 3]) == 2
    assert find_difference([1, 2], [1, 2]) is None


def test_each_change_differs_from_its_base_in_one_thing() -> None:
    for trial in make_trials(["avx2", "generic"], threads=2):
        base, setting = trial.base, trial.setting
        fields = Setting.__dataclass_fields__
        changed = [name for name in fields if getattr(base, name) != getattr(setting, name)]
        assert changed in (["batch"], ["is_shuffled"], ["chunk_tokens"], ["threads"],
                           ["kernels"], ["level", "kernels"])  # fmt: skip


def test_a_machine_with_one_level_still_lists_the_change() -> None:
    labels = [trial.change.label for trial in make_trials([], threads=1)]
    assert "ISA" in labels
    assert "threads 2" in labels


def test_the_prompts_are_many_and_distinct() -> None:
    prompts = load_prompts()
    assert len(prompts.prompts) == len(prompts.companions) == 16
    assert len({*prompts.prompts, *prompts.companions}) == 32


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> DemoRecord:
    """The demo on a tiny model of random weights."""
    prompts = Prompts(
        tuple(f"Prompt number {i}." for i in range(6)),
        tuple(f"Companion {i}" for i in range(6)),
    )
    told: list[float] = []
    plan = Plan(
        name="tiny",
        path=write_model(tmp_path_factory.mktemp("tiny"), {}),
        threads=2,
        max_tokens=4,
        prompts=prompts,
    )
    found = run_demo(plan, lambda fraction, _label: told.append(fraction))
    assert told == sorted(told)
    assert told[-1] == 1.0
    return found


def test_sb1_keeps_its_bits_and_its_words_under_every_change(record: DemoRecord) -> None:
    cells = record.subjects[-1].cells
    assert record.subjects[-1].arithmetic == "sb1"
    tested = [cell for cell in cells if cell.not_tested is None]
    assert len(tested) >= 6
    assert [cell for cell in tested if cell.num_logits_differ or cell.num_outputs_differ] == []
    assert all(cell.num_outputs == 6 for cell in tested)


def test_plain_float32_does_not(record: DemoRecord) -> None:
    subject = record.subjects[1]
    assert subject.arithmetic == "plain-f32"
    batch = next(cell for cell in subject.cells if cell.change == "batch 8")
    assert batch.num_logits_differ > 0
    assert batch.first_logits is not None


def test_what_does_not_exist_is_not_tested_with_a_reason(record: DemoRecord) -> None:
    for subject in record.subjects[:-1]:
        for change, cell in zip(record.changes, subject.cells, strict=True):
            exists = not change.label.startswith(("ISA", "NumPy"))
            assert (cell.not_tested is None) == exists


def test_a_record_is_plain_values(record: DemoRecord) -> None:
    assert canonical_bytes(record.value())


def test_a_repeated_demo_has_the_same_sb1_digest(record: DemoRecord, tmp_path: Path) -> None:
    prompts = Prompts(record.prompts, ("another companion",))
    plan = Plan(
        name="tiny", path=write_model(tmp_path, {}), threads=1, max_tokens=4, prompts=prompts
    )
    again = run_demo(plan)
    assert again.subjects[-1].logits_digest == record.subjects[-1].logits_digest
