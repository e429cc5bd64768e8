"""Both languages say everything, and neither says it in the other's words."""

import re
from html.parser import HTMLParser
from string import Formatter

import pytest

from samebits.audit.axes import AXES
from samebits.audit.notes import Note, Only, Reason
from samebits.audit.results import Verdict
from samebits.audit.targets import hf, http_refusals
from samebits.audit.targets.engine import REFUSALS
from samebits.errors import ConfigError
from samebits.report.sentences import translate
from samebits.report.sentences_zh import SENTENCES_ZH
from samebits.report.words import LANGUAGES, spell_percent, words_for
from tests.report.audit_results import SAMPLES
from tests.report.comparisons import COMPARISONS
from tests.report.pages import SMALL, as_text, page_of

ENGLISH, CHINESE = LANGUAGES["en"], LANGUAGES["zh"]


class Text(HTMLParser):
    """Collects what a reader sees or hears, without what is marked as code."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.skipped += tag in ("style", "code")
        self.parts += [value or "" for name, value in attrs if name == "aria-label"]

    def handle_endtag(self, tag: str) -> None:
        self.skipped -= tag in ("style", "code")

    def handle_data(self, data: str) -> None:
        if not self.skipped:
            self.parts.append(data)


def text_of(page: str) -> str:
    found = Text()
    found.feed(page)
    return "\n".join(found.parts)


def fields_of(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}


def test_both_languages_have_the_same_keys() -> None:
    assert ENGLISH.keys() == CHINESE.keys()


def test_both_languages_fill_in_the_same_values() -> None:
    for key, text in ENGLISH.items():
        assert fields_of(CHINESE[key]) == fields_of(text), key


def test_translated_sentences_use_no_value_that_they_were_not_given() -> None:
    for english, chinese in SENTENCES_ZH.items():
        assert fields_of(chinese) <= fields_of(english), english


def test_every_axis_and_verdict_has_a_name_in_both_languages() -> None:
    keys = {f"axis.{axis.key}" for axis in AXES}
    keys |= {f"{kind}.{verdict.name}" for kind in ("verdict", "lead") for verdict in Verdict}
    assert keys <= ENGLISH.keys()


def test_no_two_axes_have_the_same_name() -> None:
    for words in LANGUAGES.values():
        names = [words[f"axis.{axis.key}"] for axis in AXES]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", [*SMALL, *COMPARISONS])
def test_no_english_of_ours_is_left_in_a_chinese_page(name: str) -> None:
    assert english_in(text_of(page_of(name, "zh"))) == set()


def english_in(text: str) -> set[str]:
    """Find every text of ours that holds two English words and stands in the Chinese page."""
    ours = {part for text in ENGLISH.values() for part in re.split(r"\{\w+\}", text)}
    ours |= {part for text in SENTENCES_ZH for part in re.split(r"\{\w+\}", text)}
    phrases = {part.strip(" .:;,") for part in ours}
    words = {part for part in phrases if re.search(r"[a-z]{2,} [a-z]{2,}", part)}
    return {part for part in words if part in text}


def test_the_chinese_page_would_be_caught_with_english_in_it() -> None:
    assert english_in(text_of(page_of("unstable")))


@pytest.mark.parametrize(
    "sentence",
    [
        *(refusal.reason for refusal in REFUSALS),
        *(reason for _, reason in hf.CALLS),
        http_refusals.BY_HAND,
        *(*Reason, *Note),
        *(only.format(n=57) for only in Only),
        "prompts of 57 tokens or more",
        "tokens of 2 prompts differ, but a side was asked only once",
    ],
)
def test_fixed_sentences_are_translated(sentence: str) -> None:
    assert re.search(r"[一-鿿]", translate(sentence)), sentence


def test_values_of_a_sentence_survive_its_translation() -> None:
    assert translate("prompts of 57 tokens or more") == "提示不少于 57 个词元"
    assert "avx9" in translate("instruction set avx9 cannot be had here")


def test_an_unknown_sentence_is_shown_as_it_is() -> None:
    assert translate("nobody wrote {this} down") == "nobody wrote {this} down"
    assert "an unknown reason of a target" in as_text(SAMPLES["unstable"](), "zh")


def test_a_language_that_is_not_ours_is_refused() -> None:
    with pytest.raises(ConfigError, match="en, zh"):
        words_for("fr")


def test_a_share_is_never_rounded_to_nothing_or_to_all() -> None:
    spelled = [spell_percent(value) for value in (0, 0.001, 3.04, 9.97, 58.2, 99.7, 99.99, 100)]
    assert spelled == ["0", "<0.1", "3", "10", "58", "99.7", "99.9", "100"]
