"""A picture in any form a user may have it, to the pixels that a model takes. Needs no torch."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from vitrail.config import Preprocessing
from vitrail.data.examples import Pixels, as_channels
from vitrail.data.images import open_image, to_array
from vitrail.data.prepare import draft_size, prepare
from vitrail.errors import ConfigError, ImageError

Source = str | Path | bytes | Image.Image | NDArray[np.uint8]


def read_picture(source: object, preprocessing: Preprocessing, channels: int) -> Pixels:
    """A path, the bytes of a file, a Pillow image, or pixels (rows x columns, or x channels): rows x columns x C."""
    if isinstance(source, np.ndarray):
        pixels = as_channels(_checked(source), channels)
    elif isinstance(source, Image.Image):
        pixels = to_array(_plain(source), channels)
    elif isinstance(source, str | Path | bytes):
        pixels = to_array(open_image(source, draft=draft_size(preprocessing)), channels)
    else:
        kind = type(source).__name__
        raise ConfigError(f"a picture cannot be a {kind}", fix="give a path, bytes, a Pillow image or a uint8 array")
    return prepare(pixels, preprocessing)


def _checked(pixels: NDArray[np.uint8]) -> Pixels:
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3) or pixels.size == 0:
        raise ConfigError(
            f"pixels of type {pixels.dtype} and shape {pixels.shape} are no picture",
            fix="give uint8 from 0 to 255, rows x columns x channels",
        )
    return pixels if pixels.ndim == 3 else pixels[..., None]


def _plain(image: Image.Image) -> Image.Image:
    """As `open_image` would give it: upright, grey or coloured. Other modes go its way, through a file in memory."""
    try:
        upright = ImageOps.exif_transpose(image)
        if upright.has_transparency_data:
            upright = upright.convert("RGBA")
        if upright.mode in ("L", "RGB"):
            return upright
        with io.BytesIO() as file:
            upright.save(file, "TIFF")
            return open_image(file.getvalue())
    except ImageError:
        raise
    except Exception as error:  # Pillow decodes only now, and raises whatever its code runs into
        raise ImageError(f"cannot be decoded ({error})", where="Pillow image", fix="leave it out") from error
