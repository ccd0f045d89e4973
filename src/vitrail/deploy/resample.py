"""The same weights on fewer pixels or larger patches: cheaper in proportion, and often nearly as good.

Larger patches are FlexiViT's (Beyer et al. 2023): the kernel is resized by the pseudo-inverse of the resizing of
pictures, so that a resized picture gives the same tokens as the original did.
"""

from __future__ import annotations

import dataclasses

import torch
import torch.nn.functional as F
from torch import Tensor

from vitrail.config import Pair, Preprocessing, ViTConfig
from vitrail.errors import ConfigError
from vitrail.model.sizes import ModelConfig
from vitrail.predict.predictor import papers_preprocessing
from vitrail.weights.adapt import State, build_with, resize_images
from vitrail.weights.artefact import Artefact


def at_size(artefact: Artefact, size: Pair | None) -> Artefact:
    """For pictures of another size. What belongs to the model stays with it."""
    if size is None or size == steps_of(artefact).size:
        return artefact
    return _moved(artefact, artefact.model.config, dict(artefact.model.state_dict()), size)


def with_patches(artefact: Artefact, patch: Pair, size: Pair) -> Artefact:
    """With patches of another size, cut from pictures of another size."""
    old = artefact.model.config
    if not isinstance(old, ViTConfig) or old.stem != "none" or old.patches != "conv":
        raise ConfigError("patches can be resized where they are cut from the picture itself", fix="use --sizes")
    state = dict(artefact.model.state_dict())
    kernel = resize_kernel(state["patch_embed.proj.weight"], patch)
    config = old.replace(patch_size=patch, image_size=(old.grid[0] * patch[0], old.grid[1] * patch[1]))
    return _moved(artefact, config, {**state, "patch_embed.proj.weight": kernel}, size)


def steps_of(artefact: Artefact) -> Preprocessing:
    """How pictures become the model's input, and with that the size of the pictures that it is used at."""
    return artefact.preprocessing or papers_preprocessing(artefact.model.config)


def _moved(artefact: Artefact, config: ModelConfig, state: State, size: Pair) -> Artefact:
    config, state = resize_images(config, state, size)
    steps = steps_of(artefact).replace(size=size)
    return dataclasses.replace(artefact, model=build_with(config, state), preprocessing=steps, golden=None)


def resize_kernel(kernel: Tensor, patch: Pair) -> Tensor:
    """D x C x P x Q to D x C x P' x Q': of all kernels, the one whose products with resized patches come closest."""
    old = (kernel.shape[2], kernel.shape[3])
    if old == patch:
        return kernel
    columns = torch.eye(old[0] * old[1], dtype=torch.float64).reshape(-1, 1, *old)
    resizing = F.interpolate(columns, size=patch, mode="bicubic", antialias=True).flatten(1).T  # P'Q' x PQ
    moved = kernel.double().flatten(2) @ torch.linalg.pinv(resizing)  # D C P'Q'
    return moved.reshape(*kernel.shape[:2], *patch).to(kernel.dtype)
