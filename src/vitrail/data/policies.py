"""Published augmentation policies as tables: RandAugment, TrivialAugment, 3-Augment.

An operation takes a Pillow picture, grey or RGB, and an amount. What has no meaning for a picture is left out: a change
of colour for a grey one, and all but geometry for one of neither 1 nor 3 channels, whose channels move together.
What geometry brings in from outside is mid-grey, as in the code of AutoAugment's authors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from vitrail.data.examples import Pixels
from vitrail.data.randomness import integers, uniform

Operation = Callable[[Image.Image, float], Image.Image]

_GREY = 128
_STEPS = 30  # magnitudes are 0 to 30


def _affine(image: Image.Image, matrix: tuple[float, ...]) -> Image.Image:
    """`matrix` (a, b, c, d, e, f): pixel (x, y) comes from (a x + b y + c, d x + e y + f)."""
    fill = _fill(image)
    return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.BILINEAR, fillcolor=fill)


def _fill(image: Image.Image) -> int | tuple[int, ...]:
    return (_GREY,) * 3 if image.mode == "RGB" else _GREY


def _translate(image: Image.Image, right: float, down: float) -> Image.Image:
    return _affine(image, (1, 0, -int(right), 0, 1, -int(down)))


_GEOMETRY: Mapping[str, Operation] = {
    "identity": lambda image, _: image,
    "rotate": lambda image, degrees: image.rotate(degrees, Image.Resampling.BILINEAR, fillcolor=_fill(image)),
    "shear-x": lambda image, slope: _affine(image, (1, slope, 0, 0, 1, 0)),
    "shear-y": lambda image, slope: _affine(image, (1, 0, 0, slope, 1, 0)),
    "translate-x": lambda image, pixels: _translate(image, pixels, 0),
    "translate-y": lambda image, pixels: _translate(image, 0, pixels),
    "slide-x": lambda image, part: _translate(image, part * image.width, 0),
    "slide-y": lambda image, part: _translate(image, 0, part * image.height),
}
_TONE: Mapping[str, Operation] = {
    "auto-contrast": lambda image, _: ImageOps.autocontrast(image),
    "equalize": lambda image, _: ImageOps.equalize(image),
    "brightness": lambda image, more: ImageEnhance.Brightness(image).enhance(1 + more),
    "contrast": lambda image, more: ImageEnhance.Contrast(image).enhance(1 + more),
    "sharpness": lambda image, more: ImageEnhance.Sharpness(image).enhance(1 + more),
    "posterize": lambda image, bits: ImageOps.posterize(image, round(bits)),
    "solarize": lambda image, part: ImageOps.solarize(image, math.ceil(255 * part)),
    "blur": lambda image, radius: image.filter(ImageFilter.GaussianBlur(radius)),
}
_COLOUR: Mapping[str, Operation] = {
    "saturation": lambda image, more: ImageEnhance.Color(image).enhance(1 + more),
    "grey": lambda image, _: image.convert("L").convert("RGB"),
}
_FOR_GREY = {**_GEOMETRY, **_TONE}
_FOR_RGB = {**_FOR_GREY, **_COLOUR}


class Range(NamedTuple):
    """The amount at the least and at the largest magnitude, and whether it goes both ways."""

    least: float = 0.0
    most: float = 0.0
    signed: bool = False


class Policy(NamedTuple):
    operations: Mapping[str, Range]
    levels: str  # the magnitude is "given", or drawn from "steps", or from "any" number in between


_NO_AMOUNT = {name: Range() for name in ("identity", "auto-contrast", "equalize")}
_ENHANCE = ("saturation", "contrast", "brightness", "sharpness")

POLICIES: Mapping[str, Policy] = {
    "rand-augment": Policy(  # arXiv:1909.13719, ranges as in its appendix
        {
            **_NO_AMOUNT,
            **{name: Range(0, 0.9, signed=True) for name in _ENHANCE},
            "rotate": Range(0, 30, signed=True),
            "solarize": Range(1, 0),
            "posterize": Range(8, 4),
            "shear-x": Range(0, 0.3, signed=True),
            "shear-y": Range(0, 0.3, signed=True),
            "slide-x": Range(0, 150 / 331, signed=True),
            "slide-y": Range(0, 150 / 331, signed=True),
        },
        "given",
    ),
    "trivial-augment": Policy(  # arXiv:2103.10158, table 1, "wide"
        {
            **_NO_AMOUNT,
            **{name: Range(0, 0.99, signed=True) for name in _ENHANCE},
            "rotate": Range(0, 135, signed=True),
            "solarize": Range(1, 0),
            "posterize": Range(8, 2),
            "shear-x": Range(0, 0.99, signed=True),
            "shear-y": Range(0, 0.99, signed=True),
            "translate-x": Range(0, 32, signed=True),
            "translate-y": Range(0, 32, signed=True),
        },
        "steps",
    ),
    "three-augment": Policy(  # DeiT III, arXiv:2204.07118, section 3; its colour jitter is `Augmentation.jitter`
        {"grey": Range(), "solarize": Range(128 / 255, 128 / 255), "blur": Range(0.1, 2.0)}, "any"
    ),
}


def apply_policy(
    batch: Pixels, policy: str, magnitude: int, number: int, seed: int, epoch: int, indices: NDArray[np.int64]
) -> Pixels:
    """Each picture of a batch (N x H x W x C) changed by operations of its own.

    `magnitude` (0 to 30) and `number` are RandAugment's; the other policies apply one operation and draw how strongly.
    """
    operations, kind = POLICIES[policy]
    names = list(operations)
    changed = batch.copy()
    for step in range(number if kind == "given" else 1):
        chosen = integers(seed, epoch, indices, f"policy operation {step}", len(names))
        levels = _levels(kind, magnitude, seed, epoch, indices)
        minus = uniform(seed, epoch, indices, f"policy sign {step}") < 0.5
        for place, (choice, level, negative) in enumerate(zip(chosen, levels, minus, strict=True)):
            least, most, signed = operations[names[choice]]
            amount = least + (most - least) * float(level)
            changed[place] = operate(changed[place], names[choice], -amount if signed and negative else amount)
    return changed


def _levels(kind: str, magnitude: int, seed: int, epoch: int, indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """How strongly to change each picture, 0 to 1."""
    if kind == "given":
        return np.full(len(indices), magnitude / _STEPS)
    if kind == "steps":
        return integers(seed, epoch, indices, "policy level", _STEPS + 1) / _STEPS
    return uniform(seed, epoch, indices, "policy level")


def operate(pixels: Pixels, name: str, amount: float) -> Pixels:
    """One operation on one picture (H x W x C); as it was where the operation has no meaning for its channels."""
    channels = pixels.shape[-1]
    if channels == 3:
        return np.asarray(_FOR_RGB[name](Image.fromarray(pixels), amount))
    operation = (_FOR_GREY if channels == 1 else _GEOMETRY).get(name, _GEOMETRY["identity"])
    planes = (Image.fromarray(np.ascontiguousarray(pixels[..., channel])) for channel in range(channels))
    return np.stack([np.asarray(operation(plane, amount)) for plane in planes], axis=-1)
