"""Channels, mean and spread, from samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.small_sets import write_picture
from vitrail.data.examples import ArrayPictures, Examples
from vitrail.data.measure import detect_channels, measure_mean_std
from vitrail.data.sources import open_data
from vitrail.errors import FileError


def from_array(pixels: np.ndarray) -> Examples:
    return Examples(
        "x", ArrayPictures(pixels), np.zeros(len(pixels), np.int64), ("a", "b"), {"train": np.arange(len(pixels))}
    )


def folder(root: Path, modes: list[str]) -> Examples:
    for number, mode in enumerate(modes):
        write_picture(root / "ab"[number % 2] / f"{number}.png", number, mode)
    return open_data(root, val=0.0)


def test_grey_only_where_every_picture_is(tmp_path: Path) -> None:
    assert detect_channels(folder(tmp_path / "grey", ["L"] * 6)) == 1
    assert detect_channels(folder(tmp_path / "mixed", ["L"] * 5 + ["RGB"])) == 3
    assert detect_channels(folder(tmp_path / "colour", ["RGB"] * 4)) == 3


def test_arrays_have_the_channels_they_have() -> None:
    for channels in (1, 3, 5):
        assert detect_channels(from_array(np.zeros((4, 6, 6, channels), np.uint8))) == channels


def test_mean_and_spread_are_numpys() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 8, 8, 3), np.uint8)
    mean, std = measure_mean_std(from_array(pixels), 3)
    np.testing.assert_allclose(mean, (pixels / 255).mean((0, 1, 2)), atol=1e-9)
    np.testing.assert_allclose(std, (pixels / 255).std((0, 1, 2)), atol=1e-9)


def test_only_training_pictures_are_looked_at() -> None:
    pixels = np.concatenate([np.zeros((5, 4, 4, 1)), np.full((5, 4, 4, 1), 255)]).astype(np.uint8)
    examples = from_array(pixels).replace(splits={"train": np.arange(5), "test": np.arange(5, 10)})
    assert measure_mean_std(examples, 1) == ((0.0,), (1 / 255,))


def test_large_pictures_are_made_smaller_first() -> None:
    board = ((np.indices((64, 64)).sum(0) % 2) * 255).astype(np.uint8)[None, ..., None]
    assert measure_mean_std(from_array(board), 1, size=64)[1][0] == pytest.approx(0.5)
    assert measure_mean_std(from_array(board), 1, size=32)[1][0] < 0.01


def test_unreadable_pictures_are_passed_over(tmp_path: Path) -> None:
    examples = folder(tmp_path, ["L"] * 6)
    (tmp_path / "a" / "0.png").write_bytes(b"broken")
    assert detect_channels(examples) == 1
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"broken")
    with pytest.raises(FileError, match="none of 6 pictures tried can be opened"):
        measure_mean_std(examples, 1)


def test_sixteen_bits_count_as_grey(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.full((4, 4), 128 * 257, np.uint16)).save(tmp_path / name / "1.png")
    examples = open_data(tmp_path, val=0.0)
    assert detect_channels(examples) == 1
    assert measure_mean_std(examples, 1)[0] == pytest.approx((128 / 255,))
