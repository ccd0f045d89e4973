"""SimMIM beside a plain reference: the loss, and one step of the optimiser."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from methods import tiny_methods
from vitrail.errors import ConfigError
from vitrail.methods.draws import Draws


def reference_loss(made, images, mask):
    """As in the paper's code: mask token for embeddings, decoded to pixels, |x - x'| where masked, by how many."""
    model, size = made.model, 4
    embedded = nn.functional.conv2d(images, model.patch_embed.proj.weight, model.patch_embed.proj.bias, stride=size)
    tokens = embedded.flatten(2).transpose(1, 2)
    weight = mask[..., None].float()
    tokens = tokens * (1 - weight) + made.hide.mask_token * weight
    tokens = tokens + model.positions.embedding(None, (4, 4))
    layout = model.embed(images)[1]
    for block in model.blocks:
        tokens = block(tokens, layout)
    decoded = made.head(model.norm(tokens))  # B N 48: rows, columns, channels
    picture = decoded.reshape(-1, 4, 4, size, size, 3).permute(0, 5, 1, 3, 2, 4).reshape(images.shape)
    pixels = mask.reshape(-1, 1, 4, 4).float().repeat_interleave(size, 2).repeat_interleave(size, 3)
    return ((images - picture).abs() * pixels).sum() / pixels.sum() / 3


def test_loss_and_one_step_are_those_of_the_reference():
    made, batch = tiny_methods.method("simmim"), tiny_methods.batch(4)
    other = copy.deepcopy(made)
    mask = made.choose(Draws(made.seed, 2, batch.indices))
    found, expected = made(batch, 2, 0, 0.0), reference_loss(other, batch.images, mask)
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    for module, loss in ((made, found), (other, expected)):
        optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
        loss.backward()
        optimizer.step()
    # A step of Adam is a sign where a gradient is near zero, so its size is compared and not each single one.
    pairs = zip(made.named_parameters(), other.parameters(), strict=True)
    for (name, one), two in pairs:
        assert torch.allclose(one.grad, two.grad, atol=1e-5), name
        assert (one - two).abs().mean() < 1e-4, name


@pytest.mark.parametrize(("image", "masked"), [(16, 8), (20, 14)])
def test_whole_squares_are_masked_and_as_many_patches_of_every_picture(image, masked):
    """2 of 4 squares of 2 x 2 patches; on a grid of 5 x 5, where 5 of 9 are cut at the edge, one is masked in part."""
    made = tiny_methods.method("simmim", tiny_methods.encoder(image_size=image))
    side = image // 4
    mask = made.choose(Draws(1, 0, torch.arange(20))).unflatten(1, (side, side))
    assert mask.sum(dim=(1, 2)).tolist() == [masked] * 20
    rows = columns = range(0, side, 2)
    squares = torch.stack([mask[:, r : r + 2, c : c + 2].float().mean(dim=(1, 2)) for r in rows for c in columns])
    in_part = ((squares > 0) & (squares < 1)).sum(dim=0)
    assert in_part.max() == (0 if image == 16 else 1)
    assert squares.std(dim=1).min() > 0


def test_squares_must_be_smaller_than_the_picture():
    with pytest.raises(ConfigError, match="unit=1"):
        tiny_methods.method("simmim", unit=4)
