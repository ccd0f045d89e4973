"""A look at every picture, once: can it be opened, what is odd about it, and what it is recognised by."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from vitrail.config import Pair
from vitrail.data.examples import FilePictures, Pictures, Pixels
from vitrail.data.images import open_image, to_array
from vitrail.data.perceptual import SIDE, thumbnail
from vitrail.errors import ImageError

CHUNK = 64  # pictures that a thread takes at a time
BLANK_SPREAD = 1.5  # standard deviation in levels, which the noise of a JPEG stays below
GREY_TINT = 8  # levels between the channels of a picture that looks grey

Progress = Callable[[int, int], None]  # pictures done, of how many

_SUFFIXES = {
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "PNG": (".png",),
    "WEBP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp", ".dib"),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm"),
}


@dataclass(frozen=True)
class Look:
    """What is known of a picture after it was opened."""

    size: Pair  # rows and columns, upright
    channels: int
    grey: bool  # looks grey, whatever it is stored as
    blank: bool  # one colour all over
    digest: bytes  # of the file's bytes, or of the pixels where there is no file
    thumbnail: Pixels
    tint: NDArray[np.int8]
    odd: tuple[str, ...] = ()  # keys of ODD


ODD = {
    "frames": "several frames or pages, of which only the first is read",
    "cmyk": "CMYK, converted without its colour profile",
    "16-bit": "16 bits a channel, read as 8",
    "turned": "turned upright as the camera noted (EXIF)",
    "transparent": "transparent, laid on white",
    "suffix": "of another kind than the end of its name says",
}


def survey(pictures: Pictures, *, threads: int, progress: Progress | None = None) -> list[Look | ImageError]:
    """A look at each picture, or why there is none."""
    found: list[Look | ImageError] = []
    chunks = [range(start, min(start + CHUNK, len(pictures))) for start in range(0, len(pictures), CHUNK)]
    with warnings.catch_warnings(), ThreadPoolExecutor(threads, thread_name_prefix="vitrail-doctor") as pool:
        warnings.filterwarnings("ignore", module=r"PIL\.")  # about metadata; what matters is looked at here
        for looks in pool.map(lambda chunk: [_look(pictures, index) for index in chunk], chunks):
            found += looks
            if progress is not None:
                progress(len(found), len(pictures))
    return found


def _look(pictures: Pictures, index: int) -> Look | ImageError:
    try:
        if isinstance(pictures, FilePictures):
            return _look_at_file(pictures.paths[index])
        pixels = pictures.read(index)
        return _describe(pixels, pixels.shape[:2], pixels_digest(pixels), ())
    except ImageError as error:  # a new one, without the traceback that would hold the file's bytes
        return ImageError(error.what, where=error.where, fix=error.fix)


def _look_at_file(path: Path) -> Look:
    pixels = to_array(open_image(path, draft=(2 * SIDE, 2 * SIDE)))
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImageError(f"the file cannot be read ({error.strerror})", where=path, fix="try again") from error
    size, odd = _header(data, path.suffix.lower(), pixels.shape[:2])
    return _describe(pixels, size, sha256(data).digest(), odd)


def pixels_digest(pixels: Pixels) -> bytes:
    return sha256(f"{pixels.shape}".encode() + np.ascontiguousarray(pixels).tobytes()).digest()


def _describe(pixels: Pixels, size: Pair, digest: bytes, odd: tuple[str, ...]) -> Look:
    small, tint = thumbnail(pixels)
    blank = all(float(pixels[..., channel].std()) < BLANK_SPREAD for channel in range(pixels.shape[2]))
    grey = pixels.shape[2] == 1 or (pixels.shape[2] == 3 and int(np.abs(tint).max()) * 2 <= GREY_TINT)
    return Look(size, pixels.shape[2], grey, blank, digest, small, tint, odd)


def _header(data: bytes, suffix: str, decoded: Pair) -> tuple[Pair, tuple[str, ...]]:
    """Rows and columns, and what is odd, from the header of a file that was decoded before."""
    try:
        with Image.open(io.BytesIO(data), formats=list(_SUFFIXES)) as image:
            orientation = image.getexif().get(ExifTags.Base.Orientation, 1)
            size = (image.width, image.height) if orientation in (5, 6, 7, 8) else (image.height, image.width)
            is_odd = {
                "frames": getattr(image, "is_animated", False),
                "cmyk": image.mode == "CMYK",
                "16-bit": image.mode.startswith("I") or (image.format == "PNG" and data[24] == 16),
                "turned": orientation in range(2, 9),
                "transparent": image.has_transparency_data,
                "suffix": suffix not in _SUFFIXES.get(image.format or "", ()),
            }
    except Exception:  # metadata that Pillow stumbles over say nothing about pixels that were decoded
        return decoded, ()
    return size, tuple(key for key, so in is_odd.items() if so)
