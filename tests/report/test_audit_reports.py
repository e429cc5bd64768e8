"""Reports of audits say what the analysis says, in every format, and let nothing else in."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from rich.cells import cell_len

from samebits.audit.results import Analysis, Verdict
from samebits.record.canonical import canonical_bytes
from samebits.report.in_json import report_json
from tests.report.audit_results import (
    DIGEST,
    HOSTILE,
    SAMPLES,
    make_axis,
    make_hostile,
    make_large,
    make_level,
    make_stable,
    make_unexplained,
    make_unstable,
    make_unsure,
)
from tests.report.comparisons import COMPARISONS, make_unequal
from tests.report.pages import LANGUAGES, SMALL, as_html, as_markdown, as_text, page_of

VOID = ("meta", "link", "br", "path", "rect", "circle")


class Shape(HTMLParser):
    """Lists the elements of a page and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def shape_of(page: str) -> Shape:
    shape = Shape()
    shape.feed(page)
    assert shape.open == []
    return shape


def flat(text: str) -> str:
    return " ".join(text.split())


def row_of(text: str, name: str) -> str:
    """Give the lines that a terminal shows of an axis."""
    found = re.search(rf"^  {re.escape(name)}\n((?:    .*\n)*)", text, re.MULTILINE)
    assert found, name
    return flat(found.group(1))


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", SMALL)
def test_rendering_twice_gives_the_same_bytes(name: str, language: str) -> None:
    def render() -> tuple[str, ...]:
        made: Analysis = SAMPLES[name]()
        return (as_html(made, language), as_markdown(made, language),
                as_text(made, language), report_json(made))  # fmt: skip

    assert render() == render()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", SMALL)
def test_no_line_is_wider_than_the_terminal(name: str, language: str) -> None:
    text = as_text(SAMPLES[name](), language)
    assert max(cell_len(line) for line in text.splitlines()) <= 80


@pytest.mark.parametrize("name", SAMPLES)
def test_the_verdict_comes_first_after_what_must_not_be_overlooked(name: str) -> None:
    lines = as_text(SAMPLES[name]()).splitlines()
    first = lines[lines.index("Verdict") + 1]
    expected = ("! ", "Not stable", "No effect seen", "Bits move", "Cannot tell", "Nothing was")
    assert first.startswith(expected)


def test_the_verdict_names_the_axes_and_what_it_is_based_on() -> None:
    text = flat(as_text(make_unstable()))
    assert "What changes tokens: batch size, KV cache. What moves bits alone: attention." in text
    assert "Based on 30 prompts and 1,180 calls (4 without an answer). 9 axes tested, 1 of" in text
    assert "2 not tested." in text
    assert "Exit code 1: something has an effect" in text


def test_an_axis_shows_its_level_rates_controls_and_first_token() -> None:
    row = row_of(as_text(make_unstable()), "Batch size")
    assert "Level: 8" in row
    assert re.search(r"Tokens differ: 12/30 \(\d+–\d+ %\)", row)
    assert "Controls differ: base 0/30, treated 0/30" in row
    assert "First token: 4" in row
    assert "no effect at 2, an effect at 8; only if: prompts of 57 tokens or more" in row


def test_every_zero_has_the_smallest_rate_that_would_have_been_seen_beside_it() -> None:
    text = as_text(make_unstable())
    sentence = (
        "no effect seen up to 30 prompts; a cause that hits more than 9.5 % of prompts would "
        "have been seen (95 %)"
    )
    for name in ("Repeat", "Neighbours' content", "Position in the batch", "Streaming", "Seed"):
        assert sentence in row_of(text, name)
    assert "no change of tokens seen up to 30 prompts" in row_of(text, "Attention")


def test_the_fewest_prompts_count_where_levels_differ() -> None:
    none = Verdict.NO_EFFECT
    levels = (make_level("batch", "2", none), make_level("batch", "8", none, of=12))
    made = replace(make_stable(), axes=(make_axis("batch", none, *levels),))
    assert "no effect seen up to 12 prompts" in row_of(as_text(made), "Batch size")


def test_what_is_not_tested_has_a_reason_and_no_rate() -> None:
    row = row_of(as_text(make_unstable()), "Clock in the template")
    assert row == "no template is used, hence no clock"


def test_an_untested_level_of_a_tested_axis_is_named() -> None:
    none = Verdict.NO_EFFECT
    untested = make_level("batch", "64", Verdict.NOT_TESTED, reason="the budget ended")
    axis = make_axis("batch", none, make_level("batch", "2", none), untested)
    made = replace(make_stable(), axes=(axis,))
    assert "64 not tested: the budget ended" in row_of(as_text(made), "Batch size")


def test_an_untested_axis_is_never_drawn_as_clear() -> None:
    page = page_of("unstable")
    body = page[page.index('class="group"') :]
    last = body[body.rindex('class="group"', 0, body.index("</table>")) :]
    assert "tone-untested" in last[:400]
    svg = page[page.index('aria-labelledby="fig-heat-title"') :]
    assert svg[: svg.index("</svg>")].count("not tested") == 2


def test_an_incomplete_audit_says_so_at_the_top() -> None:
    for text in (as_text(make_unsure()), as_markdown(make_unsure())):
        assert flat(text).index("This audit is not complete") < text.index("Cannot tell")
    assert "the user interrupted it" in flat(as_text(make_unsure()))


def test_bits_that_were_not_visible_are_said_plainly() -> None:
    text = flat(as_text(make_unexplained()))
    assert "Bits were not visible: the target reports nothing below tokens." in text
    assert "Bits differ: not visible" in text
    assert "Bits were not visible on some axes" in flat(as_text(make_unstable()))
    assert "streaming" in flat(as_text(make_unstable()))


def test_a_prompt_that_changes_nothing_raises_an_alarm() -> None:
    assert "Answers may not depend on the prompt" in flat(as_text(make_unexplained()))


def test_over_http_the_missing_explanation_is_explained() -> None:
    text = flat(as_text(make_unexplained()))
    assert text.count("Missing: the target is reached over HTTP") == 2
    assert "float32" not in text


def test_sampling_error_and_rerun_noise_are_two_numbers() -> None:
    text = as_text(make_unstable())
    assert re.search(r"Sampling error +0\.0401", text)
    assert re.search(r"Rerun error +0\.0000", text)
    assert re.search(r"pass\^2 +24/30", text)
    assert re.search(r"TARr@2 +30/30", text)


def test_expected_flips_stand_beside_those_observed() -> None:
    text = flat(as_text(make_unstable()))
    assert "Flips expected 9.4 per 1,000 tokens" in text
    assert "Flips observed 12 per 1,000 tokens: 12/960" in text


def test_the_first_place_whose_bits_differ_is_named() -> None:
    text = flat(as_text(make_unstable()))
    assert "bits first differ at model.layers.0.mlp.up_proj (layer 0)" in text
    assert "The winner differs" in text


def test_the_command_can_be_pasted_and_the_digest_stands_whole() -> None:
    text = as_text(make_unstable())
    assert "\n  samebits audit hf:SmolLM2-135M-Instruct --max-tokens 32 --need tokens\n" in text
    assert DIGEST in text


def test_plain_text_holds_no_escape_codes_whatever_the_record_holds() -> None:
    for text in (as_text(make_hostile()), as_markdown(make_hostile())):
        assert not re.search(
            r"[\x00-\x09\x0b-\x1f\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]", text
        )
        assert "[U+001B]" in text.replace("\\", "")


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [*SMALL, *COMPARISONS])
def test_a_page_has_no_element_that_a_record_could_have_made(name: str, language: str) -> None:
    page = page_of(name, language)
    shape = shape_of(page)
    assert not {"script", "b", "iframe", "object", "embed", "form"} & {tag for tag, _ in shape.tags}
    for tag, attributes in shape.tags:
        assert not any(key.startswith("on") or key == "style" for key in attributes), tag
        for key in ("src", "href"):
            target = attributes.get(key) or "#"
            assert target.startswith(("#", "data:,")), target
    assert "\u202e" not in page and "\x1b" not in page
    ids = [attributes["id"] for _, attributes in shape.tags if "id" in attributes]
    assert len(set(ids)) == len(ids)


def test_long_prompts_are_cut_and_say_by_how_much() -> None:
    page = page_of("hostile")
    assert "x" * 200 not in page
    assert f"(+{10_000 + len(HOSTILE) - 160:,})" in page


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_names_its_language_and_has_one_heading_of_each_section(language: str) -> None:
    shape = shape_of(page_of("unstable", language))
    tags = [tag for tag, _ in shape.tags]
    assert dict(shape.tags)["html"] == {"lang": {"en": "en", "zh": "zh-CN"}[language]}
    assert tags.count("h1") == 1
    assert tags.count("h2") == tags.count("section") == 9
    assert tags.count("caption") == tags.count("table")


def test_every_figure_has_a_name_a_description_and_a_table() -> None:
    page = page_of("unstable")
    shape = shape_of(page)
    pictures = [attributes for tag, attributes in shape.tags if tag == "svg"]
    assert len(pictures) == 7
    for picture in pictures:
        assert picture["role"] == "img"
        for key in ("aria-labelledby", "aria-describedby"):
            assert re.search(rf'id="{picture[key]}">[^<]+<', page)
    assert page.count("<figure") == page.count("</figure>") == len(pictures)
    for figure in re.findall(r"<figure.*?</figure>", page, re.DOTALL):
        assert "<details>" in figure and "<table" in figure


def test_the_policy_of_a_page_allows_its_own_style_and_nothing_else() -> None:
    page = page_of("stable")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert html.unescape(policy) == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_has_a_contrast_of_at_least_4_5(theme: str) -> None:
    colours = colours_of(page_of("stable"), theme)
    for name in ("ink", "soft", "link", "clear", "bits", "tokens", "unsure", "untested"):
        for ground in ("paper", "raised"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    for sign, fill in (("bits-sign", "bits-fill"), ("tokens-sign", "tokens-fill")):
        assert contrast(colours[sign], colours[fill]) >= 4.5


def colours_of(page: str, theme: str) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", page, re.DOTALL)
    chosen = blocks[0] if theme == "light" else blocks[1]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", chosen))


def contrast(one: str, other: str) -> float:
    """Give the contrast ratio of WCAG 2.2."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_ten_thousand_observations_stay_small_and_quick() -> None:
    made = make_large()
    page_of("stable")  # The templates are compiled once.
    began = time.process_time()
    page = as_html(made)
    as_text(made)
    took = time.process_time() - began
    assert len(page.encode()) < 2_000_000
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(set(ids)) == len(ids)
    assert took < 1.5


def test_json_is_canonical_and_holds_the_analysis() -> None:
    text = report_json(make_unstable())
    value = json.loads(text)
    assert canonical_bytes(value).decode() + "\n" == text
    assert value["format"] == "samebits/audit-report/v1"
    assert value["verdict"] == "changes tokens"
    assert value["axes"][1]["levels"][1]["comparisons"]["tokens"]["differ"]["num"] == 12


def test_json_spells_numbers_that_json_lacks() -> None:
    census = make_unstable().census
    assert census is not None
    made = replace(make_unstable(), census=replace(census, drift_p95=float("inf")))
    assert json.loads(report_json(made))["census"]["drift_p95"] == "Infinity"


def test_markdown_tables_have_as_many_fields_as_columns() -> None:
    for made in (make_unstable(), make_hostile()):
        for block in re.findall(r"(?:^\|.*\n)+", as_markdown(made), re.MULTILINE):
            counts = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(counts) == 1, block


def test_markdown_lets_no_html_of_a_record_through() -> None:
    text = as_markdown(make_hostile())
    fenced = re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"(?<!\\)<", fenced)


def test_reports_import_no_engine_no_torch_and_no_numpy() -> None:
    code = (
        "import sys, samebits.report.audit_document, samebits.report.in_json,"
        "samebits.report.compare_document, samebits.report.in_html,"
        "samebits.report.in_markdown, samebits.report.in_terminal;"
        "bad = {'torch', 'transformers', 'numpy', 'samebits.engine', 'samebits.model'};"
        "print(sorted(bad & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_comparison_says_first_whether_the_records_can_be_compared() -> None:
    text = flat(as_text(make_unequal()))
    assert text.index("Not comparable as one cause") < text.index("What changed: cannot tell")
    assert text.index("packages.torch") < text.index("Answers")


def test_a_comparison_lists_changed_prompts_with_the_first_token() -> None:
    page = page_of("unequal")
    assert re.search(r"p01.*?class=\"number\"><bdi>5<", page, re.DOTALL)
    assert "in the text" in page


def test_equal_means_never_stand_without_the_items_that_flipped() -> None:
    text = flat(as_text(make_unequal()))
    assert "Equal means, but different items." in text
    assert "Right in A, wrong in B 1: p01" in text
    assert "Wrong in A, right in B 1: p02" in text


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_fit_the_terminal_and_are_the_same_twice(name: str, language: str) -> None:
    def render() -> tuple[str, str, str]:
        made = COMPARISONS[name]()
        return as_text(made, language), as_markdown(made, language), report_json(made)

    assert render() == render()
    assert max(cell_len(line) for line in render()[0].splitlines()) <= 80
    assert json.loads(render()[2])["format"] == "samebits/comparison/v1"
