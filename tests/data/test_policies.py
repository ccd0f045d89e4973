"""Each operation is the one the papers' authors and torchvision mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import oracles
from data.picture_kinds import draw
from vitrail.data.operations import operate
from vitrail.data.policies import POLICIES, apply_policy

PICTURE = draw(40, 56)
SAME_NAMES = {  # ours: torchvision's
    "identity": "Identity",
    "auto-contrast": "AutoContrast",
    "equalize": "Equalize",
    "rotate": "Rotate",
    "solarize": "Solarize",
    "posterize": "Posterize",
    "saturation": "Color",
    "contrast": "Contrast",
    "brightness": "Brightness",
    "sharpness": "Sharpness",
    "shear-x": "ShearX",
    "shear-y": "ShearY",
    "translate-x": "TranslateX",
    "translate-y": "TranslateY",
    "slide-x": "TranslateX",
    "slide-y": "TranslateY",
}


def applied(batch: np.ndarray, *how: Any) -> np.ndarray:
    changed = batch.copy()
    apply_policy(changed, *how)
    return changed


def transforms() -> Any:
    oracles.torchvision()
    from torchvision.transforms import InterpolationMode, v2

    options = {"interpolation": InterpolationMode.BILINEAR, "fill": 128}
    return {"rand-augment": v2.RandAugment(**options), "trivial-augment": v2.TrivialAugmentWide(**options)}


@pytest.mark.parametrize("policy", ["rand-augment", "trivial-augment"])
def test_operations_and_their_ranges_are_torchvisions(policy: str) -> None:
    peer = transforms()[policy]
    ours = POLICIES[policy].operations
    assert sorted(SAME_NAMES[name] for name in ours) == sorted(peer._AUGMENTATION_SPACE)
    for name, (least, most, signed) in ours.items():
        magnitudes, peer_signed = peer._AUGMENTATION_SPACE[SAME_NAMES[name]]
        values = magnitudes(31, *PICTURE.shape[:2])
        assert signed == peer_signed
        for level in (0, 9, 17, 30) if values is not None else (0,):
            for sign in (1, -1) if signed else (1,):
                amount = sign * (least + (most - least) * level / 30)
                theirs = 0.0 if values is None else sign * float(values[level])
                expected = peer._apply_image_or_video_transform(
                    Image.fromarray(PICTURE), SAME_NAMES[name], theirs, peer.interpolation, peer._fill
                )
                assert_nearly_equal(amount, np.asarray(expected), name)


def assert_nearly_equal(amount: float, theirs: np.ndarray, name: str) -> None:
    """torchvision's amounts have single precision: some values are rounded otherwise.

    What Pillow mixes of several pixels it cuts to whole numbers, which we round, and its pictures have hard edges.
    """
    batch = np.stack([PICTURE, np.full_like(PICTURE, 255)])
    operate(batch, [name] * 2, np.full(2, amount))
    ours, white = batch
    mixed = name in ("rotate", "shear-x", "shear-y")
    whole = np.isin(white, (128, 255)) if mixed else np.full(white.shape, True)
    assert whole.mean() > 0.9, name
    assert (np.abs(ours.astype(int) - theirs) <= 1)[whole].mean() > 0.999, name
    assert mixed or (ours == theirs).mean() > 0.95, name


def test_three_augment_is_grey_solarised_or_blurred() -> None:
    image = Image.fromarray(PICTURE)
    batch, indices = np.repeat(PICTURE[None], 60, axis=0), np.arange(60)
    changed = applied(batch, "three-augment", 9, 2, 0, 0, indices)
    grey = (np.ptp(changed, axis=-1) == 0).all(axis=(1, 2)).sum()
    solarised = (changed == np.asarray(ImageOps.solarize(image))).all(axis=(1, 2, 3)).sum()
    assert 8 < grey < 32
    assert 8 < solarised < 32


def test_every_operation_comes_about_as_often() -> None:
    batch, indices = np.repeat(draw(12, 12)[None], 700, axis=0), np.arange(700)
    changed = applied(batch, "rand-augment", 30, 1, 0, 0, indices)
    unchanged = (changed == batch).all(axis=(1, 2, 3)).mean()
    assert 1 / 14 - 0.03 < unchanged < 3 / 14  # identity, and what changes nothing on this picture
    twice = applied(batch, "rand-augment", 30, 2, 0, 0, indices)
    assert (twice == batch).all(axis=(1, 2, 3)).mean() < unchanged


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_any_number_of_channels(policy: str, channels: int) -> None:
    batch = np.stack([draw(16, 20, channels, seed=seed) for seed in range(40)])
    changed = applied(batch, policy, 20, 2, 0, 0, np.arange(40))
    assert (changed.shape, changed.dtype) == (batch.shape, np.uint8)
    if policy != "three-augment" or channels in (1, 3):
        assert (changed != batch).any()
