"""A map is trusted where the answer comes from it, on answers whose origin is known."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from explain.test_methods import pictures, vit
from vitrail.explain.methods import explain
from vitrail.explain.trust import (
    CHANCE,
    FEW,
    LEAST,
    MANY,
    SHOWN,
    Judge,
    Trust,
    first_patches,
    random_maps,
    rank_correlation,
    shuffled_weights,
    smoothed,
)

GRID = (8, 8)


class Looks(torch.nn.Module):
    """Two classes, told by the brightness of 3 x 3 patches of 4 x 4 pixels; with little `strength` it hardly looks."""

    def __init__(self, row: int, column: int, strength: float = 12.0) -> None:
        super().__init__()
        self.place, self.strength = (slice(4 * row, 4 * row + 12), slice(4 * column, 4 * column + 12)), strength
        self.maps = lambda images: torch.zeros(len(images), 1, *GRID)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        seen = self.strength * (images[(..., *self.place)].mean((1, 2, 3)) - 0.5)
        return torch.stack([seen, -seen], dim=1)


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def judge(model, row=2, column=5):
    image = torch.zeros(1, 3, 32, 32)
    image[..., 4 * row : 4 * row + 12, 4 * column : 4 * column + 12] = 1
    return Judge(model, image, 0, softmax)


def spot(row, column):
    heat = np.zeros(GRID, np.float32)
    heat[row : row + 3, column : column + 3] = 1
    return heat


def test_a_map_of_the_right_place_is_trusted():
    found = judge(Looks(2, 5)).trust(spot(2, 5))
    assert found.better_than_random
    assert found.words == "better than random"
    assert found.insertion > 0.8 > 0.2 > found.deletion


def test_the_opposite_map_is_not_and_scores_the_opposite():
    tried = judge(Looks(2, 5))
    heat = random_maps(GRID, 1, 3)[0]
    one, other = tried.trust(heat), tried.trust(-heat)
    assert one.score == pytest.approx(-other.score, abs=1e-6)
    assert not tried.trust(-spot(2, 5)).better_than_random


def test_a_model_that_does_not_look_has_no_map_to_trust():
    found = judge(Looks(2, 5, strength=0.05)).trust(spot(2, 5))
    assert found.words == "no better than random"


def test_a_flat_map_is_not_trusted():
    assert not judge(Looks(0, 0), 0, 0).trust(np.ones(GRID, np.float32)).better_than_random


def test_chance_is_seldom_trusted():
    """At most one in twenty is promised; of 100 maps, 10 would be two sigma more than that."""
    tried = judge(Looks(2, 5))
    wrong = [tried.trust(heat).better_than_random for heat in random_maps(GRID, 100, seed=7)]
    assert sum(wrong) < 10


def test_trying_more_random_maps_where_few_cannot_tell_keeps_the_promise():
    """A chance map passes if none of the first few is as far from 0, or at last few enough of many: seldom enough."""
    enough = max(far for far in range(MANY) if (far + 1) / (MANY + 1) / 2 < CHANCE)
    in_many = (enough + 1) / (MANY + 1)
    in_few_only = sum(comb(MANY - FEW, far) / comb(MANY, far) for far in range(enough + 1, MANY)) / (MANY + 1)
    assert 0.8 * CHANCE < (in_many + in_few_only) / 2 <= CHANCE


def test_more_are_tried_only_where_few_cannot_tell():
    tried = judge(Looks(2, 5))
    assert tried.trust(spot(2, 5)).better_than_random
    assert not tried.trust(-spot(2, 5)).better_than_random
    assert len(tried.by_chance) == FEW
    near = max(tried.by_chance[:FEW])  # as good as the best of the few, and so not better than all of them
    assert tried._chance(near) < 1
    assert len(tried.by_chance) == MANY


def test_a_map_that_stays_when_the_weights_are_shuffled_says_so():
    tried, heat = judge(Looks(2, 5)), random_maps(GRID, 1, 0)[0]
    assert "hardly depends on the weights" in tried.trust(heat, heat).words
    assert "hardly" not in tried.trust(heat, random_maps(GRID, 1, 1)[0]).words


class Distracted(Looks):
    """Says less of a whole picture than of its part: the far corner speaks against the class."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        against = 8 * images[..., :8, :8].mean((1, 2, 3))
        return super().forward(images) - torch.stack([against, -against], dim=1)


def test_a_part_that_says_more_than_the_whole_counts_as_the_whole():
    image = torch.zeros(1, 3, 32, 32)
    image[..., 8:20, 20:32] = 1
    image[..., :8, :8] = 1
    found = Judge(Distracted(2, 5), image, 0, softmax).trust(spot(2, 5))
    assert 0 < found.deletion < found.insertion <= 1


def test_the_verdict_needs_both_a_distance_and_a_size():
    assert Trust(insertion=LEAST, deletion=0.0, chance=0.04).better_than_random
    assert not Trust(insertion=LEAST, deletion=0.01, chance=0.04).better_than_random
    assert not Trust(insertion=LEAST, deletion=0.0, chance=CHANCE).better_than_random
    document = Trust(0.5, 0.25, 0.2, 0.1).to_dict()
    assert (document["verdict"], document["score"]) == ("no better than random", 0.25)


@settings(max_examples=30)
@given(st.tuples(st.integers(1, 9), st.integers(1, 9)), st.integers(0, 2**31))
def test_patches_come_in_order_of_heat(grid, seed):
    heat = np.random.default_rng(seed).permutation(grid[0] * grid[1]).reshape(grid).astype(np.float32)
    shown, heat = first_patches(heat), smoothed(heat)
    for share, mask in zip(SHOWN[1:-1], shown.numpy() == 1, strict=True):
        assert mask.sum() == round(heat.size * share)
        if mask.any() and not mask.all():
            assert heat[mask].min() >= heat[~mask].max()


def test_rank_correlation_is_scipys():
    generator = np.random.default_rng(0)
    one, other = generator.random((2, 6, 7))
    assert rank_correlation(one, other) == pytest.approx(spearmanr(one.ravel(), other.ravel()).statistic)
    assert rank_correlation(one, np.exp(one)) == pytest.approx(1)
    assert rank_correlation(one, np.zeros((6, 7))) == 0


def test_shuffled_weights_keep_their_numbers_and_leave_the_model_alone():
    model = vit()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    other = shuffled_weights(model).state_dict()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
        assert torch.equal(other[name].flatten().sort().values, value.flatten().sort().values)
    assert not torch.equal(other["head.weight"], before["head.weight"])
    images = pictures()
    assert (
        abs(rank_correlation(explain(model, images).heat, explain(shuffled_weights(model), images, target=0).heat)) < 1
    )
