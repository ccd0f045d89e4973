"""Arrays of numbers as small pictures: colours from dark glass to light, tiles set in lead, heat over a photograph."""

from __future__ import annotations

from base64 import b64encode

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vitrail.page.pictures import Pixels, png

Array = NDArray[np.floating]

LEAD = (35, 37, 58)  # between the tiles, as between the panes of a window
GLASS = np.array([(22, 24, 58), (38, 78, 158), (40, 140, 140), (120, 190, 110), (236, 190, 70), (255, 246, 214)])
HEAT = np.array([(168, 40, 58), (224, 86, 40), (255, 190, 70), (255, 246, 214)])
HEAT_STRENGTH = 0.85  # how much of the picture the strongest heat covers; half as strong covers a third of that


def glass(values: Array) -> Pixels:
    """Values from 0 to 1 (any shape) to colours (shape x 3), darker to lighter throughout, so that grey print tells."""
    return _between(GLASS, values).round().astype(np.uint8)


def _between(colours: NDArray[np.int64], values: Array) -> NDArray[np.float64]:
    places = np.linspace(0, 1, len(colours))
    return np.stack([np.interp(values, places, colours[:, channel]) for channel in range(3)], axis=-1)


def sheet(tiles: Pixels, columns: int, gap: int = 1) -> Pixels:
    """Tiles (K x rows x columns x 3) side by side in lead, row after row."""
    count, height, width, _ = tiles.shape
    rows = -(-count // columns)
    made = np.empty((rows * (height + gap) + gap, columns * (width + gap) + gap, 3), np.uint8)
    made[:] = LEAD
    for index, tile in enumerate(tiles):
        top, left = gap + index // columns * (height + gap), gap + index % columns * (width + gap)
        made[top : top + height, left : left + width] = tile
    return made


def crisp(pixels: Pixels, alt: str) -> str:
    """An `<img>` that shows single pixels as squares, however large. `alt` is escaped already."""
    data = b64encode(png(pixels)).decode("ascii")
    return f'<img class="pixelated" src="data:image/png;base64,{data}" alt="{alt}">'


def overlay(pixels: Pixels, heat: Array) -> Pixels:
    """Heat (any rows x columns) over a picture (rows x columns x channels): grey where there is none, glowing where
    it is the most. What is below zero counts as none."""
    height, width = pixels.shape[:2]
    grey = pixels[..., :3].mean(axis=-1, keepdims=True).repeat(3, axis=-1) * 0.6
    positive = np.clip(np.nan_to_num(heat), 0, None).astype(np.float32)
    large = np.asarray(Image.fromarray(positive).resize((width, height), Image.Resampling.BILINEAR))
    share = large / max(float(large.max()), 1e-12)
    alpha = HEAT_STRENGTH * share[..., None] ** 1.5
    return (grey * (1 - alpha) + _between(HEAT, share) * alpha).round().astype(np.uint8)
