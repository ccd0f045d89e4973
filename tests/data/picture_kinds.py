"""Pictures drawn by code, good and bad, for every test that opens some. Nothing here is read from a file."""

from __future__ import annotations

import io
import itertools
import os
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Bytes = Callable[[], bytes]


def draw(rows: int = 48, columns: int = 64, channels: int = 3, seed: int = 0, top: int = 255) -> np.ndarray:
    """A smooth picture with a bright box, different for each seed; rows x columns x channels, 0 to top."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:rows, 0:columns] / max(rows, columns)
    planes = [np.sin(6 * (x * a + y * b) + c) for a, b, c in random.uniform(-1, 1, (channels, 3))]
    picture = (np.stack(planes, -1) + 1) / 2
    picture[rows // 4 : rows // 2, columns // 4 : columns // 2] = random.uniform(0.5, 1, channels)
    return np.round(picture * top).astype(np.uint8 if top == 255 else np.uint16)


def encode(picture: np.ndarray | Image.Image, kind: str, **options: Any) -> bytes:
    image = (
        picture
        if isinstance(picture, Image.Image)
        else Image.fromarray(picture.squeeze(-1) if picture.shape[-1] == 1 else picture)
    )
    with io.BytesIO() as file:
        image.save(file, kind, **options)
        return file.getvalue()


# Formats written by hand, where Pillow cannot write what is needed


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(
    rows: int, columns: int, depth: int, colour: int, lines: bytes, before: bytes = b"", after: bytes = b""
) -> bytes:
    """A PNG of filtered lines; `before` and `after` are chunks around the pixels."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", columns, rows, depth, colour, 0, 0, 0))
    pixels = chunk(b"IDAT", zlib.compress(lines))
    return b"\x89PNG\r\n\x1a\n" + header + before + pixels + after + chunk(b"IEND", b"")


def png16(samples: np.ndarray, before: bytes = b"") -> bytes:
    """16 bits a channel: 1 grey, 2 grey and alpha, 3 colour, 4 colour and alpha."""
    rows, columns, channels = samples.shape
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in samples)
    return png(rows, columns, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], lines, before)


def tiff(
    rows: int, columns: int, pixels: bytes, bits: tuple[int, ...] = (8,), next_page: int = 0, **tags: int
) -> bytes:
    """A TIFF of one uncompressed strip. `tags` are named t258 and so on, and replace the usual ones."""
    page, extra = 8, 8 + 2 + 12 * 20 + 4  # room for twenty tags, then the bits of each channel, then the pixels
    start = extra + 2 * len(bits)
    photometric = 1 if len(bits) == 1 else 2
    values = {
        256: columns,
        257: rows,
        259: 1,
        262: photometric,
        273: start,
        277: len(bits),
        278: rows,
        279: len(pixels),
    }
    values |= {int(name[1:]): value for name, value in tags.items()}
    entries = {tag: struct.pack("<HHII", tag, 4, 1, value) for tag, value in values.items()}
    entries[258] = struct.pack("<HHI", 258, 3, len(bits)) + (
        struct.pack("<HH", bits[0], 0) if len(bits) == 1 else struct.pack("<I", extra)
    )
    table = struct.pack("<H", len(entries)) + b"".join(entries[tag] for tag in sorted(entries))
    head = struct.pack("<2sHI", b"II", 42, page) + table + struct.pack("<I", next_page)
    return head.ljust(extra, b"\0") + struct.pack(f"<{len(bits)}H", *bits) + pixels


def with_exif(jpeg: bytes, payload: bytes) -> bytes:
    """The JPEG with this EXIF segment put right after its first marker."""
    body = b"Exif\0\0" + payload
    return jpeg[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body + jpeg[2:]


def orientation(value: int) -> bytes:
    exif = Image.Exif()
    exif[274] = value
    return exif.tobytes()


BAD_EXIF: dict[str, bytes] = {
    "empty": b"",
    "not TIFF": b"garbage garbage garbage",
    "cut": orientation(6)[6:14],
    "far away": b"II*\0\xff\xff\xff\x7f",
    "too many entries": b"II*\0\x08\0\0\0\xff\xff" + bytes(50),
    "orientation 99": orientation(99)[6:],
    "orientation as text": b"II*\0\x08\0\0\0\1\0\x12\1\2\0\4\0\0\0six\0\0\0\0\0",
    "pointer to itself": b"II*\0\x08\0\0\0\1\0\x69\x87\4\0\1\0\0\0\x08\0\0\0\x08\0\0\0",
}


# Bad files: name of the kind -> its bytes


def cut(data: Bytes, part: float) -> Bytes:
    return lambda: data()[: int(len(data()) * part)]


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def jpeg(**options: Any) -> bytes:
    return encode(draw(), "JPEG", quality=90, **options)


def plain_png(**options: Any) -> bytes:
    return encode(draw(), "PNG", **options)


def _webp() -> bytes:
    return encode(draw(), "WEBP", lossless=True)


def _gif() -> bytes:
    return encode(Image.fromarray(draw()).quantize(), "GIF")


def _zero_tail() -> bytes:
    """Pillow alone takes this one: the zeros decode, to grey, and the missing end is not missed."""
    whole = encode(np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8), "JPEG")
    return whole[:-400] + bytes(400)


def _many_scans() -> bytes:
    whole = encode(draw(channels=1), "JPEG", progressive=True)
    return whole[:-2] + whole[whole.rindex(b"\xff\xda") : -2] * 1000 + whole[-2:]


def _jpeg_size(rows: int, columns: int) -> bytes:
    whole = jpeg()
    return patched(whole, whole.index(b"\xff\xc0") + 5, struct.pack(">HH", rows, columns))


def _many_segments() -> bytes:
    return jpeg()[:2] + b"\xff\xe5\0\2" * 200_000 + jpeg()[2:]


def _wrong_checksum(of: bytes) -> bytes:
    whole = plain_png()
    at = whole.index(of)
    last = at + 4 + struct.unpack(">I", whole[at - 4 : at])[0]
    return patched(whole, last, bytes([whole[last] ^ 1]))


def _png_with_stream(stream: bytes) -> bytes:
    header = plain_png()[:33]
    return header + chunk(b"IDAT", stream) + chunk(b"IEND", b"")


def _png_with(before: bytes = b"", after: bytes = b"") -> bytes:
    return png(2, 2, 8, 0, b"\0ab\0cd", before, after)


def _text_bomb(name: bytes, head: bytes) -> bytes:
    return chunk(name, head + zlib.compress(bytes(80_000_000), 1))


def bomb(rows: int, columns: int) -> bytes:
    """A true PNG of one bit a pixel, all black: megapixels in a few kilobytes."""
    return png(rows, columns, 1, 0, bytes(rows * (1 + -(-columns // 8))))


def _gif_flood() -> bytes:
    whole = encode(Image.new("L", (4, 4)), "GIF")
    at = whole.index(b",")
    return whole[:at] + b"!\xfe\1A\0" * 100_000 + whole[at:]


def _webp_bomb() -> bytes:
    """The size of the picture in its header only: 14 bits each for width and height, less one."""
    return patched(_webp(), 21, struct.pack("<I", 16382 | 16382 << 14))


def _heif(brand: bytes) -> bytes:
    return struct.pack(">I", 24) + b"ftyp" + brand + bytes(4) + b"mif1" + brand + bytes(100)


BAD_BYTES: dict[str, Bytes] = {
    "empty": lambda: b"",
    "zeros": lambda: bytes(5000),
    "noise": lambda: np.random.default_rng(0).bytes(5000),
    "web page": lambda: b"<!DOCTYPE html>\n<html><body>404</body></html>",
    "text": lambda: b"not a picture\n" * 20,
    "JPEG cut after its first bytes": lambda: jpeg()[:4],
    "JPEG cut in its tables": lambda: jpeg()[:200],
    "JPEG cut at half": cut(jpeg, 0.5),
    "JPEG cut at nine tenths": cut(jpeg, 0.9),
    "JPEG without its end": lambda: jpeg()[:-2],
    "JPEG progressive, cut": lambda: jpeg(progressive=True)[:-200],
    "JPEG with zeros for its end": _zero_tail,
    "JPEG of 1,000 scans": _many_scans,
    "JPEG of 200,000 segments": _many_segments,
    "JPEG 0 wide": lambda: _jpeg_size(48, 0),
    "PNG cut in its header": lambda: plain_png()[:20],
    "PNG cut at half": cut(plain_png, 0.5),
    "PNG cut in its last pixels": lambda: plain_png()[:-20],
    "PNG without its end": lambda: plain_png()[:-12],
    "PNG header checksum": lambda: _wrong_checksum(b"IHDR"),
    "PNG pixel checksum": lambda: _wrong_checksum(b"IDAT"),
    "PNG pixels not zlib": lambda: _png_with_stream(b"not compressed at all"),
    "PNG pixels too few": lambda: _png_with_stream(zlib.compress(bytes(100))),
    "PNG without pixels": lambda: plain_png()[:33] + chunk(b"IEND", b""),
    "PNG 0 wide": lambda: png(8, 0, 8, 0, bytes(8)),
    "PNG 0 high": lambda: png(0, 8, 8, 0, b""),
    "PNG text bomb": lambda: _png_with(before=_text_bomb(b"zTXt", b"a\0\0")),
    "PNG text bomb after the pixels": lambda: _png_with(after=_text_bomb(b"iTXt", b"a\0\1\0\0\0")),
    "PNG profile bomb": lambda: _png_with(before=_text_bomb(b"iCCP", b"a\0\0")),
    "PNG of 200,000 chunks": lambda: _png_with(before=chunk(b"abCd", b"") * 200_000),
    "WebP cut in its header": lambda: _webp()[:18],
    "WebP cut at half": cut(_webp, 0.5),
    "GIF cut at half": cut(_gif, 0.5),
    "GIF cut in its palette": lambda: _gif()[:100],
    "GIF of 100,000 comments": _gif_flood,
    "BMP cut": lambda: encode(draw(), "BMP")[:-50],
    "TIFF cut": lambda: tiff(4, 4, bytes(15)),
    "TIFF compressed, cut": lambda: encode(draw(), "TIFF", compression="tiff_lzw")[:-300],
    "TIFF whose pages loop": lambda: tiff(4, 4, bytes(16), next_page=8),
    "TIFF with a tile bomb": lambda: tiff(4, 4, bytes(16), t322=60_000, t323=60_000),
    "TIFF of floating point": lambda: tiff(4, 4, bytes(64), bits=(32,), t339=3),
    "PPM cut": lambda: encode(draw(), "PPM")[:-50],
    "PPM as text": lambda: b"P2\n2 2\n255\n0 1 2 3\n",
    "bomb of 90 megapixels": lambda: bomb(9_000, 10_000),
    "bomb of 170 megapixels": lambda: bomb(10_000, 17_000),
    "bomb of 400 megapixels": lambda: bomb(20_000, 20_000),
    "JPEG bomb": lambda: _jpeg_size(65_500, 65_500),
    "GIF bomb": lambda: patched(_gif(), 6, struct.pack("<HH", 65_000, 65_000)),
    "BMP bomb": lambda: patched(encode(draw(), "BMP"), 18, struct.pack("<II", 60_000, 60_000)),
    "TIFF bomb": lambda: tiff(60_000, 60_000, bytes(16)),
    "WebP bomb": _webp_bomb,
    "1 x 20000": lambda: encode(draw(20_000, 1, 1), "PNG"),
    "20000 x 1": lambda: encode(draw(1, 20_000, 1), "PNG"),
    "JPEG 2000": lambda: encode(draw(), "JPEG2000"),
    "icon": lambda: encode(draw(), "ICO"),
    "EPS": lambda: encode(draw(), "EPS"),
    "PDF": lambda: encode(draw(), "PDF"),
    "HEIC": lambda: _heif(b"heic"),
    "AVIF": lambda: _heif(b"avif"),
    "JPEG XL": lambda: b"\xff\x0a" + bytes(100),
    "Photoshop": lambda: b"8BPS\0\1" + bytes(100),
    "FITS": lambda: b"SIMPLE  =                    T".ljust(2880),
    "SVG": lambda: b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
    "DICOM": lambda: bytes(128) + b"DICM" + bytes(100),
    "TGA": lambda: encode(draw(), "TGA"),
    "zip": lambda: b"PK\3\4" + bytes(100),
}


# Bad things in a folder: name of the kind -> what makes it there


def _folder(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket has room for about a hundred bytes
        server.bind(path.name)
        os.chdir(here)


def _too_large(path: Path) -> None:
    path.write_bytes(jpeg())
    os.truncate(path, 100_000_001)


BAD_PATHS: dict[str, Callable[[Path], None]] = {
    "folder": _folder,
    "named pipe": _pipe,
    "socket": _socket,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "link to nothing": lambda path: path.symlink_to(path.with_name("gone.jpg")),
    "link to itself": lambda path: path.symlink_to(path),
    "missing": lambda _: None,
    "over 100 megabytes": _too_large,
}


# Good files


def _paint(mode: str, rows: int, columns: int, seed: int) -> Image.Image:
    channels = {"L": 1, "1": 1, "LA": 2, "P": 3, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    picture = draw(rows, columns, channels, seed)
    if mode in ("1", "L"):
        return Image.fromarray(picture[..., 0]).convert(mode)
    if mode == "P":
        return Image.fromarray(picture).quantize(16)
    if mode == "CMYK":
        return Image.frombytes("CMYK", (columns, rows), picture.tobytes())
    return Image.fromarray(picture)


GOOD_KINDS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    *(("JPEG", mode, {"quality": 90, "progressive": late}) for mode in ("L", "RGB", "CMYK") for late in (False, True)),
    *(("PNG", mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")),
    *(("WEBP", mode, {"lossless": exact}) for mode in ("RGB", "RGBA") for exact in (False, True)),
    *(("GIF", mode, {}) for mode in ("L", "P")),
    *(("BMP", mode, {}) for mode in ("1", "L", "P", "RGB")),
    *(("TIFF", mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK")),
    *(("TIFF", "RGB", {"compression": name}) for name in ("tiff_lzw", "tiff_deflate", "packbits", "jpeg")),
    *(("PPM", mode, {}) for mode in ("1", "L", "RGB")),
)


def good_files(count: int) -> Iterator[tuple[str, tuple[int, int], bytes]]:
    """File name, (rows, columns) and bytes of many good pictures, of all kinds in turn."""
    for number, (kind, mode, options) in zip(range(count), itertools.cycle(GOOD_KINDS), strict=False):
        rows, columns = 1 + number * 7 % 41, 1 + number * 11 % 37
        image = _paint(mode, rows, columns, number)
        yield f"{number:04}.{kind.lower()}", (rows, columns), encode(image, kind, **options)
