"""The pointing game in short: maps of a model that was really trained point at what decides the class."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from explain.planted import Planted, planted, touched
from vitrail import ViT
from vitrail.explain.methods import explain_batch
from vitrail.explain.trust import Judge, shuffled_weights

KINDS = ("stripes", "nothing")
SHAPE = {"image_size": 32, "patch_size": 4, "dim": 32, "depth": 2, "heads": 2, "dim_head": 16, "mlp_dim": 64}


def as_images(shown: Planted) -> torch.Tensor:
    return torch.from_numpy(shown.pixels).permute(0, 3, 1, 2).float() / 127.5 - 1


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def trained() -> ViT:
    """Tells stripes from nothing."""
    torch.manual_seed(0)
    model, shown = ViT(num_classes=2, **SHAPE), planted(2000, seed=1, classes=KINDS)
    images, wanted = as_images(shown), torch.arange(2000) % 2
    optimiser = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for step in range(180):
        batch = torch.arange(64 * step, 64 * (step + 1)) % 2000
        loss = F.cross_entropy(model(images[batch]), wanted[batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


@pytest.fixture(scope="module")
def shown() -> Planted:
    return planted(24, seed=3, classes=("stripes",))


def test_it_has_learned(trained: ViT) -> None:
    fresh = planted(200, seed=2, classes=KINDS)
    with torch.no_grad():
        said = trained(as_images(fresh)).argmax(dim=1)
    assert (said == torch.arange(200) % 2).float().mean() >= 0.95


@pytest.mark.parametrize("method", ["attribution", "occlusion"])
def test_maps_point_at_the_object(trained: ViT, shown: Planted, method: str) -> None:
    maps = [found.heat for found in explain_batch(trained, as_images(shown), method, [0] * 24)]
    hits = [touched(corner, (8, 8)).flat[heat.argmax()] for heat, corner in zip(maps, shown.corners, strict=True)]
    assert np.mean(hits) >= 0.9


def doubted(model: ViT, images: torch.Tensor) -> int:
    count = 0
    for number, found in enumerate(explain_batch(model, images)):
        judge = Judge(model, images[[number]], found.target, softmax, seed=number)
        count += not judge.trust(found.heat).better_than_random
    return count


def test_maps_are_trusted_with_what_was_learned_and_doubted_without(trained: ViT, shown: Planted) -> None:
    images = as_images(shown)[:12]
    assert doubted(trained, images) <= 2
    assert doubted(shuffled_weights(trained), images) >= 11
