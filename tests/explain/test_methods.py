"""Every method on every kind of model: shape, finiteness, classes, errors, and that the model is left as it was."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vitrail
from oracles import randomise
from vitrail import Artefact, Predictor, Preprocessing, ResNet, ResNetConfig, ViT, VitrailError
from vitrail.config import POOLS, POSITIONS
from vitrail.explain.methods import METHODS, explain, explain_batch, methods_for

CLASSES = ("ant", "bee", "cat", "dog", "eel")


def vit(**parts) -> ViT:
    usual = {"image_size": (24, 32), "patch_size": 8, "num_classes": 5, "dim": 32, "depth": 2, "heads": 2}
    return randomise(ViT(**{**usual, "mlp_dim": 48, "dim_head": 16, **parts}))


def resnet() -> ResNet:
    return randomise(
        ResNet(ResNetConfig(image_size=(32, 48), num_classes=5, blocks=(1, 1), bottleneck=False, width=32))
    )


def pictures(count: int = 1, size: tuple[int, int] = (24, 32), channels: int = 3) -> torch.Tensor:
    return torch.randn(count, channels, *size, generator=torch.Generator().manual_seed(1))


@settings(max_examples=25)
@given(
    st.sampled_from(sorted(METHODS)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.sampled_from(POOLS),
    st.sampled_from(POSITIONS),
    st.sampled_from(["pre", "post"]),
    st.integers(0, 2),
    st.sampled_from(["none", "conv"]),
    st.integers(1, 3),
    st.sampled_from([1, 4]),
)
def test_every_model_has_a_map_on_its_own_grid(method, grid, pool, positions, norm, registers, stem, depth, channels):
    size = (8 * grid[0], 8 * grid[1])
    parts = {"pool": pool, "positions": positions, "norm": norm, "registers": registers, "stem": stem}
    model = vit(image_size=size, depth=depth, channels=channels, **parts)
    found = explain_batch(model, pictures(2, size, channels), method)
    for one in found:
        assert one.heat.shape == grid
        assert one.heat.dtype == np.float32
        assert np.isfinite(one.heat).all()


@pytest.mark.parametrize("method", METHODS)
def test_hybrids_and_models_that_read_several_layers(method):
    hybrid = vit(image_size=32, patch_size=16, stem="resnet", stem_blocks=(1, 1))
    several = vit(depth=4, read_layers=(2, 4), pool="cls+mean")
    assert explain(hybrid, pictures(size=(32, 32)), method).heat.shape == (2, 2)
    assert explain(several, pictures(), method).heat.shape == (3, 4)


def test_other_sizes_have_other_grids():
    model = vit(any_size=True)
    assert explain(model, pictures(size=(40, 16)), "rollout").heat.shape == (5, 2)


@pytest.mark.parametrize("method", METHODS)
def test_company_does_not_change_a_map(method):
    model, images = vit(), pictures(3)
    together = explain_batch(model, images, method)
    for i, one in enumerate(together):
        np.testing.assert_allclose(explain(model, images[i], method).heat, one.heat, atol=1e-5)


@pytest.mark.parametrize("method", ["gradient-rollout", "attribution", "gradcam", "occlusion"])
def test_other_classes_have_other_maps(method):
    model, images = vit(), pictures()
    maps = [explain(model, images, method, target).heat for target in range(5)]
    assert all(np.abs(maps[0] - other).max() > 1e-6 for other in maps[1:])


def test_without_a_target_it_is_the_predicted_class():
    model, images = vit(), pictures()
    found = explain(model, images)
    with torch.no_grad():
        logits = model(images)[0].numpy()
    assert (found.method, found.target, found.label) == ("attribution", logits.argmax(), None)
    np.testing.assert_allclose(found.logits, logits, atol=1e-5)


def test_a_predictor_takes_pictures_and_knows_names():
    steps = Preprocessing(size=(24, 32), mean=(0.5,) * 3, std=(0.5,) * 3)
    predictor = Predictor.of(Artefact(vit(), CLASSES, steps))
    picture = np.random.default_rng(0).integers(0, 256, (60, 50, 3), np.uint8)
    assert explain(predictor, picture).label == predictor.predict(picture).label
    found = vitrail.explain(predictor, picture, target="bee")
    assert (found.target, found.label) == (1, "bee")
    assert found.enlarged((24, 32)).shape == (24, 32)
    with pytest.raises(VitrailError, match="a tensor goes with a model alone"):
        explain(predictor, pictures())
    with pytest.raises(VitrailError, match=r"there is no class 'be'; did you mean 'bee'"):
        explain(predictor, picture, target="be")


def test_a_resnet_is_explained_by_what_needs_no_attention():
    model = resnet()
    assert methods_for(model) == ["gradcam", "occlusion"]
    for method in methods_for(model):
        found = explain(model, pictures(size=(32, 48)), method)
        assert found.heat.shape == (4, 6)
        assert np.ptp(found.heat) > 0
    with pytest.raises(VitrailError, match="a ResNet has none of; use gradcam or occlusion"):
        explain(model, pictures(size=(32, 48)), "rollout")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"method": "roll-out"}, "there is no method 'roll-out'; did you mean 'rollout'"),
        ({"target": 5}, "there is no class 5; classes are 0 to 4"),
        ({"target": "ant"}, "there is no class 'ant'"),
        ({"image": pictures(2)}, "one picture, not 2"),
        ({"image": "photo.jpg"}, "a model alone takes a tensor"),
        ({"model": vit(num_classes=0)}, "no classes to explain"),
    ],
)
def test_wrong_use_is_said(arguments, words):
    with pytest.raises(VitrailError, match=words):
        explain(**{"model": vit(), "image": pictures(), **arguments})


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_left_as_it_was(method):
    model = vit(dropout=0.5).train()
    with torch.inference_mode():
        images = pictures()
    before = [parameter.clone() for parameter in model.parameters()]
    one = explain(model, images, method)
    with torch.inference_mode():
        again = explain(model, images, method)
    np.testing.assert_array_equal(one.heat, again.heat)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(*pair) for pair in zip(before, model.parameters(), strict=True))


def test_frozen_weights_do_not_matter():
    model, images = vit(), pictures()
    free = explain(model, images).heat
    np.testing.assert_array_equal(explain(model.requires_grad_(False), images).heat, free)
