"""The page of explanations in a real browser: slider, pointer, keyboard, both colour schemes, and no request leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from browser.test_report_page import LEAST_CONTRAST
from oracles import randomise
from vitrail import Artefact, Predictor, Preprocessing, ViT
from vitrail.explain.explain_page import page as explain_page
from vitrail.explain.methods import METHODS, as_input
from vitrail.explain.study import Examiner

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

HOSTILE = "</script><img src=x onerror=alert(1)>"
SIZES = {"image_size": (24, 32), "patch_size": 8, "dim": 32, "depth": 3, "heads": 2, "mlp_dim": 48, "dim_head": 16}


@pytest.fixture(scope="module")
def predictor() -> Predictor:
    model = randomise(ViT(num_classes=3, **SIZES))
    steps = Preprocessing(size=(24, 32), mean=(0.5,) * 3, std=(0.5,) * 3)
    return Predictor.of(Artefact(model, ("ant", "bee", HOSTILE), steps))


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (24, 32, 3), np.uint8)


@pytest.fixture(scope="module")
def written(predictor: Predictor, pixels: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    examiner = Examiner(predictor, list(METHODS), HOSTILE, trust=True)
    studies = [examiner.study(f"{HOSTILE}.png", pixels), examiner.study("other.png", pixels[::-1].copy())]
    path = tmp_path_factory.mktemp("explained") / "explain.html"
    path.write_text(explain_page(studies, predictor), encoding="utf-8")
    return path


@pytest.fixture
def page(browser: api.Browser, written: Path) -> api.Page:
    page = browser.new_page(viewport={"width": 1400, "height": 900})
    page.goto(written.as_uri())
    return page


def test_it_asks_for_nothing_and_runs_nothing_foreign(browser: api.Browser, written: Path) -> None:
    page, requests, complaints = browser.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append("dialog"), dialog.dismiss()))
    page.goto(written.as_uri())
    assert [url for url in requests if not url.startswith("data:")] == [written.as_uri()]
    assert complaints == []
    assert page.get_by_text(HOSTILE).count() > 0
    assert page.evaluate("[...document.images].every((image) => image.complete && image.naturalWidth && image.alt)")


def attended(predictor: Predictor, pixels: np.ndarray, layer: int, row: int) -> str:
    """What the page should say of a token: 0 is the class token, 1 + p a patch."""
    with torch.no_grad():
        weights = predictor.model.attention(as_input(predictor, pixels), [layer - 1])[0][0].mean(0)[row, 1:]
    down, right = divmod(int(weights.argmax()), 4)
    return f"row {down + 1}, column {right + 1}, with {100 * float(weights.max()):.1f} %"


def test_the_slider_chooses_the_layer(page: api.Page, predictor: Predictor, pixels: np.ndarray) -> None:
    figure = page.locator(".of-attention").first
    slider = figure.locator(".layer")
    for layer in (3, 2, 1):
        slider.fill(str(layer))
        assert attended(predictor, pixels, layer, 0) in figure.locator(".said").inner_text()
        assert figure.locator("output").first.inner_text() == f"{layer} of 3"
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert figure.locator("output").first.inner_text() == "2 of 3"
    figure.locator(".head").fill("1")
    assert figure.locator("output").nth(1).inner_text() == "1 of 2"


def test_the_patch_under_the_mouse_tells_what_it_attends_to(
    page: api.Page, predictor: Predictor, pixels: np.ndarray
) -> None:
    figure = page.locator(".of-attention").first
    box = figure.locator(".stage").bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.9 * box["height"])  # row 3, column 3
    said = figure.locator(".said").inner_text()
    assert said.startswith("Row 3, column 3 attends")
    assert attended(predictor, pixels, 3, 1 + 10) in said
    assert figure.locator(".asked").is_visible()
    page.mouse.move(1, 1)
    assert figure.locator(".said").inner_text().startswith("The answer attends")


def test_the_keyboard_moves_the_patch(page: api.Page) -> None:
    figure = page.locator(".of-attention").first
    figure.locator(".stage").focus()
    page.keyboard.press("ArrowDown")
    assert figure.locator(".said").inner_text().startswith("Row 2, column 3")
    for _ in range(5):
        page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    assert figure.locator(".said").inner_text().startswith("Row 1, column 2")
    page.keyboard.press("Escape")
    assert figure.locator(".said").inner_text().startswith("The answer")


def test_methods_are_switched_and_say_what_they_are_worth(page: api.Page) -> None:
    section = page.locator(".study").first
    choices = section.locator("fieldset label")
    assert choices.count() == len(METHODS)
    assert all("than random" in words for words in choices.locator("em").all_inner_texts())
    shown = set()
    for i in range(choices.count()):
        choices.nth(i).locator("input").check()
        shown.add(section.locator(".of-map canvas").evaluate("(canvas) => canvas.toDataURL()"))
    assert len(shown) == len(METHODS)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(browser: api.Browser, written: Path, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)
    page.goto(written.as_uri())
    ratio, what = page.evaluate(LEAST_CONTRAST)
    assert ratio >= 4.5, what
    for width in (320, 390, 800, 1400, 2560):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_a_large_model_is_shown_more_coarsely_and_says_so(browser: api.Browser, tmp_path: Path) -> None:
    sizes = {"image_size": 224, "patch_size": 16, "dim": 24, "depth": 6, "heads": 6, "mlp_dim": 24, "dim_head": 4}
    model = randomise(ViT(num_classes=3, **sizes))
    predictor = Predictor.of(Artefact(model, ("a", "b", "c")))
    noise = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    studies = [Examiner(predictor, ["rollout"], None, trust=False).study("noise.png", noise)] * 30
    made = explain_page(studies, predictor)
    assert len(made) < 5_000_000
    assert "patches are shown as one" in made
    assert "6 more pictures have their PNG files only" in made
    (tmp_path / "page.html").write_text(made, encoding="utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    stage = page.locator(".of-attention .stage").first
    box, canvas = stage.bounding_box(), stage.locator("canvas")
    cells = canvas.evaluate("(canvas) => canvas.width")
    together = -(-14 // cells)
    assert cells * together > 14  # the last cell stands out of the picture
    assert canvas.bounding_box()["width"] == pytest.approx(box["width"] * cells * together / 14, abs=1)
    page.mouse.move(box["x"] + box["width"] * 13.5 / 14, box["y"] + 1)
    said = page.locator(".said").first.inner_text()
    assert said.startswith(f"Row 1, column {cells} attends")
