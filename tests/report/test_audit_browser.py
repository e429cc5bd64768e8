"""The page in a real browser: silent, self-contained, readable and named for a screen reader.

Needs Debian's chromium; without it these tests fail.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from tests.report.comparisons import COMPARISONS
from tests.report.pages import LANGUAGES, SMALL, page_of

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
PHONE: ViewportSize = {"width": 320, "height": 640}
DESK: ViewportSize = {"width": 1400, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield made
        made.close()


@pytest.fixture(scope="module")
def phone(browser: Browser) -> Page:
    """One tab for all tests: opening another takes longer than most of them."""
    return browser.new_context(viewport=PHONE, color_scheme="dark").new_page()


def open_page(page: Page, folder: Path, name: str = "unstable", language: str = "en") -> list[str]:
    """Open a sample; list what it logs and every request but the page itself."""
    path, heard = folder / "page.html", []
    path.write_text(page_of(name, language))
    listeners: dict[Any, Any] = {
        "console": lambda message: heard.append(message.text),
        "pageerror": lambda error: heard.append(str(error)),
        "request": lambda request: heard.append(request.url),
        "dialog": lambda dialog: heard.append(dialog.message),
    }
    for event, listener in listeners.items():
        page.on(event, listener)
    page.goto(path.as_uri())
    for event, listener in listeners.items():
        page.remove_listener(event, listener)
    return [item for item in heard if item != path.as_uri()]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [*SMALL, *COMPARISONS])
def test_a_page_logs_nothing_asks_for_nothing_and_fits_a_phone(
    phone: Page, tmp_path: Path, name: str, language: str
) -> None:
    assert open_page(phone, tmp_path, name, language) == []
    assert phone.evaluate("document.documentElement.scrollWidth") <= 320
    assert phone.evaluate("document.documentElement.lang") == {"en": "en", "zh": "zh-CN"}[language]
    phone.evaluate("document.querySelectorAll('details').forEach(x => x.open = true)")
    assert phone.evaluate("document.documentElement.scrollWidth") <= 320


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_takes_the_readers_theme(phone: Page, tmp_path: Path, theme: Any) -> None:
    phone.emulate_media(color_scheme=theme)
    open_page(phone, tmp_path)
    colour = phone.evaluate("getComputedStyle(document.body).backgroundColor")
    is_dark = max(map(int, re.findall(r"\d+", colour)[:3])) < 64
    assert is_dark == (theme == "dark")


def test_a_screen_reader_hears_names_of_all_figures_tables_and_regions(
    phone: Page, tmp_path: Path
) -> None:
    open_page(phone, tmp_path)
    phone.evaluate("document.querySelectorAll('details').forEach(x => x.open = true)")
    snapshot = phone.locator("body").aria_snapshot()
    for role in ("img", "table", "region", "navigation"):
        lines = re.findall(rf"^ *- {role}\b(.*)$", snapshot, re.MULTILINE)
        assert lines, role
        assert all(re.match(r' "[^"]{3,}', line) for line in lines), role
    assert '- img "What each axis did to each prompt"' in snapshot
    assert '- link "Skip to the verdict"' in snapshot
    assert len(re.findall(r'- heading "[^"]+" \[level=1\]', snapshot)) == 1


def test_the_first_stop_of_the_keyboard_skips_to_the_verdict_and_can_be_seen(
    phone: Page, tmp_path: Path
) -> None:
    open_page(phone, tmp_path)
    phone.keyboard.press("Tab")
    assert phone.evaluate("document.activeElement.getAttribute('href')") == "#verdict"
    box = phone.evaluate("document.activeElement.getBoundingClientRect().top")
    outline = phone.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert box >= 0 and outline == "solid"
    phone.keyboard.press("Enter")
    assert phone.evaluate("document.activeElement.id") == "verdict"


def test_a_figures_numbers_open_with_the_keyboard(phone: Page, tmp_path: Path) -> None:
    open_page(phone, tmp_path)
    assert not phone.locator("#fig-heat table").is_visible()
    phone.locator("#fig-heat summary").focus()
    phone.keyboard.press("Enter")
    assert phone.locator("#fig-heat table").is_visible()


def test_the_largest_page_is_there_in_five_seconds(browser: Browser, tmp_path: Path) -> None:
    desk = browser.new_context(viewport=DESK).new_page()
    assert open_page(desk, tmp_path, "large") == []
    timing = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    assert desk.evaluate(timing) < 5000
    assert desk.evaluate("document.documentElement.scrollWidth") <= 1400
