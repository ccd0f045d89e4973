"""Random views: where they are cut, and what happens to their colours."""

from __future__ import annotations

import pytest
import torch

from vitrail.methods import views
from vitrail.methods.draws import Draws


def test_the_whole_picture_is_itself():
    images = torch.rand(2, 3, 12, 20)
    ratio = 0.5  # of the logarithm: as wide as high
    chance = torch.tensor([[1.0, ratio, 0.3, 0.7]] * 2)
    assert torch.allclose(views.cut_out(images, (12, 20), (0.2, 1.0), chance), images, atol=1e-5)


def test_a_quarter_in_the_corner():
    images = torch.rand(1, 1, 8, 8)
    corners = {(0.0, 0.0): images[..., :4, :4], (1.0, 0.0): images[..., 4:, :4], (1.0, 1.0): images[..., 4:, 4:]}
    for (down, right), expected in corners.items():
        chance = torch.tensor([[0.0, 0.5, down, right]])
        assert torch.allclose(views.cut_out(images, (4, 4), (0.25, 1.0), chance), expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_colours_stay_in_range_and_differ(channels):
    images = torch.rand(200, channels, 6, 6)
    made = views.recolour(images, Draws(0, 0, torch.arange(200)).uniform(5, "colour"))
    assert made.shape == images.shape
    assert 0 <= made.min() <= made.max() <= 1
    same = torch.tensor([torch.allclose(a, b, atol=1e-6) for a, b in zip(images, made, strict=True)])
    assert 0.05 < same.float().mean() < 0.5  # a fifth is left as it is, but for those without colour


def test_some_lose_all_colour():
    made = views.recolour(torch.rand(200, 3, 4, 4), Draws(0, 0, torch.arange(200)).uniform(5, "colour"))
    grey = ((made.amax(dim=1) - made.amin(dim=1)).amax(dim=(1, 2)) < 1e-6).float().mean()
    assert 0.1 < grey < 0.3


def test_a_view_is_a_function_of_the_picture_and_its_name():
    images, draws = torch.rand(6, 3, 8, 8), Draws(0, 0, torch.arange(6))
    settings = ((8, 8), (0.3, 1.0), True)
    whole = views.view(images, *settings, draws, "0")
    part = views.view(images[3:], *settings, Draws(0, 0, torch.arange(3, 6)), "0")
    assert torch.equal(whole[3:], part)
    assert not torch.equal(views.view(images, *settings, draws, "1"), whole)
