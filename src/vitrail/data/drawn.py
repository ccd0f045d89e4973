"""Pictures that are drawn here, for where none can be fetched: a shape each, and things that are none. Needs no torch.

Colour, place, size and turn say nothing about the class, so only the outline can be learned.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vitrail.data.examples import Pixels
from vitrail.data.placing import placing
from vitrail.errors import ConfigError

SIDE = 32  # pixels
FINE = 4  # drawn this many times larger, then made smaller, for smooth edges
NOISE = 8.0  # of every pixel, one sigma
CONTRAST = 150.0  # at least, from a shape to its background: a distance in RGB

Points = NDArray[np.float64]  # corners x (right, down)
Colour = tuple[int, int, int]


def _arc(start: float, end: float, radius: float = 1.0, corners: int = 48) -> Points:
    angles = np.linspace(start, end, corners)
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _regular(corners: int, *radii: float) -> Points:
    """Corners all around, at these distances from the middle in turn."""
    around = _arc(0, 2 * math.pi, corners=corners + 1)[:-1]
    return around * np.resize(radii or (1.0,), (corners, 1))


def _crescent() -> Points:
    """A disc without a smaller one, whose middle lies half a radius to the right."""
    outer, inner = math.atan2(0.79, 0.61), math.atan2(0.79, 0.11)  # where the circles meet, seen from either middle
    bite = np.array([0.5, 0.0]) + _arc(2 * math.pi - inner, inner, 0.8)
    return np.concatenate([_arc(outer, 2 * math.pi - outer), bite])


def _cross(half: float = 0.33) -> Points:
    arm = np.array([(half, half), (half, 1), (-half, 1)])
    quarter = np.array([(0, 1), (-1, 0)])
    return np.concatenate([arm @ np.linalg.matrix_power(quarter, turns) for turns in range(4)])


def _heart() -> Points:
    t = np.linspace(0, 2 * math.pi, 48)
    down = -(13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t))
    return np.stack([16 * np.sin(t) ** 3, down], axis=1) / 17


# Outlines of about radius 1. A class is a row; the hole of a ring is the way back of its one line.
SHAPES = {
    "crescent": _crescent(),
    "cross": _cross(),
    "disc": _arc(0, 2 * math.pi),
    "heart": _heart(),
    "ring": np.concatenate([_arc(0, 2 * math.pi), _arc(2 * math.pi, 0, 0.55)]),
    "square": _regular(4),
    "star": _regular(10, 1.0, 0.4),
    "triangle": _regular(3),
}


def draw_shapes(path: Path, train: int = 4000, test: int = 1000, seed: int = 0) -> Path:
    """Write an .npz for `open_data`: x_train, y_train, x_test, y_test, classes. All classes come equally often."""
    arrays: dict[str, NDArray[np.generic]] = {"classes": np.array(list(SHAPES))}
    for number, (split, count) in enumerate({"train": train, "test": test}.items()):
        if count < len(SHAPES):
            raise ConfigError(f"{split}={count} pictures are too few", fix=f"draw {len(SHAPES)} or more, one a class")
        generator = np.random.default_rng((seed, number))
        labels = generator.permutation(np.arange(count) % len(SHAPES))
        arrays[f"x_{split}"] = np.stack([draw_shape(list(SHAPES)[label], generator) for label in labels])
        arrays[f"y_{split}"] = labels
    with placing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
    return path


def draw_shape(name: str, generator: np.random.Generator) -> Pixels:
    """One picture, rows x columns x 3."""
    ground = generator.uniform(30, 225, 3)
    patches = (ground + generator.normal(0, 18, (4, 4, 3))).clip(0, 255).astype(np.uint8)
    canvas = Image.fromarray(patches).resize((SIDE * FINE,) * 2, Image.Resampling.BICUBIC)
    pen = ImageDraw.Draw(canvas)
    for _ in range(generator.integers(1, 4)):
        _distract(pen, generator)
    pen.polygon(_placed(SHAPES[name], generator).ravel().tolist(), fill=_colour_apart_from(ground, generator))
    small = np.asarray(canvas.resize((SIDE, SIDE), Image.Resampling.BOX), np.float64)
    return np.rint(small + generator.normal(0, NOISE, small.shape)).clip(0, 255).astype(np.uint8)


def _placed(outline: Points, generator: np.random.Generator) -> Points:
    """Turned, sized, and moved to where all of it can be seen."""
    angle, radius = generator.uniform(0, 2 * math.pi), generator.uniform(0.24, 0.42) * SIDE * FINE
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    return radius * outline @ turn + generator.uniform(radius, SIDE * FINE - radius, 2)


def _distract(pen: ImageDraw.ImageDraw, generator: np.random.Generator) -> None:
    """A line across, or a speck too small to be any shape."""
    colour, full = _colour(generator.uniform(0, 255, 3)), SIDE * FINE
    if generator.random() < 0.5:
        pen.line(generator.uniform(0, full, 4).tolist(), fill=colour, width=FINE)
    else:
        pen.circle(generator.uniform(0, full, 2).tolist(), generator.uniform(1, 2) * FINE, fill=colour)


def _colour_apart_from(ground: NDArray[np.float64], generator: np.random.Generator) -> Colour:
    while np.linalg.norm((colour := generator.uniform(0, 255, 3)) - ground) < CONTRAST:
        pass
    return _colour(colour)


def _colour(values: NDArray[np.float64]) -> Colour:
    red, green, blue = values.astype(int).tolist()
    return red, green, blue
