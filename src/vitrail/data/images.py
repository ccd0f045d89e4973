"""The one function that opens a picture, for every command: `open_image`.

What comes back is fully decoded, upright, and in one of two modes: "L" (grey) or "RGB", 8 bits a channel.

- 16-bit samples become their high byte, grey and colour alike, so that v * 257 comes back as v.
- Transparent pixels are laid on white: it is the paper that cut-outs, logos and scans were made for, and the colour
  hidden under them (often black) is an accident of the program that wrote the file.
- Colour profiles are not applied: pixels are taken as stored, as the data of published weights were. CMYK is converted
  by the plain formula (255 - C)(255 - K) / 255.
- Only the first frame of an animation, or page of a TIFF, is read.
- Samples with no agreed white (floating point, 32 bits) are refused rather than guessed.

A file is read once, into memory, and never written; its kind is decided by its content. Whatever is wrong with it is
an `ImageError` of one line. Pillow's `LOAD_TRUNCATED_IMAGES` is never set: half a picture is not a picture.
"""

from __future__ import annotations

import io
import os
import re
import stat
import threading
import warnings
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from vitrail.config import Pair, pair
from vitrail.errors import ConfigError, ImageError

# Kind (Pillow's name) and how its files begin. PPM in its binary forms only: the others are decoded in slow Python.
_KINDS = (
    ("JPEG", rb"\xff\xd8\xff"),
    ("PNG", rb"\x89PNG\r\n\x1a\n"),
    ("WEBP", rb"RIFF....WEBP"),
    ("GIF", rb"GIF8[79]a"),
    ("BMP", rb"BM"),
    ("TIFF", rb"II[*+]\0|MM\0[*+]"),
    ("PPM", rb"P[456]\s"),
)
# Recognised only to say so by name.
_REFUSED = (
    ("a HEIC or AVIF picture", rb"....ftyp(?:hei|hev|mif|msf|avi)"),
    ("a JPEG 2000 picture", rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51"),
    ("a JPEG XL picture", rb"\0\0\0\x0cJXL |\xff\x0a"),
    ("a Photoshop file", rb"8BPS"),
    ("a FITS file", rb"SIMPLE  ="),
    ("a PostScript or EPS file", rb"%!PS|\xc5\xd0\xd3\xc6"),
    ("a PDF file", rb"%PDF"),
    ("an icon", rb"\0\0\x01\0"),
    ("a DICOM file", rb".{128}DICM"),
    ("an SVG drawing", rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml.*)?<svg"),
    ("a web page", rb"(?i)(?:\xef\xbb\xbf)?\s*(?:<!doctype html|<html|<head|<\?xml)"),
    ("an archive", rb"PK\x03\x04|\x1f\x8b|Rar!|7z\xbc\xaf"),
    ("text", rb"[\t\n\r -~]+\Z"),
)
_SAVE_AGAIN = "save the picture as JPEG or PNG"
_GET_AGAIN = "copy or download it again, or leave it out"

_PLAIN_MODE = {"1": "L", "L": "L", "P": "RGB", "RGB": "RGB", "RGBX": "RGB", "CMYK": "RGB", "YCbCr": "RGB"}
_PIXEL_WEIGHT = {"WEBP": 2}  # libwebp's animation decoder holds four copies: 768 MB for 50 megapixels, JPEG at most 480
_JPEG_SCANS = 100  # real progressive files have about ten; each one is a pass over the whole picture
_GIF_BLOCKS = 4_000  # before the first frame; Pillow copies all comments again for each one
_PARTS = 100_000  # segments, chunks or pages of one file: more is an attack on the reader's time


@dataclass(frozen=True)
class Limits:
    """What is refused from the header alone, before any pixel is decoded."""

    max_bytes: int = 100_000_000
    max_pixels: int = 50_000_000  # Pillow refuses more than 178 million whatever is allowed here
    max_aspect: float = 100.0  # long side over short side


DEFAULT_LIMITS = Limits()


def open_image(
    source: str | Path | bytes, *, limits: Limits = DEFAULT_LIMITS, draft: tuple[int, int] | None = None
) -> Image.Image:
    """The picture in a file, or in the bytes of one: decoded, upright, mode "L" or "RGB".

    `draft=(rows, columns)` lets a JPEG be decoded at 1/2, 1/4 or 1/8 of its size, never below that size.
    """
    where = "picture in memory" if isinstance(source, bytes) else source
    size = None if draft is None else pair("draft", draft)
    try:
        data = source if isinstance(source, bytes) else _read_file(Path(source), limits)
        with _QUIET:
            return _decode(data, limits, size)
    except _RefusalError as refusal:
        raise ImageError(refusal.what, where=where, fix=refusal.fix) from refusal.__cause__


def to_array(image: Image.Image, channels: int | None = None) -> NDArray[np.uint8]:
    """Rows x columns x channels, writable, 0 to 255; `channels` 1 or 3 turns the picture grey or coloured."""
    modes = {None: image.mode, 1: "L", 3: "RGB"}
    if channels not in modes:
        raise ConfigError(f"channels={channels}, but a picture has 1 or 3", fix="use channels=3")
    mode = modes[channels]
    pixels: NDArray[np.uint8] = np.array(image if image.mode == mode else image.convert(mode))
    return pixels.reshape(image.height, image.width, -1)


class _RefusalError(Exception):
    """Why a picture is refused; `open_image` adds where, and makes it an `ImageError`."""

    def __init__(self, what: str, fix: str = _GET_AGAIN) -> None:
        super().__init__(what)
        self.what, self.fix = what, fix


class _QuietPillow:
    """Ignores Pillow's warnings while any thread is inside: what matters in them is checked here.

    Filters belong to the whole process, so that threads saving and restoring them in turn would restore each other's.
    Only the first one in saves them and only the last one out restores them.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._saved = threading.Lock(), 0, warnings.catch_warnings()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._saved = warnings.catch_warnings()
                self._saved.__enter__()
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._saved.__exit__(kind, error, at)


_QUIET = _QuietPillow()


# File -> bytes

_NOT_FILES = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
# Without O_NONBLOCK, a pipe put in the file's place after the first look would be waited for, for ever.
_READ_ONLY = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


def _read_file(path: Path, limits: Limits) -> bytes:
    try:
        _check_file(path.stat(), limits)  # before opening: to open a device can be to change it
        with os.fdopen(os.open(path, _READ_ONLY), "rb") as file:
            before = os.fstat(file.fileno())
            _check_file(before, limits)
            data = file.read(before.st_size + 1)
            after = os.fstat(file.fileno())
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        raise _unreadable(path, error) from error
    if len(data) != before.st_size or (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise _RefusalError("the file changed while it was being read", "try again when nothing writes to it")
    return data


def _check_file(status: os.stat_result, limits: Limits) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _NOT_FILES.get(stat.S_IFMT(status.st_mode), "a device")
        raise _RefusalError(f"this is {kind}", "give the picture file itself")
    _check_bytes(status.st_size, limits)


def _check_bytes(count: int, limits: Limits) -> None:
    if count == 0:
        raise _RefusalError("the file is empty")
    if count > limits.max_bytes:
        raise _RefusalError(f"{count:,} bytes is over the limit of {limits.max_bytes:,}", "save it smaller, as JPEG")


def _unreadable(path: Path, error: OSError | ValueError) -> _RefusalError:
    if isinstance(error, FileNotFoundError):
        broken = path.is_symlink()
        return _RefusalError("a link to a file that does not exist" if broken else "no such file", "check the path")
    if isinstance(error, PermissionError):
        return _RefusalError("no permission to read the file", "check its permissions")
    reason = error.strerror if isinstance(error, OSError) else error
    return _RefusalError(f"the file cannot be read ({reason})", "check the path and the disk")


# Bytes -> pixels


def _decode(data: bytes, limits: Limits, size: Pair | None) -> Image.Image:
    _check_bytes(len(data), limits)
    kind = _kind(data)
    try:
        upright = _turn(*_load(kind, data, limits, size))
    except _RefusalError:
        raise
    except Exception as error:  # parsing hostile bytes, Pillow raises whatever its code runs into
        raise _explain(error, kind, limits) from error
    upright.info = {}  # an orientation left in it would be applied twice by the next reader
    return upright


def _load(kind: str, data: bytes, limits: Limits, size: Pair | None) -> tuple[Image.Image, int]:
    """Pixels as they lie in the file, and their orientation. What Pillow held besides is freed on return."""
    if kind in _PART_CHECKS:
        _PART_CHECKS[kind](data)
    image = Image.open(io.BytesIO(data), formats=[kind])
    _check_header(image, kind, limits)
    if size is not None:
        _draft(image, size)
    image.load()
    return _plain(image, kind, data), _orientation(image)


def _kind(data: bytes) -> str:
    for kind, beginning in _KINDS:
        if re.match(beginning, data, re.DOTALL):
            return kind
    for name, beginning in _REFUSED:
        if re.match(beginning, data[:1024], re.DOTALL):
            raise _RefusalError(f"this is {name}, which is not read here", _SAVE_AGAIN)
    raise _RefusalError("not a picture of a kind that is read here", _SAVE_AGAIN)


def _explain(error: Exception, kind: str, limits: Limits) -> _RefusalError:
    if isinstance(error, Image.DecompressionBombError):
        return _RefusalError(f"more pixels than the limit of {limits.max_pixels:,}", "make it smaller")
    if isinstance(error, MemoryError):
        return _RefusalError(f"too little memory to decode this {kind}", "make it smaller")
    if isinstance(error, UnidentifiedImageError):  # its own text is only the address of our buffer
        return _RefusalError(f"damaged {kind} (its header makes no sense)")
    return _RefusalError(f"damaged {kind} ({str(error)[:200] or type(error).__name__})")


def _check_header(image: ImageFile.ImageFile, kind: str, limits: Limits) -> None:
    width, height = image.size
    allowed = limits.max_pixels // _PIXEL_WEIGHT.get(kind, 1)
    for columns, rows in (image.size, _tile(image)):
        if columns * rows > allowed:
            raise _RefusalError(f"{columns} x {rows} pixels is over the limit of {allowed:,}", "make it smaller")
    if max(width, height) > limits.max_aspect * min(width, height):
        raise _RefusalError(f"{width} x {height} pixels is over {limits.max_aspect:g} : 1", "crop it")
    if kind == "PPM" and image.tile[0].codec_name != "raw":
        raise _RefusalError("a PPM of unusual depth", _SAVE_AGAIN)


def _tile(image: Image.Image) -> Pair:
    """Columns and rows of a TIFF's tiles, which are decoded whole, however small the picture."""
    tags = getattr(image, "tag_v2", {})
    return int(tags.get(322, 0)), int(tags.get(323, 0))


def _draft(image: Image.Image, size: Pair) -> None:
    rows, columns = size
    lying = _orientation(image) >= 5
    image.draft(image.mode, (rows, columns) if lying else (columns, rows))


def _plain(image: Image.Image, kind: str, data: bytes) -> Image.Image:
    """Any stored mode as "L" or "RGB"."""
    if kind == "PNG":
        _scale_key(image, depth=data[24])
    if image.mode.startswith("I;16") or (image.mode == "I" and kind == "PPM"):
        return _high_byte(image)
    if image.has_transparency_data:
        return _on_white(image)
    if image.mode not in _PLAIN_MODE:
        raise _RefusalError(f"its samples have no agreed white ({image.mode})", "save it with 8 or 16 bits a channel")
    mode = _PLAIN_MODE[image.mode]
    return image if image.mode == mode else image.convert(mode)


def _scale_key(image: Image.Image, depth: int) -> None:
    """A PNG names its transparent colour in its own bit depth; Pillow scales the pixels to 8 bits, but not the name."""
    key = image.info.get("transparency")
    if image.mode == "RGB" and depth == 16 and isinstance(key, tuple):
        image.info["transparency"] = tuple(value >> 8 for value in key)
    if image.mode == "L" and depth < 8 and isinstance(key, int):
        image.info["transparency"] = key * 255 // (2**depth - 1)


def _high_byte(image: Image.Image) -> Image.Image:
    """16-bit grey as 8 bits. Pillow's own conversion cuts everything above 255 to white."""
    values = np.asarray(image)
    tags = getattr(image, "tag_v2", {})
    (bits,) = tags.get(258, (16,))  # TIFF also has 12
    grey = (values >> (bits - 8)).astype(np.uint8)
    if tags.get(262) == 0:  # "white is zero", which Pillow heeds for 8 bits only
        grey = 255 - grey
    if "transparency" in image.info:
        grey[values == image.info["transparency"]] = 255
    return Image.fromarray(grey)


def _on_white(image: Image.Image) -> Image.Image:
    grey = image.mode in ("1", "L", "LA", "La")
    mode = "LA" if grey else "RGBA"
    layer = image if image.mode == mode else image.convert(mode)
    paper = Image.new("L" if grey else "RGB", layer.size, "white")
    paper.paste(layer, mask=layer.getchannel("A"))
    return paper


def _turn(image: Image.Image, orientation: int) -> Image.Image:
    return image.transpose(_TURNS[orientation]) if orientation in _TURNS else image


_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def _orientation(image: Image.Image) -> int:
    """EXIF's 1 to 8; 1 where it cannot be read, because bad EXIF must not lose good pixels."""
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:
        return 1


# What Pillow does not check


def _check_jpeg(data: bytes) -> None:
    """Its end marker is there (zeros in its place decode to grey), and its scans are not too many."""
    marker, position, scans = re.compile(rb"\xff[\x02-\xcf\xd9-\xfe]"), 2, 0
    for _ in range(_PARTS):
        found = marker.search(data, position)
        if found is None:
            raise _RefusalError("the JPEG is cut short: its end is missing")
        code, start = data[found.end() - 1], found.end()
        if code == 0xD9:
            return
        scans += code == 0xDA
        if scans > _JPEG_SCANS:
            break
        position = start + int.from_bytes(data[start : start + 2], "big")
    raise _RefusalError("a JPEG of too many parts, made to take long", "leave it out")


def _check_png(data: bytes) -> None:
    """Every chunk up to the last is there, with the checksum it claims; Pillow skips those of the pixels."""
    view, position = memoryview(data), 8
    for _ in range(_PARTS):
        end = position + 12 + int.from_bytes(data[position : position + 4], "big")
        if end > len(data) or position + 12 > len(data):
            raise _RefusalError("the PNG is cut short: its end is missing")
        if zlib.crc32(view[position + 4 : end - 4]) != int.from_bytes(data[end - 4 : end], "big"):
            raise _RefusalError("damaged PNG (wrong checksum)")
        if data[position + 4 : position + 8] == b"IEND":
            return
        position = end
    raise _RefusalError("a PNG of too many parts, made to take long", "leave it out")


def _check_gif(data: bytes) -> None:
    """What comes before the first frame is short."""
    mark, blocks = re.compile(rb"[!,;]"), 0  # an extension, a frame, the end
    position = 13 + (3 * 2 ** ((data[10] & 7) + 1) if data[10] & 0x80 else 0)
    while blocks < _GIF_BLOCKS and (found := mark.search(data, position)) and found[0] == b"!":
        position = found.end() + 1
        while blocks < _GIF_BLOCKS and (size := data[position : position + 1]) > b"\0":
            position, blocks = position + 1 + size[0], blocks + 1
        position, blocks = position + 1, blocks + 1
    if blocks >= _GIF_BLOCKS:
        raise _RefusalError("a GIF of too many parts, made to take long", "leave it out")


def _check_tiff(data: bytes) -> None:
    """The chain of its pages comes to an end."""
    order: Literal["little", "big"] = "little" if data[:2] == b"II" else "big"
    word, count, entry = (8, 8, 20) if 43 in data[2:4] else (4, 2, 12)  # BigTIFF or TIFF

    def number(at: int, size: int) -> int:
        return int.from_bytes(data[at : at + size], order)

    page, seen = number(word, word), set[int]()
    while page:
        if page in seen or len(seen) == _PARTS:
            raise _RefusalError("damaged TIFF (its pages go round in a loop)")
        seen.add(page)
        page = number(page + count + entry * number(page, count), word)


_PART_CHECKS = {"JPEG": _check_jpeg, "PNG": _check_png, "GIF": _check_gif, "TIFF": _check_tiff}
