"""Every odd but valid kind of picture comes out as the pixels computed here, without the code under test."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageCms

from data.picture_kinds import BAD_EXIF, chunk, draw, encode, jpeg, orientation, png, png16, tiff, with_exif
from vitrail.data.images import open_image, to_array


def white_under(colour: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return np.round(colour * (alpha / 255) + 255 * (1 - alpha / 255)).astype(np.uint8)


def pixels(data: bytes) -> np.ndarray:
    return to_array(open_image(data))


def pillow(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_cmyk() -> None:
    inks = draw(channels=4).astype(int)
    stored = Image.frombytes("CMYK", (64, 48), inks.astype(np.uint8).tobytes())
    paper = np.round((255 - inks[..., :3]) * (255 - inks[..., 3:]) / 255).astype(np.uint8)
    np.testing.assert_array_equal(pixels(encode(stored, "TIFF")), paper)
    lossy = pixels(encode(stored, "JPEG", quality=100)).astype(int)
    assert np.abs(lossy - paper).max() <= 6


@pytest.mark.parametrize("channels", [1, 3])
def test_16_bit_png(channels: int) -> None:
    samples = draw(channels=channels, top=65535)
    np.testing.assert_array_equal(pixels(png16(samples)), samples // 256)
    assert (samples // 256).max() > 200 > 50 > (samples // 256).min()


@pytest.mark.parametrize("channels", [2, 4])
def test_16_bit_png_with_alpha(channels: int) -> None:
    samples = draw(channels=channels, top=65535)
    colour, alpha = samples[..., :-1] // 256, samples[..., -1:] // 256
    expected = np.broadcast_to(white_under(colour, alpha), (48, 64, 3))  # grey and alpha comes out as colour
    np.testing.assert_array_equal(pixels(png16(samples)), expected)


def test_16_bit_tiff_and_pgm() -> None:
    grey, colour = draw(channels=1, top=65535), draw(top=65535)
    as_tiff = tiff(48, 64, grey.astype("<u2").tobytes(), bits=(16,))
    inverted = tiff(48, 64, (65535 - grey).astype("<u2").tobytes(), bits=(16,), t262=0)
    as_pgm = b"P5 64 48 65535\n" + grey.astype(">u2").tobytes()
    for data in (as_tiff, inverted, as_pgm):
        np.testing.assert_array_equal(pixels(data), grey // 256)
    as_colour_tiff = tiff(48, 64, colour.astype("<u2").tobytes(), bits=(16, 16, 16))
    np.testing.assert_array_equal(pixels(as_colour_tiff), colour // 256)


def test_12_bit_tiff() -> None:
    first, second = 0xABC, 0x123
    packed = bytes([first >> 4, (first & 15) << 4 | second >> 8, second & 255])
    np.testing.assert_array_equal(pixels(tiff(1, 2, packed, bits=(12,)))[0, :, 0], [0xAB, 0x12])


def test_palette_with_alpha() -> None:
    indices = np.arange(48 * 64, dtype=np.uint8).reshape(48, 64) % 8
    palette, alpha = draw(1, 8)[0], np.array([0, 30, 60, 90, 120, 150, 200, 255], np.uint8)
    stored = Image.fromarray(indices)
    stored.putpalette(palette.tobytes())
    expected = white_under(palette, alpha[:, None])[indices]
    np.testing.assert_array_equal(pixels(encode(stored, "PNG", transparency=alpha.tobytes())), expected)
    np.testing.assert_array_equal(pixels(encode(stored, "PNG")), palette[indices])


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("channels", [2, 4])
def test_alpha_lies_on_white(kind: str, channels: int) -> None:
    picture = draw(channels=channels)
    picture[:8, :, -1], picture[8:16, :, -1] = 0, 255
    expected = white_under(picture[..., :-1], picture[..., -1:])
    np.testing.assert_array_equal(pixels(encode(picture, kind)), expected)


def test_transparent_colour_in_any_depth() -> None:
    """tRNS names one grey or colour as transparent; the others are opaque."""
    samples = np.array([[[5000], [60000]]], np.uint16)
    grey16 = png16(samples, before=chunk(b"tRNS", struct.pack(">H", 5000)))
    grey2 = png(1, 4, 2, 0, b"\0" + bytes([0b00011011]), before=chunk(b"tRNS", struct.pack(">H", 1)))
    colours = np.array([[[5000, 0, 9], [60000, 0, 9]]], np.uint16)
    colour16 = png16(colours, before=chunk(b"tRNS", struct.pack(">3H", 5000, 0, 9)))
    np.testing.assert_array_equal(pixels(grey16)[0, :, 0], [255, 60000 // 256])
    np.testing.assert_array_equal(pixels(grey2)[0, :, 0], [0, 255, 170, 255])
    np.testing.assert_array_equal(pixels(colour16)[0], [[255, 255, 255], [60000 // 256, 0, 0]])


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "GIF"])
def test_1_bit(kind: str) -> None:
    bits = draw(channels=1)[..., 0] > 127
    found = pixels(encode(Image.fromarray(bits), kind))
    np.testing.assert_array_equal(found, np.broadcast_to(bits[..., None] * 255, found.shape))


def test_animation_gives_its_first_frame() -> None:
    frames = [draw(channels=1, seed=seed)[..., 0] for seed in range(3)]
    first, *others = map(Image.fromarray, frames)
    for kind, options in (("GIF", {}), ("PNG", {}), ("TIFF", {}), ("WEBP", {"lossless": True})):
        data = encode(first, kind, save_all=True, append_images=others, **options)
        found = pixels(data)
        np.testing.assert_array_equal(found, np.broadcast_to(frames[0][..., None], found.shape))


UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: np.rot90(stored, 2),
    4: lambda stored: stored[::-1],
    5: lambda stored: np.rot90(stored)[::-1],
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: np.rot90(stored, -1)[::-1],
    8: lambda stored: np.rot90(stored),
}


@pytest.mark.parametrize("turn", UPRIGHT)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_exif_orientation(kind: str, turn: int) -> None:
    data = encode(draw(), kind, exif=orientation(turn), **({"lossless": True} if kind == "WEBP" else {}))
    stored = pillow(encode(draw(), kind)) if kind == "JPEG" else draw()
    image = open_image(data)
    np.testing.assert_array_equal(to_array(image), UPRIGHT[turn](stored))
    assert 274 not in image.getexif() or image.getexif()[274] == 1


@pytest.mark.parametrize("turn", UPRIGHT)
def test_exif_orientation_of_pixels_that_are_converted(turn: int) -> None:
    alpha, deep = draw(channels=4), draw(channels=1, top=65535)
    data = encode(alpha, "PNG", exif=orientation(turn))
    np.testing.assert_array_equal(pixels(data), UPRIGHT[turn](white_under(alpha[..., :3], alpha[..., 3:])))
    data = png16(deep, before=chunk(b"eXIf", orientation(turn)[6:]))
    np.testing.assert_array_equal(pixels(data), UPRIGHT[turn](deep // 256))


def test_icc_profile_leaves_the_pixels() -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    for icc in (profile, b"not a profile"):
        np.testing.assert_array_equal(pixels(encode(draw(), "PNG", icc_profile=icc)), draw())
        np.testing.assert_array_equal(pixels(jpeg(icc_profile=icc)), pillow(jpeg()))


def test_content_decides_not_the_name(tmp_path: Path) -> None:
    path = tmp_path / "really a png.jpg"
    path.write_bytes(encode(draw(), "PNG"))
    np.testing.assert_array_equal(to_array(open_image(str(path))), draw())


def test_progressive_jpeg() -> None:
    found = pixels(jpeg(progressive=True))
    np.testing.assert_array_equal(found, pillow(jpeg()))
    assert np.abs(found.astype(int) - draw()).mean() < 3


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_one_pixel(kind: str) -> None:
    found = pixels(encode(np.full((1, 1, 3), 255, np.uint8), kind))
    assert found.ravel().tolist() in ([255], [255, 255, 255])


def test_unicode_name_and_link(tmp_path: Path) -> None:
    path = tmp_path / "été 画像 🖼.png"
    path.write_bytes(encode(draw(), "PNG"))
    link = tmp_path / "link"
    link.symlink_to(path)
    for name in (path, link):
        np.testing.assert_array_equal(to_array(open_image(name)), draw())


@pytest.mark.parametrize("kind", BAD_EXIF)
def test_bad_exif_does_not_lose_good_pixels(kind: str) -> None:
    np.testing.assert_array_equal(pixels(with_exif(jpeg(), BAD_EXIF[kind])), pillow(jpeg()))
    in_png = png(1, 1, 8, 0, b"\0\x07", after=chunk(b"eXIf", BAD_EXIF[kind]))
    assert pixels(in_png).ravel().tolist() == [7]


def test_bad_exif_in_a_tiff() -> None:
    data = tiff(2, 2, bytes([1, 2, 3, 4]), t34665=99_999_999)
    assert pixels(data).ravel().tolist() == [1, 2, 3, 4]
