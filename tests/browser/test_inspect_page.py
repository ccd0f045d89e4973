"""The page of a model's inside in a real browser, and the report's part of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from browser.test_report_page import LEAST_CONTRAST
from oracles import randomise
from report.test_inside import SHAPE, run_of
from report.test_inspect_page import inspected
from vitrail.model.vit import ViT
from vitrail.report.inspect_page import page as inspect_page
from vitrail.report.report import page as report_page

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")


@pytest.fixture(scope="module", params=["inspect", "report"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("inside") / "page.html"
    if request.param == "inspect":
        path.write_text(inspect_page(inspected(registers=1)), encoding="utf-8")
    else:
        path.write_text(report_page(replace(run_of(randomise(ViT(**SHAPE)))[0], title="a run")), encoding="utf-8")
    return path


def test_it_asks_for_nothing_and_runs_nothing_foreign(browser: api.Browser, written: Path) -> None:
    page = browser.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(written.as_uri())
    assert [url for url in requests if not url.startswith("data:")] == [written.as_uri()]
    assert complaints == []
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.evaluate("[...document.querySelectorAll('nav a')].every((a) => document.querySelector(a.hash))")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_any_screen_and_can_be_read(browser: api.Browser, written: Path, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(written.as_uri())
    for width in (320, 800, 1400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
    ratio, where = page.evaluate(LEAST_CONTRAST)
    assert ratio >= 4.5, where


def test_pointing_at_a_chart_says_the_value(browser: api.Browser, written: Path) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(written.as_uri())
    chart = page.locator("svg.plot[aria-label^='Mean attention distance']")
    chart.locator(".at").nth(1).locator(".hit").hover()
    assert page.inner_text("#hint").startswith("block 2: mean ")
