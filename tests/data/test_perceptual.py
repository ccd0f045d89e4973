"""Near copies are found, look-alikes are not."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from data.planting import CHANGES, cropped, scene
from vitrail.data import perceptual
from vitrail.data.perceptual import copy_likeness, near_pairs, thumbnail, whitened

ORIGINALS = 300


def reopened(image: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return Image.open(io.BytesIO(file.getvalue()))


def thumbnails(images: list[Image.Image]) -> tuple[np.ndarray, np.ndarray]:
    made = [thumbnail(np.asarray(image).reshape(image.height, image.width, -1)) for image in images]
    return np.stack([grey for grey, _ in made]), np.stack([tint for _, tint in made])


@pytest.fixture(scope="module")
def originals() -> list[Image.Image]:
    return [scene(seed) for seed in range(ORIGINALS)]


def found(images: list[Image.Image]) -> set[tuple[int, int]]:
    return {(pair.first, pair.second) for pair in near_pairs(*thumbnails(images))}


@pytest.mark.parametrize("kind", CHANGES)
def test_changed_copies_are_found_and_nothing_else(originals: list[Image.Image], kind: str) -> None:
    change, quality = CHANGES[kind]
    copies = [reopened(change(image), quality) for image in originals[:40]]
    pairs, planted = found([*originals, *copies]), {(n, ORIGINALS + n) for n in range(40)}
    assert len(pairs & planted) >= (38 if kind == "cropped" else 40)
    assert not pairs - planted


def test_what_is_no_copy(originals: list[Image.Image]) -> None:
    mirrored = [image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) for image in originals[:20]]
    recoloured = [Image.fromarray(np.asarray(image)[..., [2, 0, 1]]) for image in originals[20:40]]
    halves = [cropped(image, 0.5) for image in originals[40:60]]
    assert not found([*originals, *mirrored, *recoloured, *halves])


def test_a_set_of_look_alikes_raises_no_alarm() -> None:
    """Small grey pictures of one outline, told apart by little: as clothes or X-rays are."""
    rows, columns = np.mgrid[:28, :28]
    outline = 200 * np.exp(-((rows - 14) ** 2 + (columns - 14) ** 2) / 90)
    random = np.random.default_rng(0)
    pictures = [
        Image.fromarray(
            np.clip(outline + np.kron(random.normal(0, 18, (7, 7)), np.ones((4, 4))), 0, 255).astype(np.uint8)
        )
        for _ in range(1500)
    ]
    copies = [reopened(image, 90) for image in pictures[:30]]
    pairs, planted = found([*pictures, *copies]), {(n, 1500 + n) for n in range(30)}
    assert len(pairs & planted) >= 28
    assert len(pairs - planted) <= 2


def test_hashing_finds_what_comparing_all_finds(originals: list[Image.Image], monkeypatch: pytest.MonkeyPatch) -> None:
    copies = [reopened(cropped(image, 0.03), 80) for image in originals]
    thumbs = thumbnails([*originals, *copies])
    every = near_pairs(*thumbs)
    monkeypatch.setattr(perceptual, "FEW", 0)
    hashed = near_pairs(*thumbs)
    assert set(hashed) <= set(every)
    assert len(hashed) >= 0.99 * len(every)


@given(st.integers(2, 40), st.integers(0, 2**32 - 1))
@settings(max_examples=20)
def test_any_pictures_make_unit_vectors(count: int, seed: int) -> None:
    grey = np.random.default_rng(seed).integers(0, 256, (count, 32, 32), dtype=np.uint8)
    grey[0] = 7  # a blank one has no direction, and must not become NaN
    lengths = np.linalg.norm(whitened(grey), axis=1)
    assert lengths[0] == 0
    assert np.allclose(lengths[1:], 1, atol=1e-4)
    assert copy_likeness(whitened(grey)) <= perceptual.STRICTEST


def test_two_copies_alone_are_found() -> None:
    assert found([scene(1), reopened(scene(1), 60)]) == {(0, 1)}
    assert found([scene(1), scene(2)]) == set()
    assert found([scene(1)]) == set()


def test_any_number_of_channels() -> None:
    for channels in (1, 2, 3, 5):
        grey, tint = thumbnail(np.zeros((9, 7, channels), np.uint8))
        assert grey.shape == (32, 32)
        assert tint.shape == (4, 4, 2)
