"""Changes of one picture, by name: the operations that augmentation policies choose from.

An operation takes a picture (H x W x C) and an amount, and leaves what it is given as it is. What has no meaning for a
picture gives it back: a change of colour of a grey one, and all but geometry of one of neither 1 nor 3 channels, whose
channels move together. What geometry brings in from outside is mid-grey, as in the code of AutoAugment's authors.

Each gives the pixels that Pillow's function of that name does. Where a new value depends on the old one alone, a table
of 256 values says so, which is several times as fast on small pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter

from vitrail.data.examples import Pixels

Operation = Callable[[Pixels, float], Pixels]

_GREY = 128
_VALUES = np.arange(256)


def operate(pixels: Pixels, name: str, amount: float) -> Pixels:
    """One operation on one picture; the picture itself where the operation has no meaning for its channels."""
    channels = pixels.shape[-1]
    known = _FOR_RGB if channels == 3 else _FOR_GREY if channels == 1 else _GEOMETRY
    return known[name](pixels, amount) if name in known else pixels


def _by_pillow(change: Callable[[Image.Image, float], Image.Image]) -> Operation:
    """What Pillow does to an RGB picture, or to each channel of another one."""

    def operation(pixels: Pixels, amount: float) -> Pixels:
        if pixels.shape[-1] == 3:
            return np.asarray(change(Image.fromarray(pixels), amount))
        planes = (Image.fromarray(np.ascontiguousarray(plane)) for plane in np.moveaxis(pixels, -1, 0))
        return np.stack([np.asarray(change(plane, amount)) for plane in planes], axis=-1)

    return operation


# Geometry


def _affine(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    """`matrix` (a, b, c, d, e, f): pixel (x, y) comes from (a x + b y + c, d x + e y + f)."""
    fill = _fill(image)
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=fill)


def _fill(image: Image.Image) -> int | tuple[int, ...]:
    return (_GREY,) * 3 if image.mode == "RGB" else _GREY


def _translate(pixels: Pixels, right: float, down: float) -> Pixels:
    """By whole pixels, so nothing is interpolated."""
    moved = np.full_like(pixels, _GREY)
    (to_rows, rows), (to_columns, columns) = _overlap(int(down), len(pixels)), _overlap(int(right), pixels.shape[1])
    moved[to_rows, to_columns] = pixels[rows, columns]
    return moved


def _overlap(by: int, count: int) -> tuple[slice, slice]:
    """Where what stays inside goes, and where it comes from."""
    by = max(-count, min(count, by))
    return slice(max(0, by), count + min(0, by)), slice(max(0, -by), count - max(0, by))


# Tables


def _by_table(make: Callable[[Pixels, float], NDArray[np.uint8]]) -> Operation:
    """Every value looked up in the table, or in its channel's (C x 256), that `make` gives for a picture."""

    def operation(pixels: Pixels, amount: float) -> Pixels:
        table = make(pixels, amount)
        return table.take(pixels if table.ndim == 1 else _by_channel(pixels))

    return operation


def _by_channel(pixels: Pixels) -> NDArray[np.intp]:
    """Places in tables of all channels, one after the other."""
    return 256 * np.arange(pixels.shape[-1]) + pixels.astype(np.intp)


def _blended(grey: int, share: float) -> NDArray[np.uint8]:
    """`share` of each value and the rest of `grey`; beyond 1 further away from it. In Pillow's precision."""
    mixed = grey + np.float32(share) * (_VALUES - grey).astype(np.float32)
    return np.clip(mixed, 0, 255).astype(np.uint8)


def _contrast(pixels: Pixels, more: float) -> NDArray[np.uint8]:
    return _blended(int(np.dot(_luma(pixels).histogram(), _VALUES) / (pixels.size / pixels.shape[-1]) + 0.5), 1 + more)


def _luma(pixels: Pixels) -> Image.Image:
    return Image.fromarray(pixels).convert("L") if pixels.shape[-1] == 3 else Image.fromarray(pixels[..., 0])


def _histograms(pixels: Pixels) -> NDArray[np.int64]:
    """How often each value comes: C x 256."""
    channels = pixels.shape[-1]
    return np.bincount(_by_channel(pixels).reshape(-1), minlength=256 * channels).reshape(channels, 256)


def _auto_contrast(pixels: Pixels, _: float) -> NDArray[np.uint8]:
    """The least value of each channel becomes 0, the largest 255."""
    found = _histograms(pixels) > 0
    least, most = found.argmax(axis=1), 255 - found[:, ::-1].argmax(axis=1)
    scale = 255.0 / np.maximum(1, most - least)
    stretched = np.clip((_VALUES * scale[:, None] - (least * scale)[:, None]).astype(np.int64), 0, 255)
    return np.where((most > least)[:, None], stretched, _VALUES).astype(np.uint8)


def _equalize(pixels: Pixels, _: float) -> NDArray[np.uint8]:
    """Every value becomes about as frequent as any other."""
    counts = _histograms(pixels)
    total = pixels.size // pixels.shape[-1]
    last = np.take_along_axis(counts, 255 - (counts[:, ::-1] > 0).argmax(axis=1)[:, None], axis=1)
    step = (total - last) // 255  # 0 where there are too few other values to tell apart
    before = np.cumsum(counts, axis=1) - counts
    spread = np.minimum(255, (step // 2 + before) // np.maximum(1, step))
    return np.where(step > 0, spread, _VALUES).astype(np.uint8)


def _posterize(_: Pixels, bits: float) -> NDArray[np.uint8]:
    return (_VALUES & -(2 ** (8 - round(bits)))).astype(np.uint8)


def _solarize(_: Pixels, part: float) -> NDArray[np.uint8]:
    return np.where(math.ceil(255 * part) > _VALUES, _VALUES, 255 - _VALUES).astype(np.uint8)


_GEOMETRY: Mapping[str, Operation] = {
    "identity": lambda pixels, _: pixels,
    "rotate": _by_pillow(
        lambda image, degrees: image.rotate(degrees, Image.Resampling.BILINEAR, fillcolor=_fill(image))
    ),
    "shear-x": _by_pillow(lambda image, slope: _affine(image, (1, slope, 0, 0, 1, 0))),
    "shear-y": _by_pillow(lambda image, slope: _affine(image, (1, 0, 0, slope, 1, 0))),
    "translate-x": lambda pixels, by: _translate(pixels, by, 0),
    "translate-y": lambda pixels, by: _translate(pixels, 0, by),
    "slide-x": lambda pixels, part: _translate(pixels, part * pixels.shape[1], 0),
    "slide-y": lambda pixels, part: _translate(pixels, 0, part * len(pixels)),
}
_TONE: Mapping[str, Operation] = {
    "auto-contrast": _by_table(_auto_contrast),
    "equalize": _by_table(_equalize),
    "brightness": _by_table(lambda _, more: _blended(0, 1 + more)),
    "contrast": _by_table(_contrast),
    "sharpness": _by_pillow(lambda image, more: ImageEnhance.Sharpness(image).enhance(1 + more)),
    "posterize": _by_table(_posterize),
    "solarize": _by_table(_solarize),
    "blur": _by_pillow(lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius))),
}
_COLOUR: Mapping[str, Operation] = {
    "saturation": _by_pillow(lambda image, more: ImageEnhance.Color(image).enhance(1 + more)),
    "grey": _by_pillow(lambda image, _: image.convert("L").convert("RGB")),
}
_FOR_GREY = {**_GEOMETRY, **_TONE}
_FOR_RGB = {**_FOR_GREY, **_COLOUR}
