"""Similarities beside plain NumPy, and the shape of the paper's finding as numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from oracles import randomise
from vitrail.explain.similarity import (
    Positions,
    norm_outliers,
    position_shape,
    position_similarity,
    token_similarity,
    why_no_positions,
)
from vitrail.model.vit import ViT

SHAPE = {"image_size": (24, 16), "patch_size": (6, 4), "num_classes": 3, "dim": 16, "depth": 1, "heads": 2}


def made(**parts: Any) -> ViT:
    return randomise(ViT(**{**SHAPE, "mlp_dim": 8, **parts}))


def cosines(vectors: np.ndarray) -> np.ndarray:
    return np.array([[u @ v / math.sqrt((u @ u) * (v @ v)) for v in vectors] for u in vectors])


@pytest.mark.parametrize("registers", [0, 3])
def test_learned_positions(registers: int) -> None:
    model = made(registers=registers)
    found = position_similarity(model)
    table = model.state_dict()["pos_embed"][0, 1 + registers :].double().numpy()
    assert found.grid == (4, 4)
    np.testing.assert_allclose(found.similarity, cosines(table), atol=1e-5)


@pytest.mark.parametrize("scheme", ["learned-patches", "learned-2d", "sincos-1d", "sincos-2d"])
def test_every_scheme_that_adds_something(scheme: str) -> None:
    model = made(positions=scheme)
    assert why_no_positions(model) is None
    found = position_similarity(model).similarity
    assert found.shape == (16, 16)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-5)


@pytest.mark.parametrize("scheme", ["none", "relative", "rotary"])
def test_those_that_add_nothing_say_so(scheme: str) -> None:
    assert "no position embedding to compare" in (why_no_positions(made(positions=scheme)) or "")


@pytest.mark.parametrize("grid", [(3, 4), (1, 5), (1, 1)])
def test_by_steps_is_the_mean_along_rows_and_columns(grid: tuple[int, int]) -> None:
    count = grid[0] * grid[1]
    similarity = np.random.default_rng(0).normal(size=(count, count)).astype(np.float32)
    found = Positions("learned", grid, similarity).by_steps
    assert len(found) == max(grid) - 1
    for steps, mean in enumerate(found, 1):
        apart = [
            similarity[i, j]
            for i in range(count)
            for j in range(count)
            if (i // grid[1] == j // grid[1] and abs(i - j) == steps)
            or (i % grid[1] == j % grid[1] and abs(i - j) == steps * grid[1])
        ]
        assert mean == pytest.approx(np.mean(apart), abs=1e-6)


def test_the_shape_is_the_mean_over_the_pairs_it_names() -> None:
    rows, columns = 3, 4
    similarity = np.random.default_rng(0).normal(size=(12, 12)).astype(np.float32)
    pairs: dict[str, list[float]] = {"neighbours": [], "far": [], "same_row": [], "same_column": [], "elsewhere": []}
    for i in range(12):
        for j in range(12):
            (a, b), (c, d) = divmod(i, columns), divmod(j, columns)
            named = {
                "neighbours": abs(a - c) + abs(b - d) == 1,
                "far": math.hypot(a - c, b - d) >= math.hypot(rows - 1, columns - 1) / 2,
                "same_row": a == c and b != d,
                "same_column": b == d and a != c,
                "elsewhere": a != c and b != d,
            }
            for name in (name for name, belongs in named.items() if belongs):
                pairs[name].append(similarity[i, j])
    found = position_shape(similarity, (rows, columns))._asdict()
    assert found == pytest.approx({name: np.mean(values) for name, values in pairs.items()}, abs=1e-6)


def test_places_that_know_their_neighbours() -> None:
    shape = position_similarity(made(image_size=(48, 32), positions="sincos-2d")).shape
    assert shape.neighbours > shape.same_row > shape.elsewhere
    assert shape.neighbours > shape.far


def test_a_grid_without_such_pairs() -> None:
    assert position_shape(np.ones((1, 1), np.float32), (1, 1)) == (None,) * 5
    line = position_shape(np.ones((3, 3), np.float32), (1, 3))
    assert line.same_row == 1
    assert line.same_column is None


def test_tokens() -> None:
    patches = torch.randn(2, 7, 5, generator=torch.Generator().manual_seed(0))
    expected = [cosines(one)[~np.eye(7, dtype=bool)].mean() for one in patches.double().numpy()]
    np.testing.assert_allclose(token_similarity(patches), expected, atol=1e-6)
    assert token_similarity(torch.ones(1, 4, 3)).item() == pytest.approx(1)
    assert token_similarity(torch.ones(1, 1, 3)).isnan().all()


def test_outliers_stand_far_above_their_own_picture() -> None:
    norms = torch.tensor([[1.0, 1.0, 1.0, 9.0], [10.0, 9.0, 8.0, 9.0]])
    assert norm_outliers(norms).tolist() == [0.25, 0]
