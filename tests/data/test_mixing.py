"""Labels are mixed by as much as pixels are."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vitrail.data.mixing import Mixing
from vitrail.errors import ConfigError

N, K = 6, 6


def batch(height: int = 8, width: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    """Picture i is i everywhere, and its label is class i, so that the pixels tell what a label must be."""
    return torch.arange(N).float()[:, None, None, None].expand(N, 3, height, width).clone(), torch.eye(N, K)


@given(
    mixup=st.sampled_from([0.0, 0.2, 0.8]),
    cutmix=st.sampled_from([0.0, 1.0]),
    step=st.integers(0, 1000),
    height=st.integers(1, 9),
)
def test_labels_are_what_the_pixels_are(mixup: float, cutmix: float, step: int, height: int) -> None:
    images, targets = batch(height)
    before = images.clone()
    mixed, labels = Mixing(mixup, cutmix)(images, targets, 0, 1, step)
    assert torch.equal(images, before)
    assert (mixed.shape, labels.shape) == (images.shape, targets.shape)
    torch.testing.assert_close(labels.sum(dim=1), torch.ones(N))
    assert (labels >= 0).all()
    torch.testing.assert_close(mixed.mean(dim=(1, 2, 3)), labels @ torch.arange(K).float(), atol=1e-4, rtol=0)


def test_cutmix_pastes_and_mixup_blends() -> None:
    images, targets = batch(32, 32)
    for step in range(20):
        pasted, _ = Mixing(cutmix=1.0)(images, targets, 0, 0, step)
        assert set(pasted.unique().tolist()) <= set(range(N))
        blended, _ = Mixing(mixup=0.8)(images, targets, 0, 0, step)
        assert (blended.flatten(1).std(dim=1) == 0).all()


def test_the_same_for_the_same_step_only() -> None:
    images, targets = batch()
    mixing = Mixing(0.8, 1.0)
    keys = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)]
    found = {tuple(mixing(images, targets, *key)[1].flatten().tolist()) for key in keys * 2}
    assert len(found) == len(keys)


def test_how_often_and_how_much() -> None:
    images, targets = batch(16, 16)

    def shares(mixing: Mixing) -> torch.Tensor:
        return torch.stack([mixing(images, targets, 0, 0, step)[1].amax(dim=1).mean() for step in range(200)])

    assert ((shares(Mixing(mixup=0.8, probability=0.25)) < 1).float().mean() - 0.25).abs() < 0.1
    assert not Mixing(mixup=0.8, probability=0.0).active
    assert not Mixing().active
    assert (shares(Mixing()) == 1).all()
    # Beta(1, 1) is uniform: the larger share of two is 3/4 on average, and some pictures are their own partners.
    assert 0.74 < shares(Mixing(mixup=1.0)).mean() < 0.85


@pytest.mark.parametrize("wrong", [{"mixup": -1}, {"cutmix": float("nan")}, {"probability": 1.5}])
def test_settings_that_cannot_work(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Mixing(**wrong)
