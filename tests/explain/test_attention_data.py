"""Attention in bytes says what the model's attention says, as finely as the limit lets it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from explain.test_methods import pictures, vit
from vitrail.explain.attention_data import attention_data


@pytest.mark.parametrize("parts", [{"registers": 2}, {"pool": "mean"}], ids=str)
def test_a_patch_is_a_cell_where_there_is_room(parts):
    model, images = vit(**parts), pictures()
    front = model.config.prefix_tokens
    found = attention_data(model, images, 10**6)
    assert (found.grid, found.together, found.shares.shape) == ((3, 4), 1, (2, 3, 13, 12))
    with torch.no_grad():
        expected = torch.stack(model.attention(images))[:, 0, :, :, front:].numpy()  # layers H N P
    shown = found.shares / 255 * found.largest[..., None]
    np.testing.assert_allclose(shown[:, 1:, 1:], expected[:, :, front:], atol=1 / 500)
    np.testing.assert_allclose(shown[:, 0, 1:], expected[:, :, front:].mean(1), atol=1 / 500)
    reads = expected[:, :, 0] if model.config.pool == "cls" else expected.mean(2)
    np.testing.assert_allclose(shown[:, 1:, 0], reads, atol=1 / 500)


def test_patches_are_put_together_where_there_is_not():
    model, images = vit(image_size=(40, 56)), pictures(size=(40, 56))
    fine = attention_data(model, images, 10**6)
    coarse = attention_data(model, images, 2000)
    assert (fine.grid, coarse.grid, coarse.together) == ((5, 7), (3, 4), 2)
    assert coarse.shares.nbytes + coarse.largest.nbytes <= 2000
    cells = (fine.shares[0, 0, 0] / 255 * fine.largest[0, 0, 0]).reshape(5, 7)
    shown = (coarse.shares[0, 0, 0] / 255 * coarse.largest[0, 0, 0]).reshape(3, 4)
    np.testing.assert_allclose(shown[0, 0], cells[:2, :2].sum(), atol=0.01)
    np.testing.assert_allclose(shown[2, 3], cells[4:, 6:].sum(), atol=0.01)
    assert attention_data(model, images, 0).grid == (1, 1)
