"""An image's answer does not depend on what else is in its batch."""

from __future__ import annotations

import pytest
import torch

from oracles import randomise
from vitrail import ViT


@pytest.mark.parametrize(
    "count", [pytest.param(200, id="small"), pytest.param(10_000, id="full", marks=pytest.mark.full)]
)
def test_alone_or_in_any_company(count, record_property):
    """Each image alone, and again in batches of random sizes and companions: the same answer."""
    model = randomise(ViT(image_size=32, patch_size=8, num_classes=10, dim=64, depth=2, heads=1, mlp_dim=128))
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, 3, 32, 32, generator=generator)
    with torch.inference_mode():
        alone = torch.cat([model(image[None]) for image in images])
        order, together = torch.randperm(count, generator=generator), torch.empty_like(alone)
        while len(order):
            size = int(torch.randint(1, 65, (1,), generator=generator))
            batch, order = order[:size], order[size:]
            together[batch] = model(images[batch])
    worst, flips = (alone - together).abs().max().item(), int((alone.argmax(1) != together.argmax(1)).sum())
    record_property("figure", f"{flips} flips in {count}, worst {worst:.1e}")
    assert flips == 0
    assert worst <= 1e-5
