"""The frame of a page: a policy that names its one script, and text that stays text."""

from __future__ import annotations

import io
import re
from base64 import urlsafe_b64encode
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from page.html_checker import Checker
from vitrail.page.document import document, text
from vitrail.page.pictures import img, png


def test_policy_allows_this_script_and_nothing_else() -> None:
    page = document(title="t", style="", body="<p>b</p>", script="let a = 1 < 2;")
    code = re.search("<script>(.*)</script>", page, re.DOTALL).group(1)
    digest = urlsafe_b64encode(sha256(code.encode()).digest()).decode()
    policy = re.search('Content-Security-Policy" content="([^"]*)"', page).group(1)
    assert f"script-src 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "script-src 'unsafe-inline'" not in policy


@given(st.text())
def test_any_text_is_shown_and_is_only_text(words: str) -> None:
    page = Checker(document(title=words, style="", body=f'<p title="{text(words)}">{text(words)}</p>', script=""))
    assert page.tags.count("p") == 1
    assert page.tags.count("script") == 1


@pytest.mark.parametrize(("shape", "kind"), [((28, 28, 1), "png"), ((64, 40, 3), "png"), ((300, 200, 3), "jpeg")])
def test_small_pictures_are_exact_and_large_ones_are_small(shape: tuple[int, ...], kind: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    tag = img(pixels, 100, "a picture")
    assert tag.count(f"data:image/{kind};base64,") == 1
    assert ('class="pixelated"' in tag) == (kind == "png")
    assert len(tag) < 30_000


@pytest.mark.parametrize(("channels", "mode"), [(1, "L"), (2, "L"), (3, "RGB"), (4, "RGB"), (13, "RGB")])
def test_any_number_of_channels_can_be_seen(channels: int, mode: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 7, channels), dtype=np.uint8)
    with Image.open(io.BytesIO(png(pixels))) as picture:
        assert picture.mode == mode
        assert (np.asarray(picture).reshape(9, 7, -1) == pixels[..., : 3 if mode == "RGB" else 1]).all()
