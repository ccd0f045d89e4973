"""Masked patch prediction: corruption as the paper says, targets as NumPy computes them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from methods import tiny_methods
from vitrail.errors import ConfigError
from vitrail.methods.draws import Draws


def pixels_of(batch):
    return ((batch.images.numpy() * 0.3 + 0.4) * 255).round().astype(np.int64)  # B C H W, 0 to 255


def colour_numbers(pixels, side):
    """Mean of each square part of each patch of 4 x 4, cut to 3 bits a channel, channels as digits of base 8."""
    size = 4 // side
    means = pixels.reshape(*pixels.shape[:2], 4 * side, size, 4 * side, size).mean(axis=(3, 5))
    levels = (means // 32).astype(np.int64)
    number = levels[:, 0] * 64 + levels[:, 1] * 8 + levels[:, 2]  # B 4side 4side
    blocks = number.reshape(-1, 4, side, 4, side).transpose(0, 1, 3, 2, 4)
    return blocks.reshape(len(pixels), 16, side * side)


@pytest.mark.parametrize(("target", "side"), [("mean-colour", 1), ("small-patch", 4)])
def test_colours_are_those_of_numpy(target, side):
    made, batch = tiny_methods.method("masked-patches", target=target), tiny_methods.batch(6)
    found = made.targets(batch.images)
    expected = colour_numbers(pixels_of(batch), side)
    assert (found.numpy() == expected).all()
    assert len(np.unique(expected)) > 5
    assert made.predict(batch.images, torch.ones(6, 16, dtype=torch.bool), Draws(0, 0, batch.indices)).shape == (
        96,
        512 * side * side,
    )


def test_means_on_the_border_of_two_levels_are_not_lost_in_rounding():
    """A picture of 32k exactly belongs to level k, though it was normalised and back."""
    made = tiny_methods.method("masked-patches")
    values = torch.arange(0, 256, 32).float()
    images = ((values / 255 - 0.4) / 0.3).view(8, 1, 1, 1).expand(8, 3, 16, 16)
    assert (made.targets(images) == torch.arange(8).view(8, 1, 1) * 73).all()  # 64 + 8 + 1


def test_pixels_are_compared_by_squares():
    made, batch = tiny_methods.method("masked-patches", target="pixels").eval(), tiny_methods.batch(4)
    draws = Draws(made.seed, 0, batch.indices)
    mask = made.choose(draws)
    predicted = made.predict(batch.images, mask, draws).detach().numpy()
    expected = ((predicted - made.targets(batch.images)[mask].numpy()) ** 2).mean()
    assert made(batch, 0, 0, 0.0).item() == pytest.approx(expected, rel=1e-5)


def test_half_is_corrupted_eight_one_one():
    made = tiny_methods.method("masked-patches")
    count = 2000
    draws = Draws(0, 0, torch.arange(count))
    mask = made.choose(draws)
    assert mask.sum(dim=1).tolist() == [8] * count
    places = torch.arange(1, 17).float().view(1, 16, 1).expand(count, 16, 16)  # every embedding tells its place
    with torch.no_grad():
        made.hide.mask_token.fill_(-1)
        found = made.corrupt(places, mask, draws)[..., 0]
    assert torch.equal(found[~mask], places[..., 0][~mask])
    hidden, kept = found[mask] == -1, found[mask] == places[..., 0][mask]
    shares = [hidden.float().mean().item(), (~hidden & ~kept).float().mean().item(), kept.float().mean().item()]
    assert shares == pytest.approx([0.8, 0.1, 0.1], abs=0.01)  # 16,000 draws: five deviations


def test_the_mean_answer_is_the_entropy_of_the_colours():
    made, batch = tiny_methods.method("masked-patches"), tiny_methods.batch(8)
    _, counts = np.unique(colour_numbers(pixels_of(batch), 1), return_counts=True)
    shares = counts / counts.sum()
    assert made.yardstick(batch.images) == pytest.approx(-(shares * np.log(shares)).sum(), rel=1e-4)


@pytest.mark.parametrize("target", ["mean-colour", "small-patch"])
def test_painted_colours_have_the_numbers_predicted(target):
    made, batch = tiny_methods.method("masked-patches", target=target), tiny_methods.batch(6)
    numbers = made.targets(batch.images).flatten(0, 1)  # M k
    logits = torch.nn.functional.one_hot(numbers, 512).float().flatten(1)
    painted = made.paint(logits, torch.zeros(96, 48))
    pixels = (painted * 0.3 + 0.4).mul(255).round().view(96, 4, 4, 3)[:, :: 4 // made.side, :: 4 // made.side]
    levels = (pixels / 32).floor().long()
    assert torch.equal((levels * torch.tensor([64, 8, 1])).sum(-1).flatten(1), numbers)


def test_grey_pictures_have_eight_colours_and_five_channels_too_many():
    grey = tiny_methods.encoder(channels=1)
    assert tiny_methods.method("masked-patches", grey).head.out_features == 8
    many = tiny_methods.encoder(channels=5)
    with pytest.raises(ConfigError, match="target=pixels"):
        tiny_methods.method("masked-patches", many)
    tiny_methods.method("masked-patches", many, target="pixels")
    with pytest.raises(ConfigError, match="mean-colour"):
        tiny_methods.method("masked-patches", target="meancolour")
