"""Grad-CAM beside pytorch-grad-cam: the same weights, the same layer, the same enlarging."""

from __future__ import annotations

import numpy as np
import pytest

import oracles  # noqa: F401  (first: pytorch-grad-cam imports torchvision)
from explain.test_methods import pictures, resnet, vit
from explain.test_rollout import timm_and_ours
from vitrail.explain.methods import explain

WHY = "grad-cam is the oracle of this test"


def both(model, layer, ours, images, target, reshape=None):
    """Their map and ours, from 0 to 1, at the size of the picture."""
    grad_cam = pytest.importorskip("pytorch_grad_cam", reason=WHY)
    from pytorch_grad_cam.utils.image import scale_cam_image
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    with grad_cam.GradCAM(model=model, target_layers=[layer], reshape_transform=reshape) as cam:
        theirs = cam(input_tensor=images, targets=[ClassifierOutputTarget(target)])[0]
    heat = explain(ours, images, "gradcam", target).heat
    assert np.ptp(heat) > 0
    return theirs, scale_cam_image(scale_cam_image(heat[None], images.shape[:1:-1]))[0]


def on_grid(tokens):
    return tokens[:, 1:].reshape(tokens.shape[0], 4, 4, -1).permute(0, 3, 1, 2)


@pytest.mark.parametrize("target", [0, 3])
def test_a_vit_as_pytorch_grad_cam_has_it(target):
    model, ours = timm_and_ours()
    found = both(model, model.blocks[-2], ours, pictures(size=(32, 32)), target, on_grid)
    np.testing.assert_allclose(*found, atol=1e-4)


def test_a_resnet_as_pytorch_grad_cam_has_it():
    model = resnet()
    found = both(model, model.norm, model, pictures(size=(32, 48)), 2)
    np.testing.assert_allclose(*found, atol=1e-4)


def test_what_speaks_against_the_class_is_left_out():
    for target in range(5):
        assert explain(vit(), pictures(), "gradcam", target).heat.min() >= 0
