"""From a decoded picture to what a model takes; the same for training, evaluation and serving. Needs no torch.

N pictures, H rows, W columns, C channels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vitrail.config import Pair, Preprocessing
from vitrail.data.examples import Pixels
from vitrail.errors import ConfigError


def prepare(pixels: Pixels, preprocessing: Preprocessing) -> Pixels:
    """A picture (rows x columns x C) resized to cover `size` / `crop`, and the middle of it: H x W x C.

    What already has the size to resize to is not resized, and what is not cut either is not copied.
    """
    resized = resize(pixels, covering(pixels.shape[:2], preprocessing), preprocessing.resize)
    (rows, columns), (height, width) = resized.shape[:2], preprocessing.size
    top, left = round((rows - height) / 2), round((columns - width) / 2)  # halves to even, as torchvision does
    return resized[top : top + height, left : left + width]


def covering(shape: Pair, preprocessing: Preprocessing) -> Pair:
    """Rows and columns to resize to: the aspect is kept, and `draft_size` is covered with nothing to spare."""
    rows, columns = shape
    height, width = draft_size(preprocessing)
    if rows * width <= columns * height:  # the rows are what there is least of
        return height, max(width, height * columns // rows)
    return max(height, width * rows // columns), width


def draft_size(preprocessing: Preprocessing) -> Pair:
    """The least size that a picture must be decoded at, so that `prepare` need not enlarge it."""
    height, width = preprocessing.size
    return math.floor(height / preprocessing.crop), math.floor(width / preprocessing.crop)


def resize(pixels: Pixels, shape: Pair, method: str) -> Pixels:
    """To rows x columns, antialiased. Grey and RGB at once, other numbers of channels one by one."""
    if pixels.shape[:2] == shape:
        return pixels
    if pixels.shape[2] == 3:
        return _resize_image(pixels, shape, method)
    planes = [_resize_image(pixels[..., channel], shape, method) for channel in range(pixels.shape[2])]
    return np.stack(planes, axis=-1)


def _resize_image(pixels: Pixels, shape: Pair, method: str) -> Pixels:
    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize(shape[::-1], Image.Resampling[method.upper()]))


def normalise(batch: Pixels, preprocessing: Preprocessing) -> NDArray[np.float32]:
    """Pixels (N x H x W x C, 0 to 255) to what the model takes (N x C x H x W): (x / 255 - mean) / std."""
    shift, scale = normalisation(preprocessing, batch.shape[-1])
    planes = np.ascontiguousarray(np.moveaxis(batch, -1, 1)).astype(np.float32)
    planes -= shift
    planes *= scale
    return planes


def normalisation(preprocessing: Preprocessing, channels: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """What to take from the pixels and what to multiply the rest by, each C x 1 x 1."""
    if len(preprocessing.mean) not in (1, channels):
        raise ConfigError(
            f"the preprocessing has {len(preprocessing.mean)} channels, the pictures have {channels}",
            fix=f"give one mean and std, or {channels} of each",
        )
    mean, std = (np.resize(np.array(values), (channels, 1, 1)) for values in (preprocessing.mean, preprocessing.std))
    return (mean * 255).astype(np.float32), (1 / (std * 255)).astype(np.float32)
