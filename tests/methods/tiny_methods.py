"""Encoders, pictures and settings small enough to pre-train in a test."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from train import tiny
from vitrail.config import Preprocessing
from vitrail.data.loader import Batch
from vitrail.methods.base import SelfSupervised
from vitrail.methods.registry import METHODS
from vitrail.model import ViT
from vitrail.train.pretraining_recipe import PretrainSettings

SMALL: dict[str, dict[str, Any]] = {
    "masked-patches": {},
    "mae": {"decoder_depth": 1, "decoder_dim": 32},
    "simmim": {},
    "dino": {"outputs": 16, "hidden": 16, "bottleneck": 8, "small_views": 2},
}


def encoder(**parts: Any) -> ViT:
    """4 x 4 patches of 4 pixels, 2 blocks."""
    usual = {"image_size": 16, "patch_size": 4, "num_classes": 0, "dim": 16, "depth": 2, "heads": 2, "dim_head": 8}
    return ViT(**{**usual, "mlp_dim": 32, "pool": "mean", "positions": "sincos-2d", "any_size": True, **parts})


def method(name: str, model: ViT | None = None, seed: int = 3, **settings: Any) -> SelfSupervised:
    torch.manual_seed(0)
    model = model or encoder()
    image = Preprocessing(model.config.image_size, (0.4,) * model.config.channels, (0.3,) * model.config.channels)
    return METHODS[name].build(model, METHODS[name].settings(**{**SMALL[name], **settings}), image, seed)


def batch(count: int = 8, model: ViT | None = None, first: int = 0) -> Batch:
    """Pictures that can be told apart and predicted: a colour that changes in a random direction."""
    config = (model or encoder()).config
    rows, columns = (np.linspace(0, 1, side) for side in config.image_size)
    made = []
    for index in range(first, first + count):
        random = np.random.default_rng(index)
        slopes = random.uniform(-1, 1, (2, config.channels, 1, 1))
        colour = random.uniform(0.3, 0.7, (config.channels, 1, 1))
        picture = colour + 0.15 * (slopes[0] * rows[None, :, None] + slopes[1] * columns[None, None, :])
        made.append((picture * 255).round() / 255)
    images = torch.tensor(np.stack(made), dtype=torch.float32)
    return Batch((images - 0.4) / 0.3, torch.zeros(count, dtype=torch.int64), torch.arange(first, first + count))


def settings(name: str, **changes: Any) -> PretrainSettings:
    """Of a run on `tiny.examples`, for a `Trainer`."""
    plain = tiny.settings(regularise={}, average=0.0, budget={"steps": 6}).to_dict()
    given = {"kind": name, **METHODS[name].settings(**SMALL[name]).to_dict()}
    model = {"kind": "vit", **encoder(dropout=0.1).config.to_dict()}
    return PretrainSettings.from_dict({**plain, "model": model, "method": given, **changes})
