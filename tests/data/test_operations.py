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
from vitrail.data.policies import POLICIES

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


GEOMETRY: dict[str, tuple[Pillow, tuple[float, float]]] = {
    "rotate": (lambda image, degrees: image.rotate(degrees, Image.Resampling.BILINEAR), (-180, 180)),
    "shear-x": (lambda image, slope: sheared(image, (1, slope, 0, 0, 1, 0)), (-1, 1)),
    "shear-y": (lambda image, slope: sheared(image, (1, 0, 0, slope, 1, 0)), (-1, 1)),
}


def sheared(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR)


def changed_by(name: str, pixels: np.ndarray, amount: float) -> np.ndarray:
    batch = pixels[None].copy()
    operate(batch, [name], np.array([amount]))
    return batch[0]


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
    image = Image.fromarray(pixels if channels == 3 else pixels[..., 0])
    expected = np.asarray(pillow(image, amount)).reshape(pixels.shape)
    np.testing.assert_array_equal(changed_by(name, pixels, amount), expected)


@pytest.mark.parametrize("name", GEOMETRY)
@given(channels=st.sampled_from([1, 3]), seed=st.integers(0, 1000), share=st.floats(0, 1))
def test_turned_and_sheared_as_pillow_does_but_at_the_edge(name: str, channels: int, seed: int, share: float) -> None:
    pillow, (least, most) = GEOMETRY[name]
    pixels, amount = picture("drawn", channels, seed), least + (most - least) * share
    image = Image.fromarray(pixels if channels == 3 else pixels[..., 0])
    ours, theirs = changed_by(name, pixels, amount), np.asarray(pillow(image, amount)).reshape(pixels.shape)
    inside = changed_by(name, np.full_like(pixels, 255), amount)  # grey outside, lighter at the edge
    assert np.abs(ours.astype(int) - theirs)[inside == 255].max() <= 1
    assert (ours[inside == 128] == 128).all()
    assert np.isin(inside, (128, 255)).mean() > 0.8


@pytest.mark.parametrize("channels", [1, 3, 5])
@given(names=st.lists(st.sampled_from(sorted({*PILLOW, *GEOMETRY, "identity"})), min_size=1, max_size=30))
def test_many_at_once_are_each_changed_as_alone(channels: int, names: list[str]) -> None:
    amounts = np.linspace(0.3, 0.9, len(names))
    pictures = np.stack([draw(20, 24, channels, seed=seed) for seed in range(len(names))])
    batch = pictures.copy()
    operate(batch, names, amounts)
    for changed, *how in zip(batch, names, pictures, amounts, strict=True):
        np.testing.assert_array_equal(changed, changed_by(*how))


def test_every_operation_of_a_policy_is_known() -> None:
    pixels, whole = draw(24, 32), {"posterize", "translate-x", "translate-y"}
    for policy in POLICIES.values():
        for name in set(policy.operations) - {"identity"}:
            assert (changed_by(name, pixels, 2.0 if name in whole else 0.5) != pixels).any(), name


def test_what_has_no_meaning_for_the_channels_is_left_out() -> None:
    five = draw(16, 16, 5)
    for name in ("brightness", "equalize", "saturation", "grey", "blur"):
        np.testing.assert_array_equal(changed_by(name, five, 0.5), five)
    for name in ("saturation", "grey"):
        np.testing.assert_array_equal(changed_by(name, five[..., :1], 0.5), five[..., :1])
    assert (changed_by("brightness", five[..., :1], 0.5) != five[..., :1]).any()
    moved = changed_by("rotate", five, 20)
    np.testing.assert_array_equal(moved[..., :3], changed_by("rotate", five[..., :3], 20))
