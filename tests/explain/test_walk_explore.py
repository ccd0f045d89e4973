"""What the page carries to be explored: it is what the model computed, it fits, and its reduction is a true sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import randomise
from vitrail.explain import walk_explore
from vitrail.explain.walk import describe_scene, scene_of
from vitrail.explain.walk_explore import ATTENTION_BYTES, choose_steps, explore, groups, membership
from vitrail.explain.walk_explore_html import reduced_words
from vitrail.explain.walk_html import page
from vitrail.explain.walk_scene import Scene
from vitrail.model.vit import ViT

SHAPE = {"image_size": (24, 20), "patch_size": (6, 4), "num_classes": 4, "dim": 16, "depth": 3, "heads": 2}
STEP = 1 / 255  # a share's square root is rounded to this


def scene(**parts: Any) -> Scene:
    model = randomise(ViT(**{**SHAPE, "mlp_dim": 24, "dim_head": 8, **parts}))
    config = model.config
    image = np.random.default_rng(0).integers(0, 256, (*config.image_size, config.channels), dtype=np.uint8)
    return scene_of(model, image, None)


def trace_of(made: Scene) -> Any:
    images = torch.from_numpy(made.pixels.copy()).permute(2, 0, 1)[None] / 127.5 - 1
    return made.model.trace(images)


def shares(stored: np.ndarray) -> np.ndarray:
    return (stored / 255.0) ** 2


@pytest.mark.parametrize("registers", [0, 2])
def test_it_is_what_the_model_computed(registers: int) -> None:
    made = scene(registers=registers)
    found, trace = explore(made), trace_of(made)
    assert found.front == ("class", "register 1", "register 2")[: 1 + registers]
    flow = np.eye(found.attention.shape[-1])
    for block in range(3):
        attention = trace[f"block.{block}.attention"][0].double().numpy()
        np.testing.assert_allclose(np.sqrt(shares(found.attention[block])), np.sqrt(attention), atol=STEP)
        flow = (attention.mean(axis=0) / 2 + np.eye(len(flow)) / 2) @ flow
        np.testing.assert_allclose(np.sqrt(shares(found.rollout[block])), np.sqrt(flow), atol=STEP)
        queries = found.queries[block] / 127 * found.query_scale[block][:, None, None]
        expected = trace[f"block.{block}.q"][0].numpy()
        np.testing.assert_allclose(queries, expected, atol=found.query_scale.max() / 127)


def test_the_last_block_says_what_the_walk_says() -> None:
    made = scene()
    names = describe_scene(made).ranking
    assert [name for name, _ in explore(made).answers[-1]] == [name for name, _ in names[:3]]
    assert [share for _, share in explore(made).answers[-1]] == pytest.approx([s for _, s in names[:3]], rel=1e-4)


@pytest.mark.parametrize("parts", [{"num_classes": 0}, {"pool": "cls+mean", "read_layers": (1, 3)}])
def test_no_answers_where_there_is_no_lens(parts: dict[str, Any]) -> None:
    assert explore(scene(**parts)).answers == ()


def test_groups_are_sums_of_what_is_looked_at_and_means_of_who_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    made = scene(depth=1)
    monkeypatch.setattr(walk_explore, "ATTENTION_BYTES", 3 * 7 * 7)
    found, attention = explore(made), trace_of(made)["block.0.attention"][0].double().numpy()
    assert (found.look_step, found.key_step) == (2, 2)  # 4 x 5 patches in 2 x 3 groups, the last ones narrower
    assert found.attention.shape == (1, 2, 7, 7)
    patches = attention[:, 1:, 1:].reshape(2, 4, 5, 4, 5)
    corner = patches[:, 2:4, 4:5, 0:2, 2:4]  # the last group looks at the second
    np.testing.assert_allclose(
        shares(found.attention)[0, :, 6, 2], corner.sum(axis=(3, 4)).mean(axis=(1, 2)), atol=0.02
    )
    assert "2 × 2 patches" in reduced_words(found)
    assert "2 × 2 patches" not in reduced_words(explore(scene(depth=1, image_size=(12, 8))))


@settings(max_examples=30)
@given(st.tuples(st.integers(1, 9), st.integers(1, 9)), st.integers(1, 4), st.integers(0, 3))
def test_every_token_belongs_to_one_group(grid: tuple[int, int], step: int, prefix: int) -> None:
    matrix = membership(grid, step, prefix)
    across = groups(grid, step)
    assert matrix.shape == (prefix + across[0] * across[1], prefix + grid[0] * grid[1])
    assert (matrix.sum(dim=0) == 1).all()
    assert (matrix.sum(dim=1) >= 1).all()


@pytest.mark.parametrize(
    ("depth", "heads", "grid", "steps"),
    [(12, 3, (14, 14), (1, 2)), (12, 12, (14, 14), (1, 2)), (24, 16, (24, 24), (3, 4)), (2, 2, (4, 4), (1, 1))],
)
def test_large_models_are_grouped_until_they_fit(depth: int, heads: int, grid: Any, steps: Any) -> None:
    look, key = choose_steps(depth, heads, 1, grid)
    rows, columns = groups(grid, look), groups(grid, key)
    assert depth * heads * (1 + rows[0] * rows[1]) * (1 + columns[0] * columns[1]) <= ATTENTION_BYTES
    assert (look, key) == steps


@pytest.mark.parametrize("size", [(224, 12, 12), pytest.param((384, 24, 16), marks=pytest.mark.full)])
def test_the_page_stays_below_three_megabytes_whatever_the_model(size: tuple[int, int, int]) -> None:
    pixels, depth, heads = size
    shape = {"image_size": pixels, "patch_size": 16, "dim": 16, "mlp_dim": 16, "dim_head": 4}
    made = scene(**shape, depth=depth, heads=heads, num_classes=1000)  # noise, which compresses worst
    assert len(page(describe_scene(made), explore(made)).encode()) < 3_000_000
