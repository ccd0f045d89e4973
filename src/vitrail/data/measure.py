"""What pictures are like, from a sample: their channels, and their mean and spread for normalising."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vitrail.data.examples import Examples, Pixels
from vitrail.errors import FileError, ImageError

_LEAST_STD = 1 / 255  # of pictures that are all alike; dividing by nothing helps nobody


def detect_channels(examples: Examples, sample: int = 256) -> int:
    """1 if every picture of a sample is stored as grey, else 3; arrays may have any number."""
    found = {pixels.shape[-1] for pixels in _sampled(examples, None, 32, sample)}
    return 3 if found == {1, 3} else max(found)


def measure_mean_std(
    examples: Examples, channels: int, size: int = 224, sample: int = 1024
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation a channel, in units of white; each picture counts the same, whatever its size.

    Pictures larger than `size` x `size` are made smaller first, because fine detail that a model will not see spreads
    the values.
    """
    means, squares = [], []
    for pixels in _sampled(examples, channels, size, sample):
        values = _reduced(pixels, size).reshape(-1, channels) / 255
        means.append(values.mean(0))
        squares.append((values**2).mean(0))
    mean = np.mean(means, 0)
    std = np.sqrt(np.maximum(np.mean(squares, 0) - mean**2, _LEAST_STD**2))
    return tuple(mean.tolist()), tuple(std.tolist())


def _sampled(examples: Examples, channels: int | None, size: int, sample: int) -> Iterator[Pixels]:
    """Training pictures at even steps, without those that cannot be opened."""
    indices = examples.splits.get("train", np.arange(len(examples)))
    steps = np.linspace(0, len(indices) - 1, min(sample, len(indices))).round().astype(int)
    readable, error = False, None
    for index in indices[steps]:
        try:
            yield examples.pictures.read(int(index), channels=channels, draft=(size, size))
        except ImageError as failure:
            error = failure
        else:
            readable = True
    if not readable:
        reason = f"; the last one: {error}" if error else ""
        raise FileError(f"none of {len(steps)} pictures tried can be opened{reason}", where=examples.name)


def _reduced(pixels: Pixels, size: int) -> NDArray[np.uint8]:
    rows, columns, channels = pixels.shape
    if rows <= size and columns <= size:
        return pixels
    shape = (min(columns, size), min(rows, size))
    layers = [np.asarray(Image.fromarray(pixels[..., c]).resize(shape, Image.Resampling.BOX)) for c in range(channels)]
    return np.stack(layers, -1)
