"""Pictures whose class is decided by one small object at a known place, on a background that says nothing.

The last class is a background alone: without it, one of the others would be what a model says of no object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE, OBJECT = 32, 9  # pixels
CLASSES = ("checks", "cross", "ring", "stripes", "nothing")


class Planted(NamedTuple):
    """N pictures (N x 32 x 32 x 3), their classes, and where the objects are: top and left of a square of 9 pixels."""

    pixels: NDArray[np.uint8]
    classes: NDArray[np.int64]
    corners: NDArray[np.int64]


def planted(count: int, seed: int = 0, classes: tuple[str, ...] = CLASSES) -> Planted:
    """Classes come in turn; place, colours and background by chance."""
    generator = np.random.default_rng(seed)
    numbers = np.array([CLASSES.index(classes[i % len(classes)]) for i in range(count)])
    corners = generator.integers(0, SIDE - OBJECT + 1, (count, 2))
    pixels = [_picture(CLASSES[kind], place, generator) for kind, place in zip(numbers, corners, strict=True)]
    return Planted(np.stack(pixels), numbers, corners)


def touched(corner: NDArray[np.int64], grid: tuple[int, int]) -> NDArray[np.bool_]:
    """The cells of a grid over the picture that the object touches (rows x columns)."""
    sides = []
    for start, cells in zip(corner, grid, strict=True):
        edges = np.arange(cells + 1) * SIDE / cells
        sides.append((edges[1:] > start) & (edges[:-1] < start + OBJECT))
    return sides[0][:, None] & sides[1][None, :]


def _picture(kind: str, corner: NDArray[np.int64], generator: np.random.Generator) -> NDArray[np.uint8]:
    coarse = Image.fromarray(generator.integers(40, 216, (4, 4, 3)).astype(np.uint8))
    picture = np.asarray(coarse.resize((SIDE, SIDE), Image.Resampling.BICUBIC)).astype(float)
    picture += generator.normal(0, 8, picture.shape)
    if kind == "nothing":
        return picture.clip(0, 255).astype(np.uint8)
    top, left = corner
    square = picture[top : top + OBJECT, left : left + OBJECT]
    colours = np.array([[0.0, 0.0, 0.0], [255.0, 255.0, 255.0]]) + generator.normal(0, 25, (2, 3))
    square[:] = np.where(_pattern(kind)[..., None], *colours[generator.permutation(2)])
    return picture.clip(0, 255).astype(np.uint8)


def _pattern(kind: str) -> NDArray[np.bool_]:
    down, right = np.mgrid[:OBJECT, :OBJECT]
    middle = OBJECT // 2
    if kind == "checks":
        return (down // 3 + right // 3) % 2 == 0
    if kind == "cross":
        return (abs(down - middle) <= 1) | (abs(right - middle) <= 1)
    if kind == "ring":
        distance = np.hypot(down - middle, right - middle)
        return (distance > 1.8) & (distance < 4.2)
    return down // 2 % 2 == 0
