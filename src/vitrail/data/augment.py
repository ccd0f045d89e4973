"""Training pictures, a little different in every epoch; each change is a function of (seed, epoch, index).

`read_training` cuts one picture as it is read; `augment_batch` changes a whole batch of one size. What happens to a
picture does not depend on the others in its batch. Everything works for any number of channels: changes that have no
meaning for a picture that is not grey or RGB are left out (see `policies`).

N pictures, H rows, W columns, C channels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from vitrail.config import Config, Pair, Preprocessing, one_of
from vitrail.data.examples import Indices, Pixels
from vitrail.data.policies import POLICIES, apply_policy
from vitrail.data.prepare import draft_size, prepare, resize
from vitrail.data.randomness import integers, noise, uniform
from vitrail.errors import ConfigError

CROPS = ("none", "shift", "resized")
PADDINGS = ("reflect", "zero")

Resize = Callable[[Pixels, Pair, str], Pixels]  # a picture to rows x columns by a method

_NUMBERS = (
    ("shift", int, 1_000),
    ("magnitude", int, 30),
    ("number", int, 14),
    ("jitter", int | float, 1),
    ("erase", int | float, 1),
)

_ERASED_AREA, _ERASED_RATIO = (0.02, 0.33), (0.3, 3.3)  # random erasing, arXiv:1708.04896, section 4
_LUMA = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Augmentation(Config):
    """How training pictures are changed; by default not at all."""

    crop: str = "none"  # "shift": moved by up to `shift` pixels; "resized": a random part, resized
    shift: int = 4
    padding: str = "reflect"  # what a shift brings in from outside
    scale: tuple[float, float] = (0.08, 1.0)  # of "resized": the least and the largest part of the area
    ratio: tuple[float, float] = (3 / 4, 4 / 3)  # of "resized": columns over rows
    flip: bool = False  # left and right, every other time
    policy: str = "none"
    magnitude: int = 9  # of rand-augment, 0 to 30
    number: int = 2  # of rand-augment: operations in a row
    jitter: float = 0.0  # brightness, contrast and saturation, each times 1 - jitter to 1 + jitter
    erase: float = 0.0  # probability that a rectangle is filled with noise

    def __post_init__(self) -> None:
        for name in ("scale", "ratio"):
            object.__setattr__(self, name, _range(name, getattr(self, name)))
        one_of("crop", self.crop, CROPS)
        one_of("padding", self.padding, PADDINGS)
        one_of("policy", self.policy, ("none", *POLICIES))
        for name, kind, most in _NUMBERS:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, kind) or not 0 <= value <= most:
                raise ConfigError(f"{name}={value!r} must be a number from 0 to {most}" + " (whole)" * (kind is int))
        if self.scale[1] > 1:
            raise ConfigError(f"scale={self.scale} is of the picture's area", fix="use at most 1")


class Cut(NamedTuple):
    """Chances from 0 to 1 of the part of a picture to cut out, but for `area`, which is a share of the picture's."""

    area: float
    shape: float
    down: float
    right: float


def cuts(settings: Augmentation, seed: int, epoch: int, indices: Indices) -> list[Cut]:
    """What decides which part of each picture is cut out; drawn for a batch at once."""
    chances = uniform(seed, epoch, 4 * indices[:, None] + np.arange(4), "crop")
    chances[:, 0] = settings.scale[0] + (settings.scale[1] - settings.scale[0]) * chances[:, 0]
    return [Cut(*row) for row in chances.tolist()]


def training_draft(settings: Augmentation, preprocessing: Preprocessing, cut: Cut) -> Pair:
    """The least size to decode a picture at for `read_training`: larger where a smaller part will be cut out."""
    if settings.crop != "resized":
        return draft_size(preprocessing)
    side = math.sqrt(cut.area)
    return math.ceil(preprocessing.size[0] / side), math.ceil(preprocessing.size[1] / side)


def read_training(
    pixels: Pixels, settings: Augmentation, preprocessing: Preprocessing, cut: Cut, resize: Resize = resize
) -> Pixels:
    """A picture (rows x columns x C) cut to H x W x C: at random for `crop="resized"`, else as for evaluation."""
    if settings.crop != "resized":
        return prepare(pixels, preprocessing)
    top, left, rows, columns = _box(pixels.shape[:2], settings.ratio, cut)
    part = pixels[top : top + rows, left : left + columns]
    return resize(part, preprocessing.size, preprocessing.resize)


def augment_batch(batch: Pixels, settings: Augmentation, seed: int, epoch: int, indices: Indices) -> Pixels:
    """The batch (N x H x W x C) changed, in place where that can be; `indices` says which pictures these are."""
    if settings.crop == "shift":
        batch = _shift(batch, settings, seed, epoch, indices)
    if settings.flip:
        _flip(batch, seed, epoch, indices)
    if settings.policy != "none":
        apply_policy(batch, settings.policy, settings.magnitude, settings.number, seed, epoch, indices)
    if settings.jitter:
        batch = _jitter(batch, settings.jitter, seed, epoch, indices)
    if settings.erase:
        _erase(batch, settings.erase, seed, epoch, indices)
    return batch


# One picture


def _box(picture: Pair, ratios: tuple[float, float], cut: Cut) -> tuple[int, int, int, int]:
    """Top, left, rows and columns of a part of random area and ratio.

    The ratio is drawn from those at which the area fits into the picture, where others draw again until it does.
    """
    height, width = picture
    area = cut.area * height * width
    least, most = max(ratios[0], area / height**2), min(ratios[1], width**2 / area)
    if least <= most:
        ratio = least * (most / least) ** cut.shape
    else:  # a picture so long that no such part fits: the largest of the nearest ratio
        ratio = ratios[1] if width > height else ratios[0]
        area = min(height**2 * ratio, width**2 / ratio)
    rows = min(height, max(1, round(math.sqrt(area / ratio))))
    columns = min(width, max(1, round(math.sqrt(area * ratio))))
    return int(cut.down * (height - rows + 1)), int(cut.right * (width - columns + 1)), rows, columns


# A batch


def _flip(batch: Pixels, seed: int, epoch: int, indices: Indices) -> None:
    """Left and right, every other time."""
    places = np.flatnonzero(uniform(seed, epoch, indices, "flip") < 0.5)
    # By torch, which moves the values of a pixel as one if told that they lie side by side: N x C x H x W, C last.
    there = torch.from_numpy(batch[places]).permute(0, 3, 1, 2)
    batch[places] = there.flip(3).permute(0, 2, 3, 1).numpy()


def _shift(batch: Pixels, settings: Augmentation, seed: int, epoch: int, indices: Indices) -> Pixels:
    """Every pixel is fetched from where it was, all pictures at once."""
    count, height, width, channels = batch.shape
    most = settings.shift
    down, right = (integers(seed, epoch, indices, f"shift {axis}", 2 * most + 1) - most for axis in "yx")
    rows, columns = np.arange(height) - down[:, None], np.arange(width) - right[:, None]  # N x H and N x W
    lines = np.arange(count)[:, None] * height + _mirror(rows, height)
    moved = batch.reshape(-1, channels).take(lines[:, :, None] * width + _mirror(columns, width)[:, None, :], axis=0)
    if settings.padding == "zero":
        inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
        moved *= inside[..., None]
    return moved


def _mirror(places: Indices, count: int) -> Indices:
    """Places outside 0 to count - 1, reflected about the first and the last one as often as it takes."""
    period = max(1, 2 * (count - 1))
    places = np.abs(places) % period
    return np.minimum(places, period - places)


def _erase(batch: Pixels, probability: float, seed: int, epoch: int, indices: Indices) -> None:
    """A rectangle of noise; one that would stick out of the picture is cut to it."""
    height, width, channels = batch.shape[1:]
    chosen = np.flatnonzero(uniform(seed, epoch, indices, "erase") < probability)
    area, ratio, y, x = (uniform(seed, epoch, indices[chosen], f"erase {name}") for name in ("area", "ratio", "y", "x"))
    pixels = (_ERASED_AREA[0] + area * (_ERASED_AREA[1] - _ERASED_AREA[0])) * height * width
    columns_over_rows = _ERASED_RATIO[0] * (_ERASED_RATIO[1] / _ERASED_RATIO[0]) ** ratio
    rows = np.clip(np.rint(np.sqrt(pixels / columns_over_rows)), 1, height).astype(np.int64)
    columns = np.clip(np.rint(np.sqrt(pixels * columns_over_rows)), 1, width).astype(np.int64)
    top, left = (y * (height - rows + 1)).astype(np.int64), (x * (width - columns + 1)).astype(np.int64)
    amounts = rows * columns * channels
    filling = noise(seed, epoch, indices[chosen], "erase noise", int(amounts.max(initial=0)))
    for n, place in enumerate(chosen):
        box = batch[place, top[n] : top[n] + rows[n], left[n] : left[n] + columns[n]]
        box[:] = filling[n, : amounts[n]].reshape(box.shape)


def _jitter(batch: Pixels, most: float, seed: int, epoch: int, indices: Indices) -> Pixels:
    """Brightness b, then contrast c around the mean grey m, then for RGB saturation s around each pixel's grey g.

    One after the other they are b c (s x + (1 - s) g) + b (1 - c) m, which is cut to 0 to 255 only once.
    """

    def factor(change: str) -> NDArray[np.float32]:
        chance = uniform(seed, epoch, indices, f"jitter {change}")
        return (1 + most * (2 * chance - 1)).astype(np.float32)[:, None, None, None]

    brightness, contrast = factor("brightness"), factor("contrast")
    mean = _grey(batch.mean(axis=(1, 2))).astype(np.float32)[:, None, None, None]
    values = batch.astype(np.float32)
    if batch.shape[-1] == 3:
        saturation = factor("saturation")
        values = saturation * values + (1 - saturation) * _grey(values)[..., None]
    values *= brightness * contrast
    values += brightness * (1 - contrast) * mean + 0.5  # to round
    return np.clip(values, 0, 255, out=values).astype(np.uint8)


def _grey(values: NDArray[Any]) -> NDArray[Any]:
    """Without the last axis: luma of three channels, the mean of others."""
    if values.shape[-1] != 3:
        return values.mean(axis=-1)
    return sum(weight * values[..., channel] for channel, weight in enumerate(_LUMA))  # type: ignore[return-value]


def _range(name: str, value: object) -> tuple[float, float]:
    ends = tuple(value) if isinstance(value, list | tuple) else ()
    if len(ends) != 2 or not all(isinstance(end, int | float) for end in ends) or not 0 < ends[0] <= ends[1]:
        raise ConfigError(f"{name}={value!r} must be two numbers, the smaller one first, above 0")
    return float(ends[0]), float(ends[1])
