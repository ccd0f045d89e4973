"""Pictures inside a page, as data."""

from __future__ import annotations

import io
from base64 import b64encode

import numpy as np
from numpy.typing import NDArray
from PIL import Image

PIXELATED = 64  # pixels across, up to which single pixels are meant to be seen
JPEG_QUALITY = 82

Pixels = NDArray[np.uint8]  # rows x columns x channels


def png(pixels: Pixels) -> bytes:
    """A PNG file."""
    file = io.BytesIO()
    _as_image(pixels).save(file, "PNG", optimize=True)
    return file.getvalue()


def img(pixels: Pixels, side: int, alt: str) -> str:
    """An `<img>` of at most `side` pixels across. Small pictures are kept as they are, and shown with crisp pixels.

    `alt` is escaped already.
    """
    small = max(pixels.shape[:2]) <= PIXELATED
    kind, data = ("png", png(pixels)) if small else ("jpeg", _jpeg(pixels, side))
    crisp = ' class="pixelated"' if small else ""
    return f'<img{crisp} src="data:image/{kind};base64,{b64encode(data).decode("ascii")}" alt="{alt}">'


def _jpeg(pixels: Pixels, side: int) -> bytes:
    picture, file = _as_image(pixels), io.BytesIO()
    picture.thumbnail((side, side), Image.Resampling.LANCZOS, reducing_gap=2.0)
    picture.save(file, "JPEG", quality=JPEG_QUALITY, optimize=True)
    return file.getvalue()


def _as_image(pixels: Pixels) -> Image.Image:
    """Grey or coloured; of any other number of channels the first three, or the first alone, are what can be seen."""
    seen = pixels[..., :3] if pixels.shape[2] >= 3 else pixels[..., 0]
    return Image.fromarray(np.ascontiguousarray(seen))
