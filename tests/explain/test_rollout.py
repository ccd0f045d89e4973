"""Attention, rollout and gradient rollout, beside their definitions in NumPy and beside transformers and timm."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import oracles
from explain.test_methods import pictures, vit
from oracles import randomise
from vitrail import ViT, load
from vitrail.explain.attention import heads
from vitrail.explain.methods import explain, explain_batch

READ = {"cls": [0], "mean": range(3, 15)}  # tokens that pooling reads, with two registers


@pytest.mark.parametrize("pool", READ)
def test_rollout_is_its_definition(pool):
    model, images = vit(depth=3, registers=2, pool=pool, class_token=True), pictures()
    rolled = np.eye(15)
    for weights in model.attention(images):
        mixed = 0.5 * weights.detach().numpy()[0].astype(np.float64).mean(axis=0) + 0.5 * np.eye(15)
        rolled = mixed / mixed.sum(axis=1, keepdims=True) @ rolled
    expected = rolled[list(READ[pool])].mean(axis=0)[3:].reshape(3, 4)
    np.testing.assert_allclose(explain(model, images, "rollout").heat, expected, atol=1e-5)


def test_layers_that_the_head_reads_are_averaged():
    model, images = vit(depth=3, read_layers=(1, 3)), pictures()
    matrices = [0.5 * w.detach().numpy()[0].mean(axis=0) + 0.5 * np.eye(13) for w in model.attention(images)]
    expected = (matrices[0] + matrices[2] @ matrices[1] @ matrices[0])[0, 1:] / 2
    np.testing.assert_allclose(explain(model, images, "rollout").heat, expected.reshape(3, 4), atol=1e-5)


def test_attention_pooling_reads_by_its_own_weights():
    model, images = vit(pool="attention", class_token=False), pictures()
    pool, encoded = model.attn_pool, model.trace(images).encoded
    with torch.no_grad():
        q = pool.q(pool.latent).unflatten(-1, (2, -1)).transpose(1, 2)
        k = pool.kv(encoded).chunk(2, dim=-1)[0].unflatten(-1, (2, -1)).transpose(1, 2)
        weights = (q @ k.mT / 4).softmax(-1).mean(1)[0, 0].numpy()
        last = model.attention(images, [-1])[0][0].mean(0).numpy()
    np.testing.assert_allclose(explain(model, images, "attention").heat.ravel(), weights @ last, atol=1e-5)


def test_the_heads_average_to_the_last_attention():
    model, images = vit(registers=1), pictures(2)
    seen = heads(model, images)
    assert seen.shape == (2, 2, 2, 3, 4)
    for one, found in zip(seen, explain_batch(model, images, "attention"), strict=True):
        np.testing.assert_allclose(one[-1].mean(0).numpy(), found.heat, atol=1e-6)


def test_attention_is_that_of_transformers(tmp_path):
    api = oracles.transformers()
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}
    config = api.ViTConfig(image_size=32, patch_size=8, num_labels=5, attn_implementation="eager", **sizes)
    theirs = randomise(api.ViTForImageClassification(config))
    theirs.save_pretrained(tmp_path)
    images = pictures(size=(32, 32))
    with torch.no_grad():
        last = theirs(images, output_attentions=True).attentions[-1]
    expected = last[0].mean(0)[0, 1:].reshape(4, 4).numpy()
    np.testing.assert_allclose(explain(load(tmp_path).model, images, "attention").heat, expected, atol=1e-5)


def test_gradient_rollout_is_that_of_hooks_on_timm():
    """Chefer's own way: hooks on timm's attention dropout see the weights and, going back, their gradients."""
    theirs, ours = timm_and_ours()
    seen, gradients = [], []

    def hook(_module, _inputs, weights):
        seen.append(weights)
        weights.register_hook(gradients.append)

    for block in theirs.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(hook)
    images = pictures(size=(32, 32))
    theirs(images)[0, 3].backward()
    rolled = np.eye(17)
    for weights, gradient in zip(seen, reversed(gradients), strict=True):
        positive = (weights * gradient).clamp(min=0).mean(1)[0].detach().numpy()
        rolled = rolled + positive @ rolled
    found = explain(ours, images, "gradient-rollout", target=3).heat
    np.testing.assert_allclose(found, rolled[0, 1:].reshape(4, 4), atol=1e-5)


def timm_and_ours() -> tuple[torch.nn.Module, ViT]:
    """The same weights in timm's model and in ours, whose names are timm's."""
    timm = oracles.timm()
    sizes = {"embed_dim": 32, "depth": 3, "num_heads": 2, "mlp_ratio": 1.5}
    theirs = randomise(timm.models.VisionTransformer(img_size=32, patch_size=8, num_classes=5, **sizes))
    ours = vit(image_size=32, depth=3)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours
