"""The page in a real browser: silent, self-contained, readable and named for a screen reader.

Needs Debian's chromium; without it these tests fail.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from samebits.report.audit_html import audit_html
from samebits.report.compare import compare_html
from tests.report.audit_results import SAMPLES
from tests.report.comparisons import COMPARISONS

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
PAGES = [*(name for name in SAMPLES if name != "large"), *COMPARISONS]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield made
        made.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write every sample in both languages."""
    made = tmp_path_factory.mktemp("pages")
    for language in ("en", "zh"):
        for name, make in SAMPLES.items():
            (made / f"{name}-{language}.html").write_text(audit_html(make(), language))
        for name, compare in COMPARISONS.items():
            (made / f"{name}-{language}.html").write_text(compare_html(compare(), language))
    return made


@pytest.fixture
def phone(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 320, "height": 640}, color_scheme="dark")
    yield context
    context.close()


def open_page(context: BrowserContext, path: Path) -> tuple[Page, list[str]]:
    """Open a page; list what it logs and every request but the page itself."""
    page, heard = context.new_page(), []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda request: heard.append(request.url))
    page.on("dialog", lambda dialog: heard.append(dialog.message))
    page.goto(path.as_uri())
    return page, [item for item in heard if item != path.as_uri()]


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_logs_nothing_asks_for_nothing_and_fits_a_phone(
    phone: BrowserContext, folder: Path, name: str, language: str
) -> None:
    page, heard = open_page(phone, folder / f"{name}-{language}.html")
    assert heard == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.evaluate("document.documentElement.lang") == {"en": "en", "zh": "zh-CN"}[language]
    page.evaluate("document.querySelectorAll('details').forEach(x => x.open = true)")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_takes_the_readers_theme(browser: Browser, folder: Path, theme: Any) -> None:
    context = browser.new_context(color_scheme=theme)
    page, _ = open_page(context, folder / "unstable-en.html")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    is_dark = max(map(int, re.findall(r"\d+", colour)[:3])) < 64
    assert is_dark == (theme == "dark")
    context.close()


def test_a_screen_reader_hears_names_of_all_figures_tables_and_regions(
    phone: BrowserContext, folder: Path
) -> None:
    page, _ = open_page(phone, folder / "unstable-en.html")
    page.evaluate("document.querySelectorAll('details').forEach(x => x.open = true)")
    snapshot = page.locator("body").aria_snapshot()
    for role in ("img", "table", "region", "navigation"):
        lines = re.findall(rf"^ *- {role}\b(.*)$", snapshot, re.MULTILINE)
        assert lines, role
        assert all(re.match(r' "[^"]{3,}', line) for line in lines), role
    assert '- img "What each axis did to each prompt"' in snapshot
    assert '- link "Skip to the verdict"' in snapshot
    assert len(re.findall(r'- heading "[^"]+" \[level=1\]', snapshot)) == 1


def test_the_first_stop_of_the_keyboard_skips_to_the_verdict_and_can_be_seen(
    phone: BrowserContext, folder: Path
) -> None:
    page, _ = open_page(phone, folder / "unstable-en.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#verdict"
    box = page.evaluate("document.activeElement.getBoundingClientRect().top")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert box >= 0 and outline == "solid"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "verdict"


def test_a_figures_numbers_open_with_the_keyboard(phone: BrowserContext, folder: Path) -> None:
    page, _ = open_page(phone, folder / "unstable-en.html")
    page.locator("#fig-heat summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#fig-heat table").is_visible()


def test_the_largest_page_is_there_in_a_second(browser: Browser, folder: Path) -> None:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page, heard = open_page(context, folder / "large-en.html")
    timing = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    assert heard == []
    assert page.evaluate(timing) < 5000
    assert page.evaluate("document.documentElement.scrollWidth") <= 1400
    context.close()
