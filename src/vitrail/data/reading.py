"""Reading a picture where a bad one must not end the work."""

from __future__ import annotations

from vitrail.config import Pair
from vitrail.data.examples import Pictures, Pixels
from vitrail.errors import ImageError


def read_or_why(pictures: Pictures, index: int, channels: int, draft: Pair) -> Pixels | ImageError:
    """The picture, or why it cannot be opened: an error that can be kept, because it holds no file's bytes alive."""
    try:
        return pictures.read(index, channels=channels, draft=draft)
    except ImageError as error:
        return ImageError(error.what, where=error.where, fix=error.fix)
