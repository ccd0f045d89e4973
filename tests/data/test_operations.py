"""Each operation gives the pixels that Pillow does, by whichever way."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from data.picture_kinds import draw
from vitrail.data.operations import operate

Pillow = Callable[[Image.Image, float], Image.Image]


def translated(image: Image.Image, right: float, down: float) -> Image.Image:
    fill = (128,) * 3 if image.mode == "RGB" else 128
    matrix = (1, 0, -int(right), 0, 1, -int(down))
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=fill)


PILLOW: dict[str, tuple[Pillow, tuple[float, float]]] = {  # and the amounts that have a meaning
    "auto-contrast": (lambda image, _: ImageOps.autocontrast(image), (0, 0)),
    "equalize": (lambda image, _: ImageOps.equalize(image), (0, 0)),
    "brightness": (lambda image, more: ImageEnhance.Brightness(image).enhance(1 + more), (-0.99, 3)),
    "contrast": (lambda image, more: ImageEnhance.Contrast(image).enhance(1 + more), (-0.99, 3)),
    "sharpness": (lambda image, more: ImageEnhance.Sharpness(image).enhance(1 + more), (-0.99, 3)),
    "posterize": (lambda image, bits: ImageOps.posterize(image, round(bits)), (1, 8)),
    "solarize": (lambda image, part: ImageOps.solarize(image, math.ceil(255 * part)), (0, 1)),
    "blur": (lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)), (0.1, 2)),
    "translate-x": (lambda image, by: translated(image, by, 0), (-60, 60)),
    "translate-y": (lambda image, by: translated(image, 0, by), (-60, 60)),
    "slide-x": (lambda image, part: translated(image, part * image.width, 0), (-1.2, 1.2)),
    "slide-y": (lambda image, part: translated(image, 0, part * image.height), (-1.2, 1.2)),
    "saturation": (lambda image, more: ImageEnhance.Color(image).enhance(1 + more), (-0.99, 3)),
    "grey": (lambda image, _: image.convert("L").convert(image.mode), (0, 0)),
}


def picture(kind: str, channels: int, seed: int) -> np.ndarray:
    """Few values, one value, all values: tables are made from how often each comes."""
    noise = np.random.default_rng(seed)
    if kind == "drawn":
        return draw(24, 40, channels, seed=seed)
    values = {"flat": noise.integers(0, 256, 1), "two": noise.integers(0, 256, 2), "all": np.arange(256)}[kind]
    return noise.choice(values, (17, 31, channels)).astype(np.uint8)


@pytest.mark.parametrize("name", PILLOW)
@given(
    kind=st.sampled_from(["drawn", "flat", "two", "all"]),
    channels=st.sampled_from([1, 3]),
    seed=st.integers(0, 1000),
    share=st.floats(0, 1),
)
def test_the_pixels_are_pillows(name: str, kind: str, channels: int, seed: int, share: float) -> None:
    pillow, (least, most) = PILLOW[name]
    pixels, amount = picture(kind, channels, seed), least + (most - least) * share
    before = pixels.copy()
    image = Image.fromarray(pixels if channels == 3 else pixels[..., 0])
    changed = operate(pixels, name, amount)
    np.testing.assert_array_equal(changed, np.asarray(pillow(image, amount)).reshape(pixels.shape))
    np.testing.assert_array_equal(pixels, before)


def test_what_has_no_meaning_for_the_channels_is_left_out() -> None:
    five = draw(16, 16, 5)
    for name in ("brightness", "equalize", "saturation", "grey", "blur"):
        np.testing.assert_array_equal(operate(five, name, 0.5), five)
    for name in ("saturation", "grey"):
        np.testing.assert_array_equal(operate(five[..., :1], name, 0.5), five[..., :1])
    assert (operate(five[..., :1], "brightness", 0.5) != five[..., :1]).any()
    moved = operate(five, "rotate", 20)
    np.testing.assert_array_equal(moved[..., :3], operate(five[..., :3].copy(), "rotate", 20))
