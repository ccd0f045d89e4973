"""What methods share that hide patches."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from methods import tiny_methods
from vitrail.errors import ConfigError
from vitrail.methods.draws import Draws
from vitrail.methods.masked import lowest

MASKED = pytest.mark.parametrize("name", ["masked-patches", "mae", "simmim"])


@given(st.integers(2, 60), st.floats(0.01, 0.99), st.integers(0, 5))
@settings(max_examples=30)
def test_the_share_that_is_masked(count, share, seed):
    """As many as the share says, in every picture, and never none or all."""
    mask = lowest(Draws(seed, 0, torch.arange(3)).uniform(count, "mask"), share)
    assert mask.sum(dim=1).tolist() == [min(count - 1, max(1, round(count * share)))] * 3


def test_draws_are_the_same_in_any_company():
    whole = Draws(1, 2, torch.arange(10)).uniform(7, "mask")
    part = Draws(1, 2, torch.tensor([8, 3])).uniform(7, "mask")
    assert torch.equal(part, whole[[8, 3]])
    assert 0 <= whole.min() <= whole.max() < 1
    assert not torch.equal(whole, Draws(1, 2, torch.arange(10)).uniform(7, "other"))


@MASKED
def test_only_masked_patches_count(name):
    """Where the targets of visible patches are changed, the loss stays."""
    made, batch = tiny_methods.method(name).eval(), tiny_methods.batch(4)
    mask = made.choose(Draws(made.seed, 0, batch.indices))
    expected = made(batch, 0, 0, 0.0)
    plain = made.targets
    made.targets = lambda images: torch.where(mask[..., None], plain(images), torch.zeros_like(plain(images)))
    assert torch.equal(made(batch, 0, 0, 0.0), expected)


@MASKED
def test_previews_keep_what_is_visible(name):
    made, batch = tiny_methods.method(name).eval(), tiny_methods.batch(4)
    mask = made.choose(Draws(made.seed, 0, batch.indices))
    pixels = mask.unflatten(1, (4, 4)).repeat_interleave(4, 1).repeat_interleave(4, 2)
    shown = made.preview(batch)
    assert shown.original.shape == (4, 16, 16, 3)
    assert shown.original.dtype == torch.uint8
    expected = ((batch.images * 0.3 + 0.4) * 255).round().permute(0, 2, 3, 1)
    assert torch.equal(shown.original.float(), expected)
    for other in (shown.masked, shown.rebuilt):
        assert torch.equal(other[~pixels], shown.original[~pixels])


@MASKED
@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"stem": "conv"}, "shows through"),
        ({"pool": "attention"}, "does not train"),
        ({"final_norm": "pooled"}, "does not train"),
        ({"image_size": 4}, "one patch"),
        ({"num_classes": 3}, "num_classes=0"),
    ],
)
def test_encoders_that_cannot_learn_so(name, parts, said):
    with pytest.raises(ConfigError, match=said):
        tiny_methods.method(name, tiny_methods.encoder(**parts))
