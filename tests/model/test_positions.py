"""Each position scheme against its formula, and interpolation against timm's."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import randomise, timm
from vitrail import ViT
from vitrail.model.positions import (
    Layout,
    offset_index,
    resize_grid,
    resize_positions,
    rotary_angles,
    sincos_1d,
    sincos_2d,
)

sides = st.integers(1, 9)
grids = st.tuples(sides, sides)


def vit(**changes):
    words = {
        "image_size": (24, 32),
        "patch_size": 8,
        "num_classes": 3,
        "dim": 32,
        "depth": 1,
        "heads": 2,
        "mlp_dim": 32,
    }
    return randomise(ViT(**{**words, "dim_head": 16, **changes}))


# ---- interpolation --------------------------------------------------------------------------------------------------


@given(grids, st.integers(0, 3))
def test_the_same_grid_is_left_alone(grid, prefix):
    table = torch.randn(1, prefix + grid[0] * grid[1], 4)
    assert resize_positions(table, grid, grid) is table


@settings(max_examples=60)
@given(grids, grids, st.integers(0, 5))
def test_interpolation_equals_timms(old, new, prefix):
    resample = timm().layers.resample_abs_pos_embed
    table = torch.randn(1, prefix + old[0] * old[1], 8, generator=torch.Generator().manual_seed(0))
    expected = resample(table, list(new), list(old), num_prefix_tokens=prefix)
    torch.testing.assert_close(resize_positions(table, old, new), expected, atol=1e-5, rtol=0)


@settings(max_examples=60)
@given(grids, grids)
def test_a_transposed_picture_gives_the_transposed_result(old, new):
    table = torch.randn(1, old[0] * old[1], 4, generator=torch.Generator().manual_seed(0))
    upright = resize_grid(table, old, new).reshape(*new, 4)
    lying = resize_grid(table.reshape(*old, 4).transpose(0, 1).reshape(1, -1, 4), old[::-1], new[::-1])
    torch.testing.assert_close(lying.reshape(new[1], new[0], 4).transpose(0, 1), upright, atol=1e-5, rtol=0)


@given(grids, grids)
@settings(max_examples=30)
def test_prefix_tokens_keep_their_positions(old, new):
    table = torch.randn(1, 2 + old[0] * old[1], 4)
    resized = resize_positions(table, old, new)
    assert torch.equal(resized[:, :2], table[:, :2])
    assert resized.shape == (1, 2 + new[0] * new[1], 4)


def test_interpolation_keeps_a_patch_at_its_place():
    """A table that is the row number stays the row number, in the new units, away from the border."""
    rows = torch.arange(8.0).repeat_interleave(4).reshape(1, 32, 1)
    doubled = resize_grid(rows, (8, 4), (16, 4)).reshape(16, 4)
    expected = (torch.arange(16) + 0.5) / 2 - 0.5
    torch.testing.assert_close(doubled[4:12, 0], expected[4:12], atol=1e-4, rtol=0)


# ---- formulas -------------------------------------------------------------------------------------------------------


def test_sincos_1d_is_the_transformers_formula():
    table = sincos_1d((3, 4), (3, 4), 16)[0]
    for position in range(12):
        for i in range(8):
            angle = position / 10_000 ** (2 * i / 16)
            assert table[position, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_sincos_2d_is_maes_formula():
    table = sincos_2d((3, 4), (3, 4), 16)[0].reshape(3, 4, 4, 4)  # row, column, (sin x, cos x, sin y, cos y), frequency
    for row in range(3):
        for column in range(4):
            for i in range(4):
                x, y = column / 10_000 ** (i / 4), row / 10_000 ** (i / 4)
                expected = [math.sin(x), math.cos(x), math.sin(y), math.cos(y)]
                assert table[row, column, :, i].tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("formula", [sincos_1d, sincos_2d])
def test_formulas_at_another_size_are_at_the_same_place_in_the_picture(formula):
    """With three times the patches, every third one lies in the middle of an old patch and says the same."""
    coarse, fine = formula((2, 4), (2, 4), 8)[0].reshape(2, 4, 8), formula((6, 12), (2, 4), 8)[0].reshape(6, 12, 8)
    torch.testing.assert_close(fine[1::3, 1::3], coarse, atol=1e-6, rtol=0)


def test_learned_2d_is_a_row_beside_a_column():
    model = vit(positions="learned-2d")
    assert model.pos_embed.shape == (1, 3 + 4, 16)
    added = model.positions.embedding(model.pos_embed, (3, 4))[0].reshape(3, 4, 32)
    for row in range(3):
        for column in range(4):
            expected = torch.cat([model.pos_embed[0, row], model.pos_embed[0, 3 + column]])
            assert torch.equal(added[row, column], expected)


def test_learned_patches_leaves_prefix_tokens_without_a_place():
    model = vit(positions="learned-patches", registers=2)
    trace = model.trace(torch.randn(1, 3, 24, 32))
    assert torch.equal(trace.tokens[:, :3], trace.sequence[:, :3])
    torch.testing.assert_close(trace.tokens[:, 3:] - trace.sequence[:, 3:], model.pos_embed.detach(), atol=1e-6, rtol=0)


def test_rotary_turns_pairs_by_row_and_column():
    angles = rotary_angles((3, 4), (3, 4), 16)
    for patch in range(12):
        row, column = divmod(patch, 4)
        expected = [row * 100 ** (-i / 4) for i in range(4)] + [column * 100 ** (-i / 4) for i in range(4)]
        assert angles[patch].tolist() == pytest.approx(expected, abs=1e-6)
    model = vit(positions="rotary")
    q = torch.randn(1, 1, 13, 16)
    turned, _ = model.blocks[0].attn.positions.turn(q, q, Layout((3, 4), 1))
    assert torch.equal(turned[:, :, 0], q[:, :, 0])  # the class token has no place
    pairs = torch.view_as_complex(torch.stack(q[0, 0, 1:].chunk(2, dim=-1), dim=-1))
    expected = pairs * torch.polar(torch.ones_like(angles), angles)
    torch.testing.assert_close(turned[0, 0, 1:], torch.cat([expected.real, expected.imag], dim=-1), atol=1e-5, rtol=0)


def test_rotary_scores_depend_on_the_offset_alone():
    model = vit(positions="rotary", image_size=(48, 48))
    q, k = torch.randn(16).expand(1, 1, 37, 16), torch.randn(16).expand(1, 1, 37, 16)
    q, k = model.blocks[0].attn.positions.turn(q, k, Layout((6, 6), 1))
    scores = (q @ k.transpose(-2, -1))[0, 0, 1:, 1:].reshape(6, 6, 6, 6)
    torch.testing.assert_close(scores[0, 0, 2, 1], scores[3, 2, 5, 3], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(scores[4, 4, 1, 5], scores[3, 3, 0, 4], atol=1e-4, rtol=1e-4)


def test_relative_bias_is_the_query_times_the_vector_of_the_offset():
    model = vit(positions="relative")
    attention = model.blocks[0].attn
    table = attention.positions.table.detach()[0].reshape(5, 7, 16)
    q = torch.randn(2, 2, 13, 16)
    bias = attention.positions.bias(q, 13, Layout((3, 4), 1))
    assert torch.equal(bias[:, :, 0], torch.zeros(2, 2, 13))
    assert torch.equal(bias[:, :, :, 0], torch.zeros(2, 2, 13))
    for query in range(12):
        for key in range(12):
            down, right = query // 4 - key // 4, query % 4 - key % 4
            expected = q[:, :, 1 + query] @ table[2 + down, 3 + right]
            torch.testing.assert_close(bias[:, :, 1 + query, 1 + key], expected, atol=1e-5, rtol=1e-5)


@given(grids)
@settings(max_examples=30)
def test_every_offset_has_its_own_row(grid):
    index = offset_index(grid)
    assert index.min() >= 0
    assert index.max() == (2 * grid[0] - 1) * (2 * grid[1] - 1) - 1
    assert torch.equal(index.diagonal(), index[0, 0].expand(grid[0] * grid[1]))


@pytest.mark.parametrize("scheme", ["rotary", "relative"])
def test_dropped_patches_keep_their_place(scheme):
    """Attention over some of the patches sees the same scores between them as attention over all."""
    model = vit(positions=scheme)
    attention = model.blocks[0].attn
    x = torch.randn(2, 13, 32)
    kept = torch.tensor([[0, 3, 7, 11], [2, 4, 5, 10]])
    some = torch.stack([x[b, torch.cat([torch.zeros(1, dtype=torch.long), 1 + kept[b]])] for b in range(2)])
    every, part = Layout((3, 4), 1), Layout((3, 4), 1, kept)
    recorded = {}

    class Keep:
        def __call__(self, name, value):
            recorded[name] = value
            return value

    q, k, _ = attention.queries_keys_values(x, every)
    attention.weights(q, k, every, Keep())
    full = recorded["scores"]
    q, k, _ = attention.queries_keys_values(some, part)
    attention.weights(q, k, part, Keep())
    for b in range(2):
        chosen = torch.cat([torch.zeros(1, dtype=torch.long), 1 + kept[b]])
        torch.testing.assert_close(recorded["scores"][b], full[b][:, chosen][:, :, chosen], atol=1e-5, rtol=1e-5)
