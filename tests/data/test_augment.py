"""What happens to a picture is a function of (seed, epoch, index), and is what the settings say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from data.picture_kinds import draw
from vitrail.config import Preprocessing
from vitrail.data.augment import CROPS, PADDINGS, Augmentation, augment_batch, cuts, read_training, training_draft
from vitrail.data.policies import POLICIES
from vitrail.data.randomness import uniform
from vitrail.errors import ConfigError

RULE = Preprocessing((16, 16), (0.5,), (0.5,))


def noise(count: int, height: int = 12, width: int = 14, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, height, width, channels), dtype=np.uint8)


def augmented(batch: np.ndarray, *how: Any) -> np.ndarray:
    return augment_batch(batch.copy(), *how)


any_settings = st.builds(
    Augmentation,
    crop=st.sampled_from(CROPS),
    shift=st.integers(0, 20),
    padding=st.sampled_from(PADDINGS),
    flip=st.booleans(),
    policy=st.sampled_from(["none", *POLICIES]),
    jitter=st.sampled_from([0.0, 0.4, 1.0]),
    erase=st.sampled_from([0.0, 0.5, 1.0]),
)


@settings(max_examples=100)
@given(
    wanted=any_settings,
    channels=st.sampled_from([1, 2, 3, 6]),
    indices=st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_a_picture_does_not_depend_on_its_company(
    wanted: Augmentation, channels: int, indices: list[int], order: Any
) -> None:
    batch = noise(len(indices), channels=channels)
    changed = augmented(batch, wanted, 1, 2, np.array(indices))
    assert (changed.shape, changed.dtype) == (batch.shape, np.uint8)
    places = order.sample(range(len(indices)), order.randint(1, len(indices)))
    some = augmented(batch[places], wanted, 1, 2, np.array(indices)[places])
    np.testing.assert_array_equal(some, changed[places])


def test_nothing_by_default() -> None:
    batch = noise(4)
    assert augment_batch(batch, Augmentation(), 0, 0, np.arange(4)) is batch


@pytest.mark.parametrize(
    "wanted",
    [{"flip": True}, {"crop": "shift"}, {"policy": "trivial-augment"}, {"jitter": 0.4}, {"erase": 1.0}],
    ids=lambda wanted: next(iter(wanted)),
)
def test_another_seed_epoch_or_index_changes_otherwise(wanted: dict[str, Any]) -> None:
    batch, keys = np.repeat(noise(1), 32, axis=0), [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 32)]
    found = {augmented(batch, Augmentation(**wanted), *k[:2], np.arange(32) + k[2]).tobytes() for k in keys * 2}
    assert len(found) == len(keys)


def test_flip() -> None:
    batch = noise(1000, 4, 5)
    changed = augmented(batch, Augmentation(flip=True), 0, 0, np.arange(1000))
    mirrored = (changed == batch[:, :, ::-1]).all(axis=(1, 2, 3))
    same = (changed == batch).all(axis=(1, 2, 3))
    assert (mirrored ^ same).all()
    assert 440 < mirrored.sum() < 560


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize(("height", "width", "most"), [(6, 7, 2), (4, 5, 9), (1, 2, 1)])
def test_shift_is_a_window_of_the_padded_picture(padding: str, height: int, width: int, most: int) -> None:
    batch, wanted = noise(200, height, width), Augmentation(crop="shift", shift=most, padding=padding)
    changed = augmented(batch, wanted, 0, 0, np.arange(200))
    border = ((0, 0), (most, most), (most, most), (0, 0))
    padded = np.pad(batch, border, "reflect" if padding == "reflect" else "constant")
    seen = set()
    for window, picture in zip(padded, changed, strict=True):
        found = [
            (y, x)
            for y in range(2 * most + 1)
            for x in range(2 * most + 1)
            if (window[y : y + height, x : x + width] == picture).all()
        ]
        assert found
        seen.update(found)
    assert len(seen) > 0.4 * (2 * most + 1) ** 2


def test_erase() -> None:
    batch = np.zeros((2000, 20, 30, 3), np.uint8)
    changed = augmented(batch, Augmentation(erase=0.25), 0, 0, np.arange(2000))
    touched = (changed > 0).any(axis=3)
    hit = touched.any(axis=(1, 2))
    assert 0.21 < hit.mean() < 0.29
    areas = touched[hit].mean(axis=(1, 2))
    assert 0.01 < areas.min() < 0.03
    assert 0.28 < areas.max() < 0.37
    for picture in touched[hit][:100]:
        rows, columns = np.flatnonzero(picture.any(axis=1)), np.flatnonzero(picture.any(axis=0))
        box = picture[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert box.mean() > 0.9  # a filled rectangle
    values = changed[changed > 0]
    assert 120 < values.mean() < 136


def test_jitter_is_pillows_enhancement() -> None:
    """Pillow rounds and cuts after each step, which on a mild picture changes little."""
    picture = (draw(24, 24) // 2 + 60).astype(np.uint8)
    indices = np.arange(20)
    names = ("brightness", "contrast", "saturation")
    factors = np.stack([1 + 0.3 * (2 * uniform(0, 0, indices, f"jitter {name}") - 1) for name in names], axis=1)
    changed = augmented(np.repeat(picture[None], 20, axis=0), Augmentation(jitter=0.3), 0, 0, indices)
    for ours, chosen in zip(changed.astype(int), factors, strict=True):
        assert np.abs(ours - enhanced(picture, *chosen)).max() <= 3


def enhanced(picture: np.ndarray, brightness: float, contrast: float, saturation: float) -> np.ndarray:
    image = ImageEnhance.Brightness(Image.fromarray(picture)).enhance(brightness)
    image = ImageEnhance.Color(ImageEnhance.Contrast(image).enhance(contrast)).enhance(saturation)
    return np.asarray(image).astype(int)


def test_jitter_leaves_colours_of_many_channels_alone() -> None:
    flat = np.full((1, 4, 4, 5), 80, np.uint8)
    changed = augmented(flat, Augmentation(jitter=0.5), 0, 0, np.arange(1))
    assert len(np.unique(changed)) == 1


# A random part


def coordinates(height: int, width: int) -> np.ndarray:
    """A picture whose pixels say where they are, so that a cut tells its own box."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([y * 255 / (height - 1), x * 255 / (width - 1)], axis=-1).round().astype(np.uint8)


def boxes(height: int, width: int, count: int, **wanted: Any) -> np.ndarray:
    """Area and ratio of the parts cut out, as shares of 1."""
    rule = RULE.replace(resize="nearest", size=(64, 64))
    chosen = Augmentation(crop="resized", **wanted)
    drawn = cuts(chosen, 0, 0, np.arange(count))
    parts = [read_training(coordinates(height, width), chosen, rule, cut) for cut in drawn]
    spans = np.array([np.ptp(part.astype(float), axis=(0, 1)) / 255 for part in parts]) * (height, width) + 1
    return np.stack([spans[:, 0] * spans[:, 1] / height / width, spans[:, 1] / spans[:, 0]], axis=1)


@pytest.mark.parametrize(("height", "width"), [(200, 200), (150, 230)])
def test_a_random_part_has_the_area_and_ratio_asked_for(height: int, width: int) -> None:
    areas, ratios = boxes(height, width, 600, scale=(0.2, 0.9), ratio=(0.5, 2.0)).T
    assert (areas > 0.18).all()
    assert (areas < 0.93).all()
    assert abs(areas.mean() - 0.55) < 0.03
    assert (ratios > 0.45).all()
    assert (ratios < 2.2).all()
    assert ratios.min() < 0.7
    assert ratios.max() > 1.5


def test_of_a_very_long_picture_the_largest_part_that_fits() -> None:
    areas, ratios = boxes(20, 200, 50, scale=(0.9, 1.0)).T
    assert np.allclose(ratios, 4 / 3, atol=0.15)
    assert np.allclose(areas, 20 * 26.7 / 4000, atol=0.02)
    areas, ratios = boxes(200, 20, 50, scale=(0.9, 1.0)).T
    assert np.allclose(ratios, 3 / 4, atol=0.15)


@given(
    shape=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    index=st.integers(0, 10**9),
    channels=st.sampled_from([1, 3, 4]),
    crop=st.sampled_from(CROPS),
)
def test_any_picture_becomes_the_size(shape: tuple[int, int], index: int, channels: int, crop: str) -> None:
    wanted = Augmentation(crop=crop)
    (cut,) = cuts(wanted, 0, 0, np.array([index]))
    part = read_training(draw(*shape, channels), wanted, RULE, cut)
    assert (part.shape, part.dtype) == ((16, 16, channels), np.uint8)


def test_a_cut_does_not_depend_on_its_company() -> None:
    wanted, indices = Augmentation(crop="resized"), np.array([5, 10**12, 7])
    assert cuts(wanted, 3, 1, indices) == [cuts(wanted, 3, 1, indices[n : n + 1])[0] for n in range(3)]
    assert cuts(wanted, 3, 2, indices) != cuts(wanted, 3, 1, indices)


def test_a_smaller_part_asks_for_a_larger_decode() -> None:
    wanted = Augmentation(crop="resized", scale=(0.04, 1.0))
    drawn = cuts(wanted, 0, 0, np.arange(300))
    sides = [training_draft(wanted, RULE, cut)[0] for cut in drawn]
    assert min(sides) <= 17
    assert 16 / math.sqrt(0.05) < max(sides) <= 80
    assert training_draft(Augmentation(), RULE.replace(crop=0.5), drawn[0]) == (32, 32)


# Settings


def test_settings_travel_as_plain_values() -> None:
    wanted = Augmentation(crop="resized", scale=(0.3, 1.0), policy="rand-augment", magnitude=12)
    assert Augmentation.from_dict({**wanted.to_dict(), "scale": [0.3, 1]}) == wanted


@pytest.mark.parametrize(
    "wrong",
    [
        {"crop": "centre"},
        {"padding": "black"},
        {"policy": "auto"},
        {"scale": (0.5, 0.1)},
        {"scale": (0.5, 2)},
        {"ratio": 1},
        {"erase": 1.5},
        {"jitter": -0.1},
        {"magnitude": 31},
        {"shift": 1.5},
        {"erase": "often"},
        {"scale": ("a", "b")},
    ],
    ids=str,
)
def test_settings_that_cannot_work(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Augmentation(**wrong)
