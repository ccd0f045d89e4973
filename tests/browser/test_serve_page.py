"""The server's page in a real browser: pictures in by every way, answers out, nothing foreign asked or run."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser.test_report_page import LEAST_CONTRAST
from serve.running import CLASSES, Running, picture, save_tiny
from vitrail import Predictor, load

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("fastapi", reason="the server is not installed")

DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}
TOKEN = "correct horse battery"
# A file made in the page, given to it as a paste or a drop
GIVE = """([data, event]) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
  const files = new DataTransfer();
  files.items.add(new File([bytes], "given.png", { type: "image/png" }));
  const how = { bubbles: true, cancelable: true, clipboardData: files, dataTransfer: files };
  document.dispatchEvent(event === "paste" ? new ClipboardEvent("paste", how) : new DragEvent("drop", how));
}"""
FAKE_CAMERA = """navigator.mediaDevices.getUserMedia = async () => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 64, height: 48 });
  const context = canvas.getContext("2d");
  setInterval(() => { context.fillStyle = "teal"; context.fillRect(0, 0, 64, 48); }, 20);
  return canvas.captureStream(30);
};"""
BRIGHTNESS = """() => {
  const canvas = document.getElementById("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return data.filter((_, i) => i % 4 !== 3).reduce((sum, v) => sum + v, 0) / data.length;
}"""


class Opened:
    """The page on the screen, and what it did while it was there."""

    def __init__(self, browser: api.Browser, server: Running, **options: object) -> None:
        self.page = browser.new_context(**{"viewport": DESKTOP, **options}).new_page()
        self.server, self.requests, self.complaints = server, list[str](), list[str]()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("dialog"), dialog.dismiss()))
        self.page.goto(f"{server.url}/")

    def choose(self, data: bytes, name: str = "a.png") -> None:
        self.page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": data})

    def expect(self, selector: str, words: str) -> None:
        api.expect(self.page.locator(selector)).to_contain_text(words, timeout=20_000)

    def outside(self) -> list[str]:
        return [url for url in self.requests if not url.startswith((self.server.url, "blob:", "data:"))]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model") / "tiny.safetensors", unknown_below=0.55)


@pytest.fixture(scope="module")
def predictor(model: Path) -> Predictor:
    return load(model)


@pytest.fixture(scope="module")
def server(model: Path) -> Iterator[Running]:
    with Running(model) as running:
        yield running


def seed_of(predictor: Predictor, label: str | None) -> int:
    """A picture that the model answers so; None: that it is not sure of."""
    for seed in range(200):
        found = predictor.predict(picture(seed))
        if found.unknown if label is None else found.label == label and not found.unknown:
            return seed
    raise AssertionError(label)


@pytest.mark.parametrize("way", ["choose", "paste", "drop"])
def test_a_picture_given_in_any_way_is_answered(browser, server, predictor, way):
    opened = Opened(browser, server)
    seed = seed_of(predictor, "ant")
    if way == "choose":
        opened.choose(picture(seed))
    else:
        opened.page.evaluate(GIVE, [base64.b64encode(picture(seed)).decode(), way])
    opened.expect("#label", "ant")
    opened.expect("#said", "% sure")
    opened.expect("#status", "ant")  # what a screen reader is told
    assert opened.page.locator("#bars li").count() == 3
    assert opened.outside() == []
    assert opened.complaints == []


def test_the_camera_gives_a_picture(browser, server):
    opened = Opened(browser, server)
    opened.page.evaluate(FAKE_CAMERA)
    opened.page.get_by_role("button", name="Camera").click()
    opened.page.get_by_role("button", name="Take picture").click()
    opened.expect("#kicker", "camera.jpg")
    opened.page.locator("#bars li").first.wait_for()
    assert not opened.page.is_visible("#shutter")


def test_labels_are_only_ever_text(browser, server, predictor):
    opened = Opened(browser, server)
    opened.choose(picture(seed_of(predictor, CLASSES[2])), name="<img src=x onerror=alert(1)>.png")
    opened.expect("#label", CLASSES[2])
    opened.expect("#kicker", "<img src=x onerror=alert(1)>.png")
    assert opened.page.locator("main script, main img").count() == 0
    assert opened.complaints == []


def test_not_sure_is_said(browser, server, predictor):
    opened = Opened(browser, server)
    opened.choose(picture(seed_of(predictor, None)))
    opened.expect("#label", "Not sure")
    opened.expect("#said", "answers only from 55 %")


def test_a_broken_file_is_explained_and_the_next_one_answered(browser, server):
    opened = Opened(browser, server)
    opened.choose(b"no picture at all", name="notes.txt")
    opened.expect("#label", "That did not work")
    opened.expect("#said", "text")
    opened.choose(picture(1))
    opened.page.locator("#bars li").first.wait_for()
    assert opened.page.locator("#history li").count() == 2


def test_a_full_server_is_asked_again(browser, server):
    opened = Opened(browser, server)
    full = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"error": "the server is full"}}
    opened.page.route("**/v1/predict?*", lambda route: route.fulfill(**full), times=1)
    opened.choose(picture(2))
    opened.page.locator("#bars li").first.wait_for()


def test_the_layers_can_be_looked_through_by_keyboard(browser, server):
    opened = Opened(browser, server)
    opened.choose(picture(2))
    opened.page.locator("#looked").wait_for()
    plain = opened.page.evaluate(BRIGHTNESS)
    opened.page.focus("#heat")
    opened.page.keyboard.press("Space")
    opened.expect("#layer-name", "2 of 2")
    last = opened.page.evaluate(BRIGHTNESS)
    opened.page.focus("#layer")
    opened.page.keyboard.press("ArrowLeft")
    opened.expect("#layer-name", "1 of 2")
    first = opened.page.evaluate(BRIGHTNESS)
    assert max(first, last) < plain
    assert first != last
    opened.page.uncheck("#heat")
    assert opened.page.evaluate(BRIGHTNESS) == plain


def test_earlier_pictures_can_be_seen_again(browser, server, predictor):
    opened = Opened(browser, server)
    for label in ("ant", CLASSES[2]):
        opened.choose(picture(seed_of(predictor, label)), name=f"{label[:3]}.png")
        opened.expect("#label", label)
        opened.page.locator("#looked").wait_for()
    opened.page.locator("#history button").nth(1).click()
    opened.expect("#label", "ant")
    assert opened.page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"


def test_the_code_to_copy_works(browser, server, tmp_path):
    opened = Opened(browser, server, permissions=["clipboard-read", "clipboard-write"])
    opened.page.get_by_text("Python", exact=True).click()
    opened.page.get_by_role("button", name="Copy").click()
    opened.expect("#copy", "Copied")
    code = opened.page.evaluate("navigator.clipboard.readText()")
    (tmp_path / "picture.jpg").write_bytes(picture(3, "JPEG"))
    said: list[object] = []
    exec(
        code.replace('"picture.jpg"', repr(str(tmp_path / "picture.jpg"))), {"print": lambda *words: said.extend(words)}
    )
    assert said[0] in CLASSES


def test_a_token_is_asked_for(browser, model):
    with Running(model, token=TOKEN) as server:
        opened = Opened(browser, server)
        opened.page.fill("#secret", TOKEN)
        opened.page.keyboard.press("Enter")
        opened.expect("#model", "tiny, 3 classes")
        opened.choose(picture(1))
        opened.page.locator("#bars li").first.wait_for()


@pytest.mark.parametrize("width", [320, 390, 800, 1280, 2200])
def test_nothing_sticks_out(browser, server, width):
    opened = Opened(browser, server, viewport={"width": width, "height": 800})
    opened.choose(picture(2), name="a-very-long-name-without-any-place-to-break-it-" * 4 + ".png")
    opened.page.locator("#looked").wait_for()
    assert opened.page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_words_can_be_read(browser, server, predictor, scheme, size):
    opened = Opened(browser, server, viewport=size, color_scheme=scheme)
    ratio, where = opened.page.evaluate(LEAST_CONTRAST)
    assert ratio >= 4.5, where
    opened.choose(picture(seed_of(predictor, None)))
    opened.page.locator("#looked").wait_for()
    ratio, where = opened.page.evaluate(LEAST_CONTRAST)
    assert ratio >= 4.5, where


def test_everything_that_can_be_used_has_a_name(browser, server):
    opened = Opened(browser, server)
    opened.choose(picture(2))
    opened.page.locator("#looked").wait_for()
    for element in opened.page.query_selector_all("button, input, [role=img]"):
        named = element.evaluate(
            "(e) => e.ariaLabel || e.textContent.trim() || [...(e.labels ?? [])].map((l) => l.textContent).join('')"
        )
        assert named.strip(), element.evaluate("(e) => e.outerHTML")


def test_the_docs_list_every_call(browser, server):
    opened = Opened(browser, server)
    opened.page.get_by_role("link", name="For programs").click()
    opened.expect("#calls", "/v2/models/tiny/infer")
    calls = opened.page.locator(".call h3").all_text_contents()
    assert {"POST/v1/predict", "GET/v1/model", "GET/metrics", "GET/ready"} <= set(calls)
    assert opened.outside() == []
    assert opened.complaints == []


def test_a_script_that_got_in_would_not_run(browser, server):
    opened = Opened(browser, server)
    opened.page.evaluate(
        """() => {
          document.body.append(Object.assign(document.createElement("script"), { textContent: "window.got = 1" }));
          document.body.insertAdjacentHTML("beforeend", '<img src="data:," onerror="window.got = 2">');
        }"""
    )
    opened.page.wait_for_timeout(100)
    assert opened.page.evaluate("window.got") is None
