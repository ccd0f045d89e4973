"""Distances and entropies, beside plain NumPy written from their definitions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vitrail.explain.distance import attention_distance, attention_entropy, attention_to_front, patch_distances

sides = st.integers(1, 5)


def some_attention(batch: int, heads: int, tokens: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (3 * torch.randn(batch, heads, tokens, tokens, generator=generator)).softmax(dim=-1)


def plain_distance(attention: np.ndarray, grid: tuple[int, int], patch: tuple[int, int], prefix: int) -> np.ndarray:
    """One loop for each word of the definition."""
    batch, heads, _, _ = attention.shape
    found = np.zeros((batch, heads))
    places = [(row * patch[0], column * patch[1]) for row in range(grid[0]) for column in range(grid[1])]
    for b in range(batch):
        for h in range(heads):
            means = []
            for q, here in enumerate(places):
                weights = attention[b, h, prefix + q, prefix:]
                means.append(np.average([math.dist(here, there) for there in places], weights=weights))
            found[b, h] = np.mean(means)
    return found


@settings(max_examples=30)
@given(st.tuples(sides, sides), st.tuples(sides, sides), st.integers(0, 3), st.integers(0, 99))
def test_attention_distance(grid: tuple[int, int], patch: tuple[int, int], prefix: int, seed: int) -> None:
    attention = some_attention(2, 3, prefix + grid[0] * grid[1], seed)
    found = attention_distance(attention, patch_distances(grid, patch))
    np.testing.assert_allclose(found, plain_distance(attention.double().numpy(), grid, patch, prefix), rtol=1e-5)


def test_looking_at_oneself_is_no_distance_and_at_all_the_mean_one() -> None:
    distances = patch_distances((3, 4), (16, 8))
    assert attention_distance(torch.eye(12).expand(1, 1, 12, 12), distances).item() == 0
    everywhere = attention_distance(torch.full((1, 1, 12, 12), 1 / 12), distances)
    assert everywhere.item() == pytest.approx(distances.mean().item())


def test_what_goes_to_the_class_token_does_not_shorten_the_distance() -> None:
    attention = some_attention(1, 2, 13)
    less = attention.clone()
    less[..., 1:] *= 0.01
    less[..., 0] = 1 - less[..., 1:].sum(dim=-1)
    distances = patch_distances((3, 4), (4, 4))
    torch.testing.assert_close(attention_distance(less, distances), attention_distance(attention, distances))
    nothing = torch.zeros(1, 1, 13, 13)
    nothing[..., 0] = 1
    assert attention_distance(nothing, distances).item() == 0


def test_entropy() -> None:
    attention = some_attention(2, 3, 9)
    rows = attention.double().numpy()
    np.testing.assert_allclose(attention_entropy(attention), -(rows * np.log2(rows)).sum(-1).mean(-1), rtol=1e-5)
    assert attention_entropy(torch.full((1, 1, 8, 8), 1 / 8)).item() == pytest.approx(3)
    assert attention_entropy(torch.eye(8).expand(1, 1, 8, 8)).item() == 0


def test_what_goes_to_the_tokens_in_front() -> None:
    attention = some_attention(2, 3, 9)
    expected = attention.numpy()[:, :, 2:, :2].sum(-1).mean(-1)
    np.testing.assert_allclose(attention_to_front(attention, 2), expected, rtol=1e-5)
    assert attention_to_front(attention, 0).tolist() == [[0, 0, 0]] * 2
