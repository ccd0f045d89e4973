"""The report in a real browser: it asks for nothing, runs nothing foreign, fits any screen, and its parts work."""

from __future__ import annotations

from pathlib import Path

import pytest

from report.made_facts import COMMANDS, digits, hostile, many_classes
from vitrail.report.facts import RunFacts
from vitrail.report.report import page as report_page

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

DESKTOP = {"width": 1400, "height": 900}
WIDTHS = (320, 390, 800, 1180, 1400, 2560)

# The least contrast of a text with what is behind it, over all visible elements with words of their own.
LEAST_CONTRAST = """() => {
  const channels = (colour) => {
    const context = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d");
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => colour.slice(0, 3)
    .map((v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = channels(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
  };
  const own = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const texts = [...document.querySelectorAll("body *:not(svg *, script)")]
    .filter((e) => own(e) && e.checkVisibility() && !e.matches(".none, .matrix td, .skip, .unseen"));
  const ratios = texts.map((e) => {
    const [a, b] = [light(channels(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 40)}`];
  });
  return ratios.sort((x, y) => x[0] - y[0])[0];
}"""


class Opened:
    """A report on the screen, and what it did while it was there."""

    def __init__(self, browser: api.Browser, folder: Path, facts: RunFacts, **options: object) -> None:
        path = folder / "report.html"
        path.write_text(report_page(facts), encoding="utf-8")
        self.context = browser.new_context(**{"viewport": DESKTOP, **options})
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.page.goto(path.as_uri())

    def outside(self) -> list[str]:
        return [url for url in self.requests if not url.startswith(("file:", "data:"))]


@pytest.mark.parametrize("make", [digits, hostile], ids=["plain", "hostile"])
def test_it_asks_for_nothing_and_runs_nothing_foreign(browser: api.Browser, tmp_path: Path, make: object) -> None:
    opened = Opened(browser, tmp_path, make())
    for element in opened.page.query_selector_all("summary, .copy, .sortable button, .choice label"):
        element.click()
    assert opened.outside() == []
    assert opened.complaints == []
    assert len([url for url in opened.requests if url.startswith("file:")]) == 1


def test_a_script_that_got_in_would_not_run(browser: api.Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path, digits())
    opened.page.evaluate(
        """() => {
          document.body.append(Object.assign(document.createElement("script"), { textContent: "window.got = 1" }));
          document.body.insertAdjacentHTML("beforeend", '<img src="data:," onerror="window.got = 2">');
        }"""
    )
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("window.got") is None
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)


@pytest.mark.parametrize("make", [digits, lambda: many_classes(60), hostile], ids=["10", "60", "hostile"])
def test_nothing_sticks_out(browser: api.Browser, tmp_path: Path, make: object) -> None:
    opened = Opened(browser, tmp_path, make())
    opened.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    for width in WIDTHS:
        opened.page.set_viewport_size({"width": width, "height": 800})
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read(browser: api.Browser, tmp_path: Path, scheme: str) -> None:
    opened = Opened(browser, tmp_path, digits(), color_scheme=scheme)
    ratio, where = opened.page.evaluate(LEAST_CONTRAST)
    assert ratio >= 4.5, where


def test_classes_are_worst_first_and_can_be_sorted(browser: api.Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path, digits())

    def column(number: int) -> list[float]:
        cells = opened.page.query_selector_all(f".classes tbody td:nth-child({number})")
        return [float(cell.get_attribute("data-v")) for cell in cells]

    assert column(3) == sorted(column(3))
    precision = opened.page.get_by_role("button", name="Precision")
    precision.focus()
    opened.page.keyboard.press("Enter")
    assert column(4) == sorted(column(4))
    precision.click()
    assert column(4) == sorted(column(4), reverse=True)
    assert opened.page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"


def test_commands_are_copied(browser: api.Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path, digits(), permissions=["clipboard-read", "clipboard-write"])
    opened.page.get_by_role("button", name="Copy Serve").click()
    opened.page.wait_for_function("document.body.textContent.includes('Copied')")
    assert opened.page.evaluate("navigator.clipboard.readText()") == dict(COMMANDS)["Serve"]


def test_curves_against_time_or_steps(browser: api.Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path, digits())
    assert opened.page.is_visible(".against-time")
    assert not opened.page.is_visible(".against-steps")
    opened.page.focus(".choice input")
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.is_visible(".against-steps")
    assert not opened.page.is_visible(".against-time")


def test_pointing_at_a_chart_says_the_value(browser: api.Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path, digits())
    for _ in range(2):  # the second time, the words are no longer in a title
        opened.page.locator(".against-time .at").nth(60).locator(".hit").hover()
        assert opened.page.inner_text("#hint").startswith("minutes ")
        opened.page.locator("#training h2").hover()
        assert not opened.page.is_visible("#hint")


def test_paper_shows_everything(browser: api.Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path, digits(), color_scheme="dark")
    opened.page.pdf(path=tmp_path / "report.pdf")
    assert opened.page.evaluate("[...document.querySelectorAll('details')].every((d) => d.open)")
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(251, 249, 244)"
    assert not opened.page.is_visible("nav")
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
