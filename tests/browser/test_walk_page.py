"""The walk in a real browser: patches can be clicked, keys work, it asks for nothing, and fits any screen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from oracles import randomise
from vitrail.explain.walk import describe_scene, scene_of
from vitrail.explain.walk_explore import Explore, explore
from vitrail.explain.walk_html import page as walk_page
from vitrail.explain.walk_scene import Scene
from vitrail.explain.worked_example import PREPROCESSING, worked_example
from vitrail.model.vit import ViT

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

EVIL = '"><img src=x onerror=alert(1)>'
DESKTOP = {"width": 1400, "height": 900}


def made(kind: str) -> Scene:
    if kind == "example":
        model, image, _ = worked_example("cat")
        return scene_of(model, image, ("cat", EVIL), PREPROCESSING)
    shape = {"image_size": (64, 96), "patch_size": 8, "num_classes": 5, "dim": 16, "mlp_dim": 16, "dim_head": 8}
    model = randomise(ViT(**shape, depth=12, heads=6, registers=1))  # (1, 2) groups: 8 x 12 patches are too many
    image = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    return scene_of(model, image, None)


@pytest.fixture(scope="module", params=["example", "grouped"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Explore]:
    scene = made(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vitrail.explain.walk_explore.ATTENTION_BYTES", 300_000)
        found = explore(scene)
    path = tmp_path_factory.mktemp("walk") / "walk.html"
    path.write_text(walk_page(describe_scene(scene, EVIL), found), encoding="utf-8")
    return path, found


class Opened:
    """A walk on the screen, and what it did while it was there."""

    def __init__(self, browser: api.Browser, path: Path, **options: object) -> None:
        self.page = browser.new_context(**{"viewport": DESKTOP, **options}).new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.page.goto(path.as_uri())

    @property
    def saying(self) -> str:
        return self.page.inner_text(".saying")

    def most(self) -> list[float]:
        return [float(words.rstrip("%")) / 100 for words in self.page.locator(".most b").all_inner_texts()]


def expected(found: Explore, block: int, head: int | None, token: int) -> list[float]:
    """The five largest shares, from the bytes that the page carries."""
    shares = (found.attention[block, :, token] / 255.0) ** 2
    row = shares.mean(axis=0) if head is None else shares[head]
    return sorted(row.tolist(), reverse=True)[:5]


def test_a_click_on_a_patch_shows_where_it_looks(browser: api.Browser, written: tuple[Path, Explore]) -> None:
    path, found = written
    opened, front = Opened(browser, path), len(found.front)
    opened.page.locator(".over rect").nth(5).click()
    assert "looks at" in opened.saying
    assert opened.page.locator(".over rect.chosen").count() == 1
    assert opened.most() == pytest.approx(expected(found, 0, None, front + 5), abs=6e-4)
    opened.page.get_by_role("button", name="head 2", exact=True).click()
    assert opened.most() == pytest.approx(expected(found, 0, 1, front + 5), abs=6e-4)
    assert "head 2" in opened.page.inner_text(".its-query h3")
    assert opened.page.locator(".strip i").count() == found.queries.shape[-1]
    opened.page.get_by_role("button", name="class token").click()
    assert "class token looks at" in opened.saying
    assert opened.most() == pytest.approx(expected(found, 0, 1, 0), abs=6e-4)


def test_who_looks_at_it_and_where_its_information_came_from(
    browser: api.Browser, written: tuple[Path, Explore]
) -> None:
    path, found = written
    opened = Opened(browser, path)
    opened.page.get_by_text("has gathered from").click()
    token = len(found.front)
    opened.page.locator(".over rect").first.click()
    shares = sorted(((found.rollout[0, token] / 255.0) ** 2).tolist(), reverse=True)[:5]
    assert opened.most() == pytest.approx(shares, abs=6e-4)
    opened.page.get_by_text("is looked at by").click()
    column = (found.attention[0, :, :, token] / 255.0) ** 2  # the first group of what is looked at is the first patch's
    shares = sorted((column.mean(axis=0) / found.key_step**2).tolist(), reverse=True)[:5]
    assert opened.most() == pytest.approx(shares, abs=6e-4)


def test_keys_go_through_steps_blocks_and_patches(browser: api.Browser, written: tuple[Path, Explore]) -> None:
    path, found = written
    opened = Opened(browser, path)
    key = opened.page.keyboard.press
    key("ArrowRight")
    assert opened.page.evaluate("document.activeElement.id") == "explore"
    key("ArrowUp")
    assert opened.page.inner_text("#explore output") == f"2 of {len(found.attention)}"
    key("ArrowDown")
    key("ArrowDown")
    assert opened.page.inner_text("#explore output") == f"1 of {len(found.attention)}"
    before = opened.saying
    key("Shift+ArrowDown")
    assert opened.saying != before
    assert opened.page.evaluate("document.activeElement.matches('.over rect.chosen')")
    key("ArrowUp")
    assert opened.page.inner_text("#explore output").startswith("2 of")
    key("ArrowRight")
    assert opened.page.evaluate("document.activeElement.id") == "step-1"
    key("ArrowLeft")
    assert opened.page.evaluate("document.activeElement.id") == "explore"


def test_everything_is_reached_by_tab_and_chosen_by_enter(browser: api.Browser, written: tuple[Path, Explore]) -> None:
    opened = Opened(browser, written[0])
    opened.page.keyboard.press("ArrowRight")
    name, reached = "(({ ariaLabel, id, textContent }) => ariaLabel || id || textContent)(document.activeElement)", []
    for _ in range(6):
        opened.page.keyboard.press("Tab")
        reached.append(opened.page.evaluate(name))
    assert any(label.startswith(("patch", "rows")) for label in reached)
    assert "block" in reached
    assert "class token" in reached
    opened.page.get_by_role("button", name="class token").focus()
    opened.page.keyboard.press("Enter")
    assert "class token looks at" in opened.saying
    opened.page.locator(".over rect").first.focus()
    opened.page.keyboard.press("Enter")
    assert "class token looks at" not in opened.saying


def test_it_asks_for_nothing_and_runs_nothing_foreign(browser: api.Browser, written: tuple[Path, Explore]) -> None:
    opened = Opened(browser, written[0])
    for button in opened.page.locator("#explore button").all():
        button.click()
    assert [url for url in opened.requests if not url.startswith("data:")] == [written[0].as_uri()]
    assert opened.complaints == []
    assert opened.page.get_by_text(EVIL).count() > 0
    assert written[0].stat().st_size < 3_000_000


def test_the_answer_after_each_block(browser: api.Browser, written: tuple[Path, Explore]) -> None:
    path, found = written
    opened = Opened(browser, path)
    opened.page.locator("#block").fill(str(len(found.answers)))
    names = opened.page.locator(".answers span").all_inner_texts()
    assert names == [name for name, _ in found.answers[-1]]


def test_the_dark_is_drawn_in_its_own_colours(browser: api.Browser, written: tuple[Path, Explore]) -> None:
    ink = """() => {
      const canvas = document.querySelector(".board canvas");
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      const strongest = Math.max(...data.filter((_, i) => i % 4 === 3));
      const at = data.findIndex((value, i) => i % 4 === 3 && value === strongest);
      return [...data.slice(at - 3, at)];
    }"""
    opened = Opened(browser, written[0], color_scheme="light")
    light = opened.page.evaluate(ink)
    assert light == pytest.approx([0xC8, 0x23, 0x2C], abs=3)
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_function(f"(light) => String(({ink})()) !== light", arg=",".join(map(str, light)))
    assert opened.page.evaluate(ink) == pytest.approx([0xFF, 0x5A, 0x4F], abs=3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_sticks_out(browser: api.Browser, written: tuple[Path, Explore], scheme: str) -> None:
    opened = Opened(browser, written[0], color_scheme=scheme, reduced_motion="reduce")
    assert opened.page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
    for width in (320, 800, 1400):
        opened.page.set_viewport_size({"width": width, "height": 800})
        assert opened.page.evaluate("document.documentElement.scrollWidth") == width


def test_one_step_at_a_time(browser: api.Browser, written: tuple[Path, Explore]) -> None:
    opened = Opened(browser, written[0])
    opened.page.get_by_role("button", name="Present").click()
    assert opened.page.is_visible("#explore")
    assert not opened.page.is_visible("#step-1")
    opened.page.keyboard.press("ArrowUp")
    assert opened.page.inner_text("#explore output").startswith("2 of")
    opened.page.keyboard.press("ArrowRight")
    assert opened.page.is_visible("#step-1")
