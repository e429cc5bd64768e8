"""Advice as text, page and data, in both languages."""

import json
import re

import pytest

from samebits.advise.ladder import RUNGS, Basis, choose_rungs
from samebits.advise.results import Advice
from samebits.advise.run import run_ladder
from samebits.advise.weigh import weigh
from samebits.report.advice_document import make_advice
from samebits.report.in_html import write_page
from samebits.report.in_json import report_json
from samebits.report.in_terminal import write_text
from samebits.report.words import LANGUAGES
from tests.advise.scripted import Scripted, make_options, make_record


@pytest.fixture(scope="module")
def advice() -> Advice:
    options = make_options(*choose_rungs(["float32", "isolation", "cache", "sb1"]))
    script = Scripted(
        tokens_move=frozenset({"nothing"}),
        bits_move=frozenset({"float32"}),
        elsewhere_moves=frozenset({"isolation"}),
        broken=frozenset({"sb1"}),
        seconds={"isolation": 4.0},
    )
    record = run_ladder(
        options, script, make_record(options), keep=lambda _: None, tell=lambda _: None
    )
    return weigh(record, need="bits", rate=0.5)


def test_every_remedy_and_basis_has_a_name_in_both_languages() -> None:
    keys = {f"rung.{rung.key}" for rung in RUNGS} | {f"basis.{basis.name}" for basis in Basis}
    for words in LANGUAGES.values():
        assert keys <= words.keys()


def test_the_text_says_what_to_use_what_differs_and_what_it_costs(advice: Advice) -> None:
    text = write_text(make_advice(advice, "en"))
    assert "Cheapest remedy that keeps bits the same in any company: isolation." in text
    assert "None of them kept bits the same under other threads" in text
    assert re.search(r"float32.*0/5", text)
    assert "not tried: expected a model" in text
    assert "samebits advise hf:m" in text


def test_lines_of_the_text_fit_a_terminal(advice: Advice) -> None:
    assert max(map(len, write_text(make_advice(advice, "en")).splitlines())) <= 80


def test_the_page_is_the_same_bytes_each_time_and_loads_nothing(advice: Advice) -> None:
    page = write_page(make_advice(advice, "en"))
    assert page == write_page(make_advice(advice, "en"))
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert "<script" not in page


def test_the_chinese_page_speaks_chinese(advice: Advice) -> None:
    text = write_text(make_advice(advice, "zh"))
    assert "保持比特不变的最省办法：单独运行" in text
    assert "Cheapest" not in text


def test_json_holds_every_row(advice: Advice) -> None:
    value = json.loads(report_json(advice))
    assert [row["key"] for row in value["rows"]] == [
        "nothing",
        "isolation",
        "float32",
        "cache",
        "sb1",
    ]
    assert value["here"] == {
        "rung": "isolation",
        "is_shown": True,
        "bound": value["here"]["bound"],
    }
