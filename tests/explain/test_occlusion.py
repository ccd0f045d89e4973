"""Occlusion, on models whose answer comes from a known place."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explain.test_methods import pictures, vit
from vitrail.explain.masking import answers, without_detail
from vitrail.explain.methods import explain
from vitrail.explain.occlusion import windows


@pytest.mark.parametrize("grid", [(1, 1), (2, 3), (8, 8), (14, 14), (24, 10)])
def test_windows_cover_every_cell_alike(grid):
    covered = windows(grid)
    assert covered.shape[1:] == grid
    assert covered.sum(0).unique().tolist() == [4.0]
    assert len(covered) <= 15**2
    assert covered.flatten(1).any(1).all()


def test_a_cell_has_the_mean_fall_of_its_windows():
    model, images = vit(), pictures()
    blurred = without_detail(images, (3, 4))
    with torch.no_grad():
        whole = model(images)[0, 1]
        expected = np.zeros((3, 4))
        for mask in windows((3, 4)).repeat_interleave(8, 1).repeat_interleave(8, 2):
            fall = whole - model(torch.where(mask == 1, blurred, images))[0, 1]
            expected += fall.numpy() * mask[::8, ::8].numpy() / 4
    np.testing.assert_allclose(explain(model, images, "occlusion", 1).heat, expected, atol=1e-5)


def test_what_is_not_shown_is_blurred():
    image, blurred = pictures()[0], torch.zeros(3, 24, 32)
    shown = torch.zeros(2, 3, 4)
    shown[1, 0, 2] = 1
    seen = answers(lambda images: images.flatten(1), image, blurred, shown).unflatten(1, (3, 24, 32))
    assert torch.equal(seen[0], blurred)
    assert torch.equal(seen[1, :, :8, 16:24], image[:, :8, 16:24])
    assert seen[1].count_nonzero() == 3 * 64
