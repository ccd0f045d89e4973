"""Preparing equals torchvision's evaluation transform, and costs nothing where there is nothing to do."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import oracles
from data.picture_kinds import draw, encode
from vitrail.config import Preprocessing
from vitrail.data.images import open_image, to_array
from vitrail.data.prepare import covering, draft_size, normalise, prepare, resize
from vitrail.errors import ConfigError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def rule(size: int | tuple[int, int] = 224, **changes: object) -> Preprocessing:
    return Preprocessing.from_dict({"size": size, "mean": MEAN, "std": STD, **changes})


@pytest.mark.parametrize("method", ["bicubic", "bilinear"])
@pytest.mark.parametrize("crop", [1.0, 0.95, 0.9, 0.875])
@pytest.mark.parametrize("shape", [(300, 400), (401, 257), (224, 224), (90, 61), (256, 256)])
def test_as_timm_does(shape: tuple[int, int], crop: float, method: str) -> None:
    timm = oracles.timm()
    transform = timm.data.create_transform(
        (3, 224, 224), interpolation=method, crop_pct=crop, mean=MEAN, std=STD, is_training=False
    )
    data = encode(draw(*shape), "JPEG")
    image = open_image(data)
    ours = prepare(to_array(image), rule(crop=crop, resize=method))
    theirs = transform(image)
    assert ours.shape == (224, 224, 3)
    ready = normalise(ours[None], rule())
    np.testing.assert_allclose(ready[0], theirs.numpy(), atol=2e-6)


@settings(max_examples=200)
@given(
    shape=st.tuples(st.integers(1, 300), st.integers(1, 300)),
    size=st.tuples(st.integers(1, 64), st.integers(1, 64)),
    crop=st.floats(0.5, 1),
    channels=st.sampled_from([1, 2, 3, 5]),
)
def test_any_picture_to_any_size(shape: tuple[int, int], size: tuple[int, int], crop: float, channels: int) -> None:
    preprocessing = rule(size, crop=crop)
    pixels = draw(*shape, channels)
    prepared = prepare(pixels, preprocessing)
    assert (prepared.shape, prepared.dtype) == ((*size, channels), np.uint8)
    smaller = resize(pixels, covering(shape, preprocessing), preprocessing.resize)
    np.testing.assert_array_equal(prepare(smaller, preprocessing), prepared)
    assert all(side >= least for side, least in zip(smaller.shape, draft_size(preprocessing), strict=False))


def test_a_picture_of_the_right_size_is_not_copied() -> None:
    pixels = draw(32, 32)
    assert np.shares_memory(prepare(pixels, rule(32)), pixels)
    np.testing.assert_array_equal(prepare(pixels, rule(32)), pixels)


def test_channels_one_by_one_are_the_same() -> None:
    colour = draw(70, 50, 3)
    five = np.concatenate([colour, colour[..., :2]], axis=-1)
    np.testing.assert_array_equal(prepare(five, rule(32))[..., :3], prepare(colour, rule(32)))
    np.testing.assert_array_equal(prepare(colour[..., :1], rule(32)), prepare(colour, rule(32))[..., :1])


def test_a_drafted_picture_is_nearly_the_same() -> None:
    data = encode(draw(900, 1200), "JPEG", quality=95)
    whole = prepare(to_array(open_image(data)), rule(96, crop=0.875))
    drafted = open_image(data, draft=draft_size(rule(96, crop=0.875)))
    assert drafted.width < 1200
    assert np.abs(prepare(to_array(drafted), rule(96, crop=0.875)).astype(int) - whole).mean() < 2


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_normalise_is_the_formula(channels: int) -> None:
    preprocessing = Preprocessing((6, 7), MEAN[:1] * channels, STD[:1] * channels)
    batch = np.random.default_rng(0).integers(0, 256, (4, 6, 7, channels), dtype=np.uint8)
    ready = normalise(batch, preprocessing)
    assert (ready.dtype, ready.flags.c_contiguous) == (np.float32, True)
    expected = (torch.from_numpy(batch).permute(0, 3, 1, 2).double() / 255 - MEAN[0]) / STD[0]
    np.testing.assert_allclose(ready, expected.numpy(), atol=1e-6)
    one = normalise(batch, Preprocessing((6, 7), MEAN[:1], STD[:1]))
    np.testing.assert_array_equal(one, ready)


def test_other_channels_than_the_preprocessing_has() -> None:
    with pytest.raises(ConfigError, match=r"preprocessing has 3 channels, the pictures have 4; give one mean"):
        normalise(np.zeros((1, 2, 2, 4), np.uint8), rule(2))


def test_nearest_keeps_values() -> None:
    pixels = np.asarray(Image.fromarray(np.array([[0, 255]], np.uint8)).resize((64, 64), 0))[..., None]
    assert set(np.unique(prepare(pixels, rule(16, resize="nearest")))) == {0, 255}


def test_no_torch_is_needed() -> None:
    """To predict; augmentation is for training alone."""
    script = """
        import sys
        sys.modules["torch"] = None
        import numpy as np
        from vitrail.config import Preprocessing
        from vitrail.data.cache import fill_cache
        from vitrail.data.prepare import normalise, prepare
        rule = Preprocessing((8, 8), (0.5,), (0.5,))
        print(normalise(prepare(np.zeros((9, 20, 3), np.uint8), rule)[None], rule).shape)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "(1, 3, 8, 8)\n", done.stderr
