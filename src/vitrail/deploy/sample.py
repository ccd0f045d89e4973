"""Some of a user's pictures, prepared as a model takes them."""

from __future__ import annotations

import numpy as np

from vitrail.data.examples import Examples, Pixels
from vitrail.data.prepare import draft_size, prepare
from vitrail.data.sources import open_data
from vitrail.errors import FileError, ImageError
from vitrail.predict.predictor import Predictor


def sample_pictures(predictor: Predictor, data: str, count: int) -> Pixels:
    """Up to `count` pictures, spread evenly over all there are (N x rows x columns x channels)."""
    examples = open_data(data, val=0.0)
    return read_some(predictor, examples, np.arange(len(examples)), count)


def read_some(predictor: Predictor, examples: Examples, indices: np.ndarray, count: int) -> Pixels:
    """Up to `count` of these examples, spread evenly; those that cannot be read are passed over."""
    steps, found = predictor.preprocessing, []
    chosen = indices[np.unique(np.linspace(0, len(indices) - 1, min(count, len(indices))).round().astype(int))]
    for index in chosen.tolist():
        try:
            picture = examples.pictures.read(index, channels=predictor.channels, draft=draft_size(steps))
        except ImageError:
            continue
        found.append(prepare(picture, steps))
    if not found:
        raise FileError("none of its pictures can be read", where=examples.name, fix="see `vitrail doctor`")
    return np.stack(found)
