"""The model against its equations, its contract, and its promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from model.numpy_vit import forward as numpy_forward
from oracles import randomise
from vitrail import ViT, create_model
from vitrail.config import HEADS, NORMS, PATCHES, POOLS, POSITIONS
from vitrail.errors import ConfigError
from vitrail.model import vit
from vitrail.model.cost import count_parameters
from vitrail.model.patches import cut, join
from vitrail.model.vit import images_at_once, products_win

SMALL = {"image_size": 32, "patch_size": 8, "num_classes": 5, "dim": 64, "depth": 3, "heads": 4, "mlp_dim": 96}


def small(**changes):
    return randomise(ViT(**{**SMALL, "dim_head": 16, **changes}))


def pictures(model, batch=2, size=None, seed=0):
    torch.manual_seed(seed)
    return torch.randn(batch, model.config.channels, *(size or model.config.image_size))


@pytest.mark.parametrize("norm", NORMS)
def test_logits_equal_the_equations_in_numpy(norm):
    model = small(norm=norm)
    image = pictures(model, 1)
    state = {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}
    expected = numpy_forward(image[0].double().numpy(), state, patch=8, depth=3, heads=4, norm=norm)
    with torch.no_grad():
        np.testing.assert_allclose(model(image)[0].numpy(), expected, atol=1e-5)


PAPER_COUNTS = {  # PAPER.md: exact counts with 1000 classes and a single linear head
    "B/16": 86_567_656,
    "B/32": 88_224_232,
    "L/16": 304_326_632,
    "L/32": 306_535_400,
    "H/14": 632_045_800,
    "B/16@384": 86_859_496,
}


@pytest.mark.parametrize("name", PAPER_COUNTS)
def test_parameter_counts_are_the_papers(name):
    with torch.device("meta"):
        assert count_parameters(create_model(name)) == PAPER_COUNTS[name]


def test_convolution_and_flattened_patches_are_the_same_projection():
    conv = small()
    linear = small(patches="linear")
    state = conv.state_dict()
    kernel = state["patch_embed.proj.weight"]  # D C P P -> D P P C -> D PPC: channels last, as patches are flattened
    state["patch_embed.proj.weight"] = kernel.permute(0, 2, 3, 1).flatten(1)
    linear.load_state_dict(state)
    images = pictures(conv)
    with torch.no_grad():
        torch.testing.assert_close(conv(images), linear(images), atol=1e-6, rtol=0)


def test_cut_and_join_are_inverse_and_keep_pixels_in_place():
    images = torch.arange(2 * 3 * 8 * 12.0).reshape(2, 3, 8, 12)
    patches = cut(images, (4, 6))
    assert patches.shape == (2, 4, 72)
    assert torch.equal(patches[0, 1].reshape(4, 6, 3), images[0, :, 0:4, 6:12].permute(1, 2, 0))
    assert torch.equal(join(patches, (2, 2), (4, 6)), images)


def test_vit_takes_vit_pytorchs_words():
    """As seeds write it, keyword by keyword."""
    model = ViT(
        image_size=256,
        patch_size=32,
        num_classes=10,
        dim=64,
        depth=2,
        heads=16,
        mlp_dim=128,
        dropout=0.1,
        emb_dropout=0.1,
        pool="cls",
        channels=3,
    )
    assert model(torch.randn(1, 3, 256, 256)).shape == (1, 10)
    assert model.config.dim_head == 64
    assert model.blocks[0].attn.qkv.out_features == 3 * 16 * 64


COMBINATIONS = list(itertools.product(POSITIONS, POOLS, NORMS))


@pytest.mark.parametrize(("positions", "pool", "norm"), COMBINATIONS)
def test_every_combination_of_parts_runs_traces_and_reaches_every_weight(positions, pool, norm):
    """Equal logits by the fused path, the traced path and with gradients; no parameter is left without a gradient."""
    model = small(positions=positions, pool=pool, norm=norm, registers=2, qk_norm=True, layer_scale=0.1, channels=1)
    images = pictures(model)
    with torch.no_grad():
        fused = model(images)
    traced = model.trace(images)
    with_gradients = model(images)
    torch.testing.assert_close(traced.logits, fused, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(with_gradients, fused, atol=1e-5, rtol=1e-5)
    with_gradients.square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # Of the last block only the class token (and its twin) is read, and it has no offset to anything.
    unread = positions == "relative" and pool in ("cls", "cls+distill")
    assert silent == (["blocks.2.attn.positions.table"] if unread else [])


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("patches", PATCHES)
def test_heads_and_patches(head, patches):
    model = small(head=head, head_dim=7 if head == "relu" else None, patches=patches, patch_norm=patches == "linear")
    assert model(pictures(model)).shape == (2, 5)


def test_relu_head_is_the_worked_examples():
    model = small(head="relu", head_dim=4)
    features = torch.randn(3, 64)
    hidden = torch.relu(features @ model.pre_logits.fc.weight.T + model.pre_logits.fc.bias)
    torch.testing.assert_close(model.classify(features), hidden @ model.head.weight.T + model.head.bias)


def test_fresh_heads_start_at_zero_so_that_no_class_is_preferred():
    for head in HEADS:
        model = ViT(**SMALL, head=head).eval()
        assert torch.equal(model(pictures(model)), torch.zeros(2, 5))


def test_no_classes_means_features():
    model = small(num_classes=0)
    images = pictures(model)
    with torch.no_grad():
        assert torch.equal(model(images), model.features(images))


def test_rectangles_and_many_channels():
    model = small(image_size=(24, 40), patch_size=(8, 4), channels=7)
    assert model.config.grid == (3, 10)
    assert model(pictures(model)).shape == (2, 5)


@pytest.mark.parametrize("positions", POSITIONS)
def test_any_size_only_when_asked(positions):
    fixed, free = small(positions=positions), small(positions=positions, any_size=True)
    other = pictures(free, size=(48, 16))
    with pytest.raises(ConfigError, match=r"48x16 pixels, this model was built for 32x32; .*any_size=True"):
        fixed(other)
    with torch.no_grad():
        assert torch.isfinite(free(other)).all()
        assert torch.equal(free(pictures(free)), fixed(pictures(fixed)))
    with pytest.raises(ConfigError, match="image_size=50 is not a multiple of patch_size=8; use 48 or 56"):
        free(pictures(free, size=(50, 16)))


def test_wrong_images_get_one_line():
    model = small()
    with pytest.raises(ConfigError, match="add the batch dimension"):
        model(torch.randn(3, 32, 32))
    with pytest.raises(ConfigError, match="give 3 channels"):
        model(torch.randn(2, 1, 32, 32))


def test_inference_leaves_the_callers_tensors_alone():
    """Without gradients the model works in place, but only in memory of its own."""
    model = small()
    images = pictures(model)
    with torch.inference_mode():
        tokens, layout = model.embed(images)
        before, image_before = tokens.clone(), images.clone()
        model.encode(tokens, layout)
        model(images)
    assert torch.equal(tokens, before)
    assert torch.equal(images, image_before)


def test_autocast_keeps_the_residual_stream_in_full_precision():
    model = small()
    images = pictures(model)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        tokens, layout = model.embed(images)
        assert model.encode(tokens, layout).dtype == torch.float32


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(("dtype", "near"), [(None, 1e-5), (torch.bfloat16, 0.05)])
def test_attention_learns_the_same_as_products_and_fused(positions, dtype, near, monkeypatch):
    """As far as the numbers go, beside the largest gradient of each weight."""

    def gradients():
        model = small(positions=positions)
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            model(pictures(model)).square().mean().backward()
        return {name: weight.grad for name, weight in model.named_parameters()}

    as_products, asked = gradients(), list[int]()
    monkeypatch.setattr(vit, "products_win", lambda _q, k: bool(asked.append(k.shape[2])))
    fused = gradients()
    assert asked == [17] * 3
    for name, gradient in fused.items():
        torch.testing.assert_close(as_products[name], gradient, rtol=0, atol=near * gradient.abs().max().item())


def test_attention_is_two_products_only_with_gradients_and_few_tokens():
    def chosen(tokens, **facts):
        q = torch.zeros(1, 1, tokens, 8, **facts)
        return products_win(q, q)

    assert chosen(128, requires_grad=True)
    assert not chosen(128)
    assert not chosen(129, requires_grad=True)
    assert chosen(256, requires_grad=True, dtype=torch.bfloat16)
    assert not chosen(64, requires_grad=True, device="meta")


def test_only_the_class_token_of_the_last_block_is_computed():
    """The same logits, at fewer multiply-adds; a mean-pooled model needs every token."""
    model = small()
    images = pictures(model)
    tokens, layout = model.embed(images)
    with torch.no_grad():
        every = model.encode(tokens, layout)
        read = model.encode(tokens, layout, read=1)
    assert read.shape == (2, 1, 64)
    torch.testing.assert_close(read[:, 0], every[:, 0], atol=1e-6, rtol=0)
    assert model.attn_pool.reads == 1
    assert small(pool="mean").attn_pool.reads is None


def test_large_batches_go_through_in_groups_with_the_same_answers():
    model = small(mlp_dim=64 * 1024)
    images = pictures(model, 11)
    assert images_at_once(images, model.config) == 4
    with torch.no_grad():
        assert model(images[:0]).shape == (0, 5)
        in_groups = model(images)
    with torch.enable_grad():
        torch.testing.assert_close(in_groups, model(images), atol=1e-5, rtol=1e-5)


def test_drop_path_grows_with_depth():
    rates = [block.drop_path.probability for block in ViT(**SMALL, drop_path=0.2).blocks]
    assert rates == pytest.approx([0, 0.1, 0.2])


def test_dropout_is_where_the_paper_puts_it():
    """After every dense layer but qkv, and after the positions; attention weights are dropped only when asked."""
    model = ViT(**SMALL, dropout=0.5, emb_dropout=0.5)
    assert model.pos_drop.p == 0.5
    block = model.blocks[0]
    assert (block.attn.proj_drop.p, block.mlp.drop.p, block.attn.attn_drop) == (0.5, 0.5, 0.0)
    model.train()
    torch.manual_seed(0)
    tokens, _ = model.embed(pictures(model))
    assert (tokens == 0).float().mean() == pytest.approx(0.5, abs=0.05)


def test_compiles_and_exports_with_equal_logits():
    model = small(registers=1)
    images = pictures(model, 3)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (images,), dynamic_shapes=({0: batch},))
    with torch.no_grad():
        torch.testing.assert_close(program.module()(images[:2]), model(images[:2]), atol=1e-5, rtol=1e-5)


# ---- looking inside -------------------------------------------------------------------------------------------------


def test_trace_names_every_step():
    model = small(registers=2)
    images = pictures(model)
    trace = model.trace(images)
    assert trace.patches.shape == (2, 16, 8 * 8 * 3)
    assert trace.embeddings.shape == (2, 16, 64)
    assert trace.tokens.shape == (2, 19, 64)
    assert trace.block[0].attention.shape == (2, 4, 19, 19)
    assert trace["block.2.mlp_hidden"].shape == (2, 19, 96)
    assert trace.block[2].out.shape == trace.encoded.shape == (2, 19, 64)
    assert trace.features.shape == (2, 64)
    assert set(trace.block[1]) == {"q", "k", "v", "scores", "attention", "heads", "msa", "mlp_hidden", "mlp", "out"}
    with pytest.raises(ConfigError, match="did you mean 'tokens'"):
        trace["token"]
    with pytest.raises(AttributeError, match="no 'tokns'"):
        _ = trace.tokns


def test_the_trace_adds_up():
    model = small()
    trace = model.trace(pictures(model))
    block = trace.block[0]
    torch.testing.assert_close(block.attention @ block.v, block.heads)
    torch.testing.assert_close(trace.tokens + block.msa + block.mlp, block.out, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_attention_of_chosen_layers(norm):
    model = small(norm=norm)
    images = pictures(model)
    with torch.no_grad():
        maps = model.attention(images, layers=[-1, 0])
    trace = model.trace(images)
    torch.testing.assert_close(maps[0], trace.block[2].attention, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(maps[1], trace.block[0].attention, atol=1e-6, rtol=1e-5)
    for attention in maps:
        torch.testing.assert_close(attention.sum(-1), torch.ones_like(attention[..., 0]))
    assert len(model.attention(images)) == 3
    with pytest.raises(ConfigError, match="there is no layer 3; layers are 0 to 2"):
        model.attention(images, layers=[3])


def test_without_positions_patches_can_be_shuffled():
    """Attention alone does not know the order of its tokens: shuffling patches only shuffles tokens."""
    order = torch.randperm(16, generator=torch.Generator().manual_seed(1))
    for positions in POSITIONS:
        model = small(positions=positions)
        images = pictures(model, 1)
        shuffled = join(cut(images, (8, 8))[:, order], (4, 4), (8, 8))
        tokens, mixed = model.trace(images).encoded[:, 1:], model.trace(shuffled).encoded[:, 1:]
        equivariant = torch.allclose(tokens[:, order], mixed, atol=1e-4)
        assert equivariant == (positions == "none"), positions
