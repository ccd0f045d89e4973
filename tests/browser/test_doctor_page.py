"""The doctor's page in a real browser: it asks for nothing, runs nothing foreign, and fits any screen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from data.planting import opened, save, scene, small_set
from vitrail.data.doctor import examine
from vitrail.report.doctor_page import page as doctor_page

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doctor")
    root = small_set(folder / "data", classes=("ant", HOSTILE))
    shutil.copy(root / "train/ant/0.png", root / f"test/{HOSTILE}/again.png")
    save(scene(1), root / "test/ant/near.jpg", quality=60)
    (root / f"train/ant/{HOSTILE}.jpg").write_bytes(b"<html>")
    page = folder / "page.html"
    page.write_text(doctor_page(examine(opened(root))), encoding="utf-8")
    return page


def test_it_asks_for_nothing_and_runs_nothing_foreign(browser: api.Browser, written: Path) -> None:
    page = browser.new_page()
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
    page.goto(written.as_uri())
    assert [url for url in requests if not url.startswith("data:")] == [written.as_uri()]
    assert complaints == []
    assert page.get_by_text(HOSTILE).count() > 0


def test_copies_stand_side_by_side(browser: api.Browser, written: Path) -> None:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(written.as_uri())
    first = page.locator(".set").first
    left, right = (first.locator("img").nth(number).bounding_box() for number in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] < right["x"]
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth > 0)")
    assert page.evaluate("[...document.images].every((image) => image.alt)")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(browser: api.Browser, written: Path, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(written.as_uri())
    for width in (320, 390, 800, 1400, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_every_finding_is_in_the_contents(browser: api.Browser, written: Path) -> None:
    page = browser.new_page()
    page.goto(written.as_uri())
    assert page.evaluate("[...document.querySelectorAll('nav a')].every((a) => document.querySelector(a.hash))")
    assert page.locator("nav a").count() == page.locator("section.part").count()
    assert page.locator("h1").inner_text().startswith("4 errors")
