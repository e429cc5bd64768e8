from dataclasses import replace
from typing import Any

import pytest

from samebits.advise.ladder import Basis, choose_rungs
from samebits.advise.results import Advice, Moved
from samebits.advise.run import run_ladder
from samebits.advise.weigh import count_needed, weigh
from samebits.errors import ConfigError, RecordCorrupt
from tests.advise.scripted import Scripted, make_options, make_record


def advise(script: Scripted, *keys: str, need: str = "tokens", rate: float = 0.5) -> Advice:
    options = make_options(*choose_rungs(keys))
    record = run_ladder(
        options, script, make_record(options), keep=lambda _: None, tell=lambda _: None
    )
    return weigh(record, need=need, rate=rate)


def numbers(moved: Moved | None) -> tuple[int, int | None]:
    assert moved is not None
    return moved.tokens.num, None if moved.bits is None else moved.bits.num


def test_a_prompt_counts_once_however_often_it_differs() -> None:
    found = advise(Scripted(tokens_move=frozenset({"nothing"})))
    company = found.rows[0].company
    assert company is not None
    assert (company.tokens.num, company.tokens.of) == (1, 5)


def test_company_and_elsewhere_are_counted_apart() -> None:
    script = Scripted(
        bits_move=frozenset({"float32"}), elsewhere_moves=frozenset({"isolation", "float32"})
    )
    rows = {row.key: row for row in advise(script, "float32", "isolation", "sb1").rows}
    assert numbers(rows["float32"].company) == (0, 5)
    assert numbers(rows["isolation"].company) == (0, 0)
    assert numbers(rows["isolation"].elsewhere) == (0, 5)
    assert numbers(rows["sb1"].elsewhere) == (0, 0)


def test_the_fastest_clean_remedy_is_recommended() -> None:
    script = Scripted(
        tokens_move=frozenset({"nothing"}), seconds={"isolation": 3.0, "fixed-shape": 2.0}
    )
    found = advise(script, "isolation", "fixed-shape")
    assert found.here.rung == "fixed-shape"


def test_float32_is_enough_for_tokens_and_not_for_bits() -> None:
    script = Scripted(
        tokens_move=frozenset({"nothing"}),
        bits_move=frozenset({"float32"}),
        seconds={"sb1": 9.0},
    )
    assert advise(script, "float32", "sb1").here.rung == "float32"
    assert advise(script, "float32", "sb1", need="bits").here.rung == "sb1"


def test_what_moves_elsewhere_is_not_recommended_for_anywhere() -> None:
    script = Scripted(
        tokens_move=frozenset({"nothing"}),
        elsewhere_moves=frozenset({"isolation"}),
        seconds={"sb1": 9.0},
    )
    found = advise(script, "isolation", "sb1", need="bits")
    assert (found.here.rung, found.anywhere.rung) == ("isolation", "sb1")


def test_a_cache_is_never_the_choice() -> None:
    found = advise(Scripted(tokens_move=frozenset({"nothing"}), seconds={"cache": 1e-9}), "cache")
    assert found.rows[1].basis is Basis.REPLAYED
    assert found.here.rung is None


def test_a_missing_answer_rules_a_remedy_out() -> None:
    script = Scripted(tokens_move=frozenset({"nothing"}), missing=frozenset({"isolation"}))
    found = advise(script, "isolation")
    assert found.rows[1].num_missing > 0
    assert found.here.rung is None


def test_a_rate_is_shown_only_with_enough_clean_prompts() -> None:
    script = Scripted(tokens_move=frozenset({"nothing"}))
    shown = advise(script, "isolation", rate=0.5)
    assert shown.here.is_shown
    assert shown.here.bound == pytest.approx(1 - 0.05 ** (1 / 5))
    rare = advise(script, "isolation", rate=1e-4)
    assert not rare.here.is_shown
    assert rare.prompts_needed == 29956


def test_the_prompts_needed_are_the_fewest_that_rule_the_rate_out() -> None:
    for rate in (0.25, 0.1, 0.01):
        needed = count_needed(rate)
        assert (1 - rate) ** needed <= 0.05 < (1 - rate) ** (needed - 1)


def test_costs_come_from_the_largest_company_and_from_who_was_alone() -> None:
    row = advise(Scripted(seconds={"nothing": 4.0})).rows[0]
    assert row.cost.tokens_s == pytest.approx(0.5)
    assert row.cost.token_s == pytest.approx(2.0)
    assert row.cost.peak_bytes == 10**9


@pytest.mark.parametrize(("need", "rate"), [("text", 0.1), ("tokens", 0.0), ("bits", 1.0)])
def test_other_needs_and_rates_are_refused(need: str, rate: float) -> None:
    options = make_options(*choose_rungs([]))
    with pytest.raises(ConfigError):
        weigh(make_record(options), need=need, rate=rate)


def test_an_unknown_remedy_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="prayer"):
        choose_rungs(["prayer"])


@pytest.mark.parametrize(
    "changed",
    [{"batches": []}, {"batches": [[]]}, {"batches": 2}, {"rungs": 1.5}, {"rungs": [{}]},
     {"max_tokens": "16"}, {"rate": "0.1"}],
)  # fmt: skip
def test_options_of_no_known_form_are_refused(changed: dict[str, Any]) -> None:
    record = make_record(make_options(*choose_rungs(["nothing"])))
    with pytest.raises(RecordCorrupt, match="the options of an advice"):
        weigh(replace(record, asked={**record.asked, **changed}), need="tokens", rate=0.5)


def test_the_smallest_rate_needs_many_prompts_and_breaks_nothing() -> None:
    assert count_needed(5e-324) == count_needed(1e-300) > count_needed(1e-9)
